"""Decides whether a query is answered at once or submitted."""

from typing import Final

from deltaic import partition_filters, pruning, storage
from deltaic.protocol.query_request import QueryRequest
from deltaic.sharing import rights
from deltaic.sharing.answer import Answer, ResponseOptions
from deltaic.sharing.caller import Caller, RequestedTable
from deltaic.sharing.context import Sharing
from deltaic.sharing.query_reading import reading

BEFORE_SNAPSHOT: Final = (
    "deltaic.catalog.submitted_queries",
    "deltaic.sharing.submissions",
    *partition_filters.BEFORE_SNAPSHOT,
    *pruning.BEFORE_SNAPSHOT,
    *rights.BEFORE_SNAPSHOT,
    *storage.BEFORE_SNAPSHOT,
)
"""Modules that the first request for a table may import; a snapshot of the process has them already."""


def query(
    sharing: Sharing, caller: Caller, name: RequestedTable, request: QueryRequest, options: ResponseOptions
) -> Answer:
    """Answer POST .../query (PROTOCOL.md, "Read Data from a Table"); what can be refused is refused before a line."""
    table = sharing.table(caller, name)
    table.audit_request(request)
    table.require_url_access()
    request.check_gate(table.gate)
    # Pages of an answer that came at once are answered at once too; those of a submitted query are asked for there.
    if options.capabilities.async_query and request.idempotency_key is not None and request.page_token is None:
        # Few queries are submitted: the others do not pay for the imports.
        from deltaic.sharing import submissions

        return submissions.submit(sharing, table, request, options)
    return reading(sharing, table, request, options).answer()
