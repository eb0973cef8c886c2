"""GET /shares/{share}/all-tables: the tables of all schemas of a granted share."""

from deltaic.http.edge import buffered
from deltaic.http.listing_endpoints import list_all_tables

handler = buffered("list_all_tables", list_all_tables)
