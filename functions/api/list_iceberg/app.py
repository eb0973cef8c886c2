"""Iceberg's REST catalog, but for single tables: shares, schemas and tables, and the refusal of all that writes."""

from deltaic.http.edge import buffered
from deltaic.http.iceberg_endpoints import iceberg_error, list_iceberg

handler = buffered("list_iceberg", list_iceberg, iceberg_error)
