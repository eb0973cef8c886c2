"""Iceberg's REST catalog except for single tables: lists shares, schemas and tables, and refuses writes."""

from deltaic.http.edge import buffered
from deltaic.http.iceberg_endpoints import iceberg_error, list_iceberg

handler = buffered("list_iceberg", list_iceberg, iceberg_error)
