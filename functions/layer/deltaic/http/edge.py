"""The way from an endpoint's use case to an ASGI app, and from the app to a Lambda handler.

`buffered(...)` answers a recipient whole; `streamed(...)` sends while it makes; `public(...)` answers anybody. All
catch everything: an error of the tree becomes the protocol's error object, anything else is logged and becomes 500
INTERNAL_ERROR with an empty message.
"""

import asyncio
import time
from collections.abc import Callable, Generator
from http import HTTPStatus
from typing import Any, Final

from msgspec.structs import replace

from deltaic.errors import DeltaicError
from deltaic.http.answer_limit import AnswerLimit
from deltaic.http.asgi import App, Message, Receive, Scope, Send
from deltaic.http.compression import end_with, gzip_chunks
from deltaic.http.cors import readable_by_pages
from deltaic.http.observability import Ended, Exchange, facts_of, logger, stack_of
from deltaic.http.request import PublicRequest, Request, read_public_request, read_request
from deltaic.http.response import Response, Stream, error_response
from deltaic.http.streaming import FEWER_FILES, DeadlineReached, StreamingMangum, answer_too_large
from deltaic.platform_limits import BUFFERED_BYTES
from deltaic.settings import settings
from deltaic.sharing.page_budget import PageBudget
from deltaic.snapstart import load_before_snapshot

UseCase = Callable[[Request], Response | Stream]
PublicUseCase = Callable[[PublicRequest], Response]
Refused = Callable[[DeltaicError, PublicRequest | None], Response]
Handler = Callable[[Any, Any], Any]

_BUFFERED_PAGE_BYTES: Final = BUFFERED_BYTES // 2
"""Lambda counts the JSON document around a buffered answer, in which each quote of its lines takes two bytes."""

load_before_snapshot("aws_lambda_powertools", "aws_lambda_powertools.metrics")


def buffered(endpoint: str, use_case: UseCase, refused: Refused = error_response) -> Handler:
    """Return the Lambda handler of an endpoint whose answers are small; `refused` answers with a failure."""
    return StreamingMangum(readable_by_pages(application(endpoint, use_case, refused=refused)), stream=False)


def public(endpoint: str, use_case: PublicUseCase) -> Handler:
    """Return the Lambda handler of an endpoint behind no authorizer; its log line has no names of the route."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        exchange = _exchange(endpoint, scope)
        try:
            request = await read_public_request(scope, receive)
            exchange = replace(exchange, request=request)
            answer = use_case(request)
        except Exception as error:  # noqa: BLE001 -- as in `application`
            answer = _failure(exchange, error)
        else:
            exchange.record(answer.status, "whole" if answer.status < HTTPStatus.BAD_REQUEST else "refused", {})
        await _send_whole(send, answer)

    return StreamingMangum(app, stream=False)


def streamed(endpoint: str, use_case: UseCase) -> Handler:
    """Return the Lambda handler of an endpoint that streams where the deployment does (RESPONSE_STREAMING)."""
    streams = settings().response_streaming == "enabled"
    page_bytes = settings().page_bytes if settings().server_pages == "enabled" else 0
    app = application(
        endpoint,
        use_case,
        stream=streams,
        most_bytes=settings().stream_limit_bytes,
        page_bytes=page_bytes if streams else min(page_bytes, _BUFFERED_PAGE_BYTES),
    )
    return StreamingMangum(readable_by_pages(app), stream=streams, remedy=FEWER_FILES)


def application(  # noqa: PLR0913 -- how an endpoint's answers leave
    endpoint: str,
    use_case: UseCase,
    *,
    stream: bool = False,
    most_bytes: int = 0,
    page_bytes: int = 0,
    refused: Refused = error_response,
) -> App:
    """Return the ASGI app of one endpoint.

    With `stream` a Stream leaves chunk by chunk, gzipped for clients that accept it, and `most_bytes` of it at most (0:
    without a limit); without, it is made whole first, so that a failure in the middle is still a clean error. Clients
    that follow are sent pages of at most `page_bytes` as they leave (0: only pages that they ask for).
    """

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        exchange = _exchange(endpoint, scope)
        try:
            request = replace(await read_request(scope, receive), page_budget=PageBudget(page_bytes))
            exchange = replace(exchange, request=request)
            answer = use_case(request)
            if isinstance(answer, Stream) and not stream:
                answer = Response(headers=answer.headers, body=_whole(answer))
            limit = AnswerLimit(most_bytes, request.page_budget, gzip=_accepts_gzip(request))
        except Exception as error:  # noqa: BLE001 -- whatever it is, the caller gets the protocol's error object
            answer = _failure(exchange, error, refused)
        else:
            if isinstance(answer, Stream):
                await _send_stream(exchange, answer, send, limit, request.page_budget)
                return
            exchange.record(answer.status, "whole", {})
            if len(answer.body) > _BUFFERED_PAGE_BYTES and limit.gzip:
                headers = {**answer.headers, "content-encoding": "gzip", "vary": "accept-encoding"}
                packed = gzip_chunks([answer.body], lambda _: b"", request.page_budget)
                answer = replace(answer, headers=headers, body=b"".join(packed))
        await _send_whole(send, answer)

    return app


def _exchange(endpoint: str, scope: Scope) -> Exchange:
    return Exchange(endpoint, (scope["aws.event"].get("requestContext") or {}).get("requestId", ""))


def _failure(exchange: Exchange, error: Exception, refused: Refused = error_response) -> Response:
    """Record what went wrong before an answer began, and return the answer."""
    if isinstance(error, DeltaicError):
        answer = refused(error, exchange.request)
        exchange.record(answer.status, "refused", facts_of(error))
        return answer
    logger().error("unexpected failure", extra={"stack": stack_of(error)})
    answer = refused(DeltaicError(""), exchange.request)
    exchange.record(answer.status, "refused", facts_of(error), failed=True)
    return answer


def _whole(stream: Stream) -> bytes:
    """Return the answer in one piece; raises the refusal as soon as it cannot leave so, not when it is complete."""
    parts: list[bytes] = []
    size = 0
    for chunk in stream.chunks:
        parts.append(chunk)
        size += len(chunk)
        if size > BUFFERED_BYTES:
            raise answer_too_large(FEWER_FILES)
    return b"".join(parts)


async def _send_stream(exchange: Exchange, stream: Stream, send: Send, limit: AnswerLimit, budget: PageBudget) -> None:
    """Send the stream; a source that fails, a limit or time that is up ends it with its `failed` line and is raised."""
    headers = dict(stream.headers)
    if limit.gzip:
        headers |= {"content-encoding": "gzip", "vary": "accept-encoding"}
    chunks = (gzip_chunks if limit.gzip else end_with)(limit.pieces(stream.chunks), stream.failed, budget)
    await _send_start(send, HTTPStatus.OK, headers)
    source_failed = True
    unsent = b""
    try:
        for chunk in chunks:
            source_failed, unsent = False, chunk
            await send(_part(chunk))
            source_failed, unsent = True, b""
            if exchange.first_byte is None:
                exchange = replace(exchange, first_byte=time.perf_counter())
            budget.sent += len(chunk)
        source_failed = False
        await send({"type": "http.response.body", "body": b""})
    except (DeadlineReached, asyncio.CancelledError) as error:
        # Told by `send`, which then has sent nothing, or cancelled while it waits for a slow reader, who is still
        # there: it takes some last bytes.
        held = unsent if isinstance(error, DeadlineReached) else b""
        await send(_part(held + _closing(chunks)))
        exchange.record(HTTPStatus.OK, "failed", facts_of(error), failed=True)
        raise
    except Exception as error:
        if source_failed:
            logger().error("the stream broke off", extra={"stack": stack_of(error)})
        ended: Ended = "failed" if source_failed else "abandoned"
        exchange.record(HTTPStatus.OK, ended, facts_of(error), failed=source_failed)
        raise
    exchange.record(HTTPStatus.OK, "whole", {})


def _closing(chunks: Generator[bytes]) -> bytes:
    """Return what ends an answer whose time is up; nothing where all of it has been made."""
    try:
        return chunks.throw(DeadlineReached("the function's time is nearly up"))
    except DeadlineReached:
        return b""


def _part(chunk: bytes) -> Message:
    return {"type": "http.response.body", "body": chunk, "more_body": True}


async def _send_whole(send: Send, answer: Response) -> None:
    await _send_start(send, answer.status, dict(answer.headers))
    await send({"type": "http.response.body", "body": answer.body})


async def _send_start(send: Send, status: int, headers: dict[str, str]) -> None:
    pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})


def _accepts_gzip(request: Request) -> bool:
    for offer in request.headers.get("accept-encoding", "").lower().split(","):
        coding, _, weight = offer.partition(";")
        if coding.strip() in {"gzip", "*"}:
            return weight.replace(" ", "") not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    return False
