"""GET .../tables/{table}/changes: the files of the change data feed, with signed URLs."""

from deltaic.http.edge import streamed
from deltaic.http.table_endpoints import list_table_changes

handler = streamed("list_table_changes", list_table_changes)
