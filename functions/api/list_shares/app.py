"""GET /shares: the shares granted to the recipient."""

from deltaic.http.edge import buffered
from deltaic.http.listing_endpoints import list_shares

handler = buffered("list_shares", list_shares)
