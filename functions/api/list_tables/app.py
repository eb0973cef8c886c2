"""GET /shares/{share}/schemas/{schema}/tables: the tables of one schema of a granted share."""

from deltaic.http.edge import buffered
from deltaic.http.listing_endpoints import list_tables

handler = buffered("list_tables", list_tables)
