"""GET .../tables/{table}/version and the deprecated HEAD .../tables/{table}: the table's version in a header."""

from deltaic.http.edge import buffered
from deltaic.http.table_endpoints import get_table_version

handler = buffered("get_table_version", get_table_version)
