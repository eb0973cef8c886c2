"""Queries that are submitted now and answered later: what is refused, what is pinned, whose it is.

Nothing runs in between. A submission refuses by rights, version and format, pins them and records the request; whoever
asks for the result gets what the query itself would have answered then (decision 19).
"""

import json
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from deltaic.catalog.submitted_queries import Query
from deltaic.protocol import lines
from deltaic.protocol.continuations import PageClaims, check_rights
from deltaic.protocol.query_request import QueryRequest
from deltaic.protocol.requests import QueryResultRequest
from deltaic.protocol.sealed_tokens import checksum
from deltaic.sharing.answer import Answer, ReadOptions, ResponseOptions
from deltaic.sharing.caller import Caller, RequestedTable
from deltaic.sharing.context import SharedTable, Sharing
from deltaic.sharing.query_reading import reading


def submit(sharing: Sharing, table: SharedTable, request: QueryRequest, options: ResponseOptions) -> Answer:
    """Accept a query (PROTOCOL.md, "asyncQuery"); returns its status, which is `pending`.

    The same recipient's same request with the same key gets the same answer for as long as the query lasts.
    """
    store = sharing.queries()
    query_id = _identify(table, request, options)
    query = store.find(table.caller.recipient_id, table.entry.id, query_id)
    if query is None:
        page = reading(sharing, table, request, options).pin()
        query = store.submit(
            Query(
                id=query_id,
                recipient_id=table.caller.recipient_id,
                table_id=table.entry.id,
                parameters=json.dumps(body_of(request)),
                version=page.version,
                end_version=page.end_version,
                latest_version=page.latest_version,
                response_format=page.response_format,
                log_id=page.log_id,
                file_id_hash=options.file_id_hash,
                rights=table.rights.identity,
                expires_at=store.expiry(),
            )
        )
    return Answer(
        version=query.version,
        response_format=query.response_format,
        options=options,
        chunks=[lines.query_status(query.id)],
        asynchronous=True,
    )


def get_result(  # noqa: PLR0913 -- the parts of one request
    sharing: Sharing,
    caller: Caller,
    name: RequestedTable,
    query_id: str,
    *,
    request: QueryResultRequest,
    read_options: ReadOptions,
) -> Answer:
    """Answer a submitted query as if it had been asked for now, at its version and in its format, or a page of it.

    Rights are those of now. The page size and the file ids are those of the submission where this request names none.
    """
    options_now = read_options()
    table = sharing.table(caller, name)
    table.require_url_access()
    query = sharing.queries().get(caller.recipient_id, table.entry.id, query_id)
    check_rights(query.rights, table.rights.identity)
    submitted = QueryRequest.parse(query.parameters.encode())
    submitted = replace(
        submitted,
        max_files=request.max_files or submitted.max_files,
        page_token=request.page_token,
        include_refresh_token=submitted.include_refresh_token and request.page_token is None,
    )
    table.audit_request(submitted)
    submitted.check_gate(table.gate)
    options = replace(
        options_now,
        capabilities=replace(options_now.capabilities, response_formats=(query.response_format,)),
        file_id_hash=options_now.file_id_hash or query.file_id_hash,
    )
    pinned = PageClaims(
        query.version, query.end_version, query.latest_version, query.response_format, query.log_id, position=()
    )
    answer = reading(sharing, table, submitted, options, call=query.id, pinned=pinned).answer()
    return replace(answer, asynchronous=options_now.capabilities.async_query)


def _identify(table: SharedTable, request: QueryRequest, options: ResponseOptions) -> str:
    """Return the id: the same for all that the protocol counts as retries of one submission, and for nothing else."""
    return checksum({
        "recipient": table.caller.recipient_id,
        "table": table.entry.id,
        "key": request.idempotency_key,
        "parameters": body_of(request),
        "refreshToken": request.refresh_token,
        "responseFormats": options.capabilities.response_formats,
        "readerFeatures": sorted(options.capabilities.reader_features),
        "fileIdHash": options.file_id_hash,
        "rights": table.rights.identity,
    })  # fmt: skip


def body_of(request: QueryRequest) -> Mapping[str, Any]:
    """Return the body that asks for the same, without what the submission alone needs: key and tokens."""
    body = {**request.fingerprint, "maxFiles": request.max_files}
    return {**body, "includeRefreshToken": request.include_refresh_token} if request.names_refresh_token else body
