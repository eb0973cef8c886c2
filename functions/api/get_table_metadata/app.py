"""GET .../tables/{table}/metadata: the protocol and metaData lines of a table."""

from deltaic.http.edge import buffered
from deltaic.http.table_endpoints import get_table_metadata

handler = buffered("get_table_metadata", get_table_metadata)
