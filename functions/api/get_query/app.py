"""POST .../tables/{table}/queries/{queryId}: the result of an asynchronous query, with signed URLs."""

from deltaic.http.edge import streamed
from deltaic.http.table_endpoints import get_query

handler = streamed("get_query", get_query)
