"""Decides whether a query is answered at once or submitted."""

from deltaic.protocol.query_request import QueryRequest
from deltaic.sharing.answer import Answer, AskedHeaders
from deltaic.sharing.caller import Caller, TableName
from deltaic.sharing.context import Sharing
from deltaic.sharing.reading import reading


def query(sharing: Sharing, caller: Caller, name: TableName, request: QueryRequest, headers: AskedHeaders) -> Answer:
    """Answer POST .../query (PROTOCOL.md, "Read Data from a Table"); what can be refused is refused before a line."""
    options = headers.options()
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
