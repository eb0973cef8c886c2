"""GET .../tables/{table} of Iceberg's REST catalog, and .../credentials: a table's metadata and file access."""

from deltaic.http.edge import buffered
from deltaic.http.iceberg_endpoints import iceberg_error
from deltaic.http.iceberg_table_endpoints import load_iceberg_table

handler = buffered("load_iceberg_table", load_iceberg_table, iceberg_error)
