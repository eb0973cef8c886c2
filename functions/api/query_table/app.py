"""POST .../tables/{table}/query: the files of a query's result, with signed URLs."""

from deltaic.http.edge import streamed
from deltaic.http.table_endpoints import query_table

handler = streamed("query_table", query_table)
