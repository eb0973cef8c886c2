"""Endpoints of tables: version, metadata, query and changes."""

from functools import partial

from deltaic.http.request import Request
from deltaic.http.response import Response, StreamedResponse
from deltaic.protocol import json_bodies
from deltaic.protocol.capabilities import FILE_ID_HASH_HEADER, HEADER, reply
from deltaic.protocol.changes_request import ChangesRequest
from deltaic.protocol.clients import follows_pages, reads_statistics
from deltaic.protocol.query_request import QueryRequest
from deltaic.protocol.requests import MetadataRequest, QueryResultRequest, VersionRequest
from deltaic.settings import settings
from deltaic.sharing import metadata, query
from deltaic.sharing.answer import Answer, ResponseOptions
from deltaic.sharing.change_feed import changes_query
from deltaic.sharing.runtime import connect_sessions, sharing
from deltaic.snapstart import call_after_restore, load_before_snapshot

load_before_snapshot(*query.BEFORE_SNAPSHOT, "zlib_ng.zlib_ng")
call_after_restore(connect_sessions)

VERSION_HEADER = "delta-table-version"


def get_table_version(request: Request) -> Response:
    """GET .../version, and the deprecated HEAD of the table: the version in a header, without a body."""
    number = metadata.get_version(sharing(), request.caller, request.table, VersionRequest.parse(request.query))
    request.caller.audit.add(version=number)
    return Response(headers={VERSION_HEADER: str(number)})


def get_table_metadata(request: Request) -> Response:
    """GET .../metadata: the protocol and metaData lines of a table."""
    answer = metadata.get_metadata(
        sharing(), request.caller, request.table, MetadataRequest.parse(request.query), partial(_options, request)
    )
    return Response(headers=_headers(request, answer), body=b"".join(answer.chunks))


def query_table(request: Request) -> StreamedResponse:
    """POST .../query: the files of the result; for an asynchronous query, one line with its id."""
    options = _options(request)
    query_request = QueryRequest.parse(request.body, async_query=options.capabilities.async_query)
    return _stream(request, query.query(sharing(), request.caller, request.table, query_request, options))


def get_query(request: Request) -> StreamedResponse:
    """POST .../queries/{queryId}: the result of an asynchronous query."""
    # Imported here, because the other endpoints do not need it.
    from deltaic.sharing import submissions

    answer = submissions.get_result(
        sharing(),
        request.caller,
        request.table,
        request.names["queryId"],
        request=QueryResultRequest.parse(request.body),
        read_options=partial(_options, request),
    )
    return _stream(request, answer)


def list_table_changes(request: Request) -> StreamedResponse:
    """GET .../changes: the files of the change data feed."""
    answer = changes_query.list_changes(
        sharing(), request.caller, request.table, ChangesRequest.parse(request.query), partial(_options, request)
    )
    return _stream(request, answer)


def _options(request: Request) -> ResponseOptions:
    client = request.headers.get("user-agent", "")
    return ResponseOptions.parse(
        request.headers.get(HEADER),
        request.headers.get(FILE_ID_HASH_HEADER),
        request.page_budget if follows_pages(client) else None,
        statistics=settings().unread_statistics == "enabled" or reads_statistics(client),
        user_agent=client,
    )


def _stream(request: Request, answer: Answer) -> StreamedResponse:
    return StreamedResponse(_headers(request, answer), answer.chunks, answer.failed)


def _headers(request: Request, answer: Answer) -> dict[str, str]:
    request.caller.audit.add(version=answer.version, format=answer.response_format)
    capabilities = reply(
        answer.response_format, end_stream_action=answer.negotiated_end, async_query=answer.asynchronous
    )
    headers = {"content-type": json_bodies.NDJSON_TYPE, VERSION_HEADER: str(answer.version), HEADER: capabilities}
    if answer.options.file_id_hash is not None:
        headers[FILE_ID_HASH_HEADER] = answer.options.file_id_hash
    return headers
