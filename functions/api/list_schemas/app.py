"""GET /shares/{share}/schemas: the schemas of a granted share."""

from deltaic.http.edge import buffered
from deltaic.http.listing_endpoints import list_schemas

handler = buffered("list_schemas", list_schemas)
