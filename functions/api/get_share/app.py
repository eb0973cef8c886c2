"""GET /shares/{share}: one share granted to the recipient."""

from deltaic.http.edge import buffered
from deltaic.http.listing_endpoints import get_share

handler = buffered("get_share", get_share)
