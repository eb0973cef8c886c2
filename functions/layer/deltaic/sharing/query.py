"""Run a query at once, or store it to run it later (asyncQuery)."""

from typing import Final

from deltaic import partition_filters, pruning, storage
from deltaic.protocol.query_request import QueryRequest
from deltaic.sharing import rights
from deltaic.sharing.answer import Answer, ResponseOptions
from deltaic.sharing.caller import Caller, RequestedTable
from deltaic.sharing.context import Sharing
from deltaic.sharing.query_reading import open_query

BEFORE_SNAPSHOT: Final = (
    "deltaic.catalog.submitted_queries",
    "deltaic.sharing.iceberg_tables",
    "deltaic.sharing.submissions",
    "pyarrow.parquet",
    *partition_filters.BEFORE_SNAPSHOT,
    *pruning.BEFORE_SNAPSHOT,
    *rights.BEFORE_SNAPSHOT,
    *storage.BEFORE_SNAPSHOT,
)
"""Modules that the first request for a table may import, so that SnapStart imports them in advance."""


def query(
    sharing: Sharing, caller: Caller, name: RequestedTable, request: QueryRequest, options: ResponseOptions
) -> Answer:
    """Return the response to POST .../query; raise all errors about the request before its first line."""
    table = sharing.table(caller, name)
    table.audit_request(request)
    table.require_url_access()
    request.check_gate(table.gate)
    # Submitted queries have another endpoint for later pages: here a page token is of a query without submission.
    if options.capabilities.async_query and request.idempotency_key is not None and request.page_token is None:
        # Imported here, because few queries are submitted.
        from deltaic.sharing import submissions

        return submissions.submit(sharing, table, request, options)
    return open_query(sharing, table, request, options).answer()
