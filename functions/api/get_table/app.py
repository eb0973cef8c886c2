"""GET /shares/{share}/schemas/{schema}/tables/{table}: one table, and the formats in which it can be read."""

from deltaic.http.edge import buffered
from deltaic.http.listing_endpoints import get_table

handler = buffered("get_table", get_table)
