"""Wrap an endpoint's use case as an ASGI app, and the app as a Lambda handler.

`buffered` sends a complete response, `streamed` sends it chunk by chunk, and `public` serves requests without a token.
All three catch every exception: a DeltaicError becomes the protocol's error object; any other exception is logged and
becomes 500 INTERNAL_ERROR with an empty message.
"""

import asyncio
import gc
import time
from collections.abc import Callable, Generator
from functools import cache
from http import HTTPStatus
from typing import Any, Final

from msgspec.structs import replace

from deltaic.errors import DeltaicError
from deltaic.http.answer_limit import AnswerLimit
from deltaic.http.asgi import App, Message, Receive, Scope, Send
from deltaic.http.compression import end_with, gzip_chunks
from deltaic.http.cors import allow_pages
from deltaic.http.observability import Ended, RequestLog, error_fields, format_stack, logger
from deltaic.http.request import PublicRequest, Request, read_public_request, read_request
from deltaic.http.response import Response, StreamedResponse, error_response
from deltaic.http.streaming import FEWER_FILES, DeadlineReached, StreamingMangum, too_large_error
from deltaic.platform_limits import BUFFERED_BYTES
from deltaic.settings import settings
from deltaic.sharing.page_budget import PageBudget
from deltaic.snapstart import load_before_snapshot

UseCase = Callable[[Request], Response | StreamedResponse]
PublicUseCase = Callable[[PublicRequest], Response]
ErrorHandler = Callable[[DeltaicError, PublicRequest | None], Response]
Handler = Callable[[Any, Any], Any]

_BUFFERED_PAGE_BYTES: Final = BUFFERED_BYTES // 2
"""Page size of buffered responses: half of Lambda's limit, because quotation marks take two bytes in its JSON."""

load_before_snapshot("aws_lambda_powertools", "aws_lambda_powertools.metrics")


def buffered(endpoint: str, use_case: UseCase, on_error: ErrorHandler = error_response) -> Handler:
    """Return the Lambda handler of an endpoint with small responses; `on_error` creates its error responses."""
    return StreamingMangum(allow_pages(application(endpoint, use_case, on_error=on_error)), stream=False)


def public(endpoint: str, use_case: PublicUseCase) -> Handler:
    """Return the Lambda handler of an endpoint without authorizer; its log line omits route parameters."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        request_log = _start_request_log(endpoint, scope)
        try:
            request = await read_public_request(scope, receive)
            request_log = replace(request_log, request=request)
            answer = use_case(request)
        except Exception as error:  # noqa: BLE001 -- as in `application`
            answer = _log_failure(request_log, error)
        else:
            request_log.record(answer.status, "whole" if answer.status < HTTPStatus.BAD_REQUEST else "refused", {})
        await _send_response(send, answer)

    return StreamingMangum(app, stream=False)


def streamed(endpoint: str, use_case: UseCase) -> Handler:
    """Return the Lambda handler of an endpoint that streams if RESPONSE_STREAMING is enabled."""
    streams = settings().response_streaming == "enabled"
    page_bytes = settings().page_bytes if settings().server_pages == "enabled" else 0
    app = application(
        endpoint,
        use_case,
        stream=streams,
        most_bytes=settings().stream_limit_bytes,
        page_bytes=page_bytes if streams else min(page_bytes, _BUFFERED_PAGE_BYTES),
    )
    return StreamingMangum(allow_pages(app), stream=streams, remedy=FEWER_FILES)


def application(  # noqa: PLR0913 -- options of an endpoint
    endpoint: str,
    use_case: UseCase,
    *,
    stream: bool = False,
    most_bytes: int = 0,
    page_bytes: int = 0,
    on_error: ErrorHandler = error_response,
) -> App:
    """Return the ASGI app of one endpoint.

    With `stream`, a StreamedResponse is sent chunk by chunk, compressed for clients that accept gzip, up to
    `most_bytes` (0 for no limit). Otherwise it is collected first, so that an exception still becomes an error
    response. Clients that follow page tokens get pages of at most `page_bytes` (0: only pages that they request).
    """

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        request_log = _start_request_log(endpoint, scope)
        try:
            request = replace(await read_request(scope, receive), page_budget=PageBudget(page_bytes))
            request_log = replace(request_log, request=request)
            answer = use_case(request)
            if isinstance(answer, StreamedResponse) and not stream:
                answer = Response(headers=answer.headers, body=_join_chunks(answer))
            limit = AnswerLimit(most_bytes, request.page_budget, gzip=_accepts_gzip(request))
        except Exception as error:  # noqa: BLE001 -- clients always get the protocol's error object
            answer = _log_failure(request_log, error, on_error)
        else:
            if isinstance(answer, StreamedResponse):
                await _send_stream(request_log, answer, send, limit, request.page_budget)
                return
            request_log.record(answer.status, "whole", {})
            if len(answer.body) > _BUFFERED_PAGE_BYTES and limit.gzip:
                headers = {**answer.headers, "content-encoding": "gzip", "vary": "accept-encoding"}
                compressed = gzip_chunks([answer.body], lambda _: b"", request.page_budget)
                answer = replace(answer, headers=headers, body=b"".join(compressed))
        await _send_response(send, answer)

    return app


def _start_request_log(endpoint: str, scope: Scope) -> RequestLog:
    return RequestLog(endpoint, (scope["aws.event"].get("requestContext") or {}).get("requestId", ""))


def _log_failure(request_log: RequestLog, error: Exception, on_error: ErrorHandler = error_response) -> Response:
    """Log an exception that was raised before the response started, and return the error response."""
    if isinstance(error, DeltaicError):
        answer = on_error(error, request_log.request)
        request_log.record(answer.status, "refused", error_fields(error))
        return answer
    logger().error("the endpoint raised an unexpected exception", extra={"stack": format_stack(error)})
    answer = on_error(DeltaicError(""), request_log.request)
    request_log.record(answer.status, "refused", error_fields(error), failed=True)
    return answer


def _join_chunks(stream: StreamedResponse) -> bytes:
    """Join the chunks of a response; raises UnsupportedOperation as soon as it exceeds BUFFERED_BYTES."""
    parts: list[bytes] = []
    size = 0
    for chunk in stream.chunks:
        parts.append(chunk)
        size += len(chunk)
        if size > BUFFERED_BYTES:
            raise too_large_error(FEWER_FILES)
    return b"".join(parts)


@cache
def _freeze_modules() -> None:
    """Exclude all objects of loaded modules from garbage collections, each of which would take 40 ms."""
    gc.freeze()


async def _send_stream(
    request_log: RequestLog, stream: StreamedResponse, send: Send, limit: AnswerLimit, budget: PageBudget
) -> None:
    """Send the stream; if its source raises or a limit is reached, append the line from `stream.failed` and raise."""
    _freeze_modules()
    headers = dict(stream.headers)
    if limit.gzip:
        headers |= {"content-encoding": "gzip", "vary": "accept-encoding"}
    chunks = (gzip_chunks if limit.gzip else end_with)(limit.pieces(stream.chunks), stream.failed, budget)
    await _send_start(send, HTTPStatus.OK, headers)
    is_source_error = True
    unsent = b""
    try:
        for chunk in chunks:
            is_source_error, unsent = False, chunk
            await send(_body_message(chunk))
            is_source_error, unsent = True, b""
            if request_log.first_byte is None:
                request_log = replace(request_log, first_byte=time.perf_counter())
            budget.sent += len(chunk)
        is_source_error = False
        await send({"type": "http.response.body", "body": b""})
    except (DeadlineReached, asyncio.CancelledError) as error:
        # `send` raises DeadlineReached before it sends its chunk, and is cancelled while it waits for a slow client.
        pending = unsent if isinstance(error, DeadlineReached) else b""
        await send(_body_message(pending + _last_lines(chunks)))
        request_log.record(HTTPStatus.OK, "failed", error_fields(error), failed=True)
        raise
    except Exception as error:
        if is_source_error:
            logger().error("the stream ended with an error", extra={"stack": format_stack(error)})
        ending: Ended = "failed" if is_source_error else "abandoned"
        request_log.record(HTTPStatus.OK, ending, error_fields(error), failed=is_source_error)
        raise
    request_log.record(HTTPStatus.OK, "whole", {})


def _last_lines(chunks: Generator[bytes]) -> bytes:
    """Return the error line for a response that reached the time limit; empty if all chunks have been created."""
    try:
        return chunks.throw(DeadlineReached("the function's time limit is nearly reached"))
    except DeadlineReached:
        return b""


def _body_message(chunk: bytes) -> Message:
    return {"type": "http.response.body", "body": chunk, "more_body": True}


async def _send_response(send: Send, answer: Response) -> None:
    await _send_start(send, answer.status, dict(answer.headers))
    await send({"type": "http.response.body", "body": answer.body})


async def _send_start(send: Send, status: int, headers: dict[str, str]) -> None:
    pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})


def _accepts_gzip(request: Request) -> bool:
    for item in request.headers.get("accept-encoding", "").lower().split(","):
        coding, _, weight = item.partition(";")
        if coding.strip() in {"gzip", "*"}:
            return weight.replace(" ", "") not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    return False
