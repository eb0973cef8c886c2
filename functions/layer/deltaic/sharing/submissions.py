"""Store a submitted query (asyncQuery), and return its result later, at the same version and in the same format.

No process runs in between. A submission checks rights, version and format, and stores them with the request. The later
request for the result gets the response that the query would have returned at once (decision 19).
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
from deltaic.sharing.query_reading import open_query


def submit(sharing: Sharing, table: SharedTable, request: QueryRequest, options: ResponseOptions) -> Answer:
    """Store a query (PROTOCOL.md, "asyncQuery") and return its id and status.

    If the recipient repeats the request with the same idempotency key, it gets the same id until the query expires.
    """
    store = sharing.queries()
    query_id = _identify(table, request, options)
    query = store.find(table.caller.recipient_id, table.entry.id, query_id)
    if query is None:
        page = open_query(sharing, table, request, options).pin()
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
    """Return a page of a submitted query, at the version and in the format of its submission.

    The recipient's current rights apply. The request can override the submitted page size and hash for file ids.
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
    answer = open_query(sharing, table, submitted, options, call=query.id, pinned=pinned).answer()
    return replace(answer, asynchronous=options_now.capabilities.async_query)


def _identify(table: SharedTable, request: QueryRequest, options: ResponseOptions) -> str:
    """Return the query id: a checksum that is the same only for retries of one submission."""
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
    """Return the request body of a query, without its idempotency key and tokens."""
    body = {**request.fingerprint, "maxFiles": request.max_files}
    return {**body, "includeRefreshToken": request.include_refresh_token} if request.names_refresh_token else body
