"""Iceberg's REST catalog except for single tables: lists shares, schemas and tables, and rejects writes."""

from deltaic.http.edge import buffered
from deltaic.http.iceberg_endpoints import iceberg_error, list_iceberg

handler = buffered("list_iceberg", list_iceberg, iceberg_error)
