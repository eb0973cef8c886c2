"""Test how endpoints send answers: buffered, in chunks, compressed, and with failures and deadlines."""

import asyncio
import gzip
import json
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from asgi_app import FAILED, answer_of, body_of, run, scope
from deltaic.errors import NotFound, TooManyRequests
from deltaic.http.asgi import Message, Send
from deltaic.http.asset_endpoints import asset_kind
from deltaic.http.edge import UseCase, application
from deltaic.http.request import Request
from deltaic.http.response import Response, StreamedResponse
from deltaic.http.streaming import DeadlineReached
from msgspec import structs


def streaming(chunks: Iterator[bytes]) -> UseCase:
    return lambda _: StreamedResponse(headers={"x": "y"}, chunks=chunks, failed=lambda _: FAILED)


def raises_not_found(_: object) -> Response:
    raise NotFound("no such table")


@pytest.mark.parametrize(
    ("use_case", "stream", "status"),
    [
        pytest.param(streaming(iter([b"one\n"])), True, 200, id="stream"),
        pytest.param(streaming(iter([b"one\n"])), False, 200, id="whole"),
        pytest.param(raises_not_found, False, 404, id="refusal"),
    ],
)
def test_audit_line_has_recipient_token_and_address(
    caplog: pytest.LogCaptureFixture, use_case: UseCase, stream: bool, status: int
) -> None:
    answer_of(use_case, stream=stream)
    [line] = [record.__dict__ for record in caplog.records if record.getMessage() == "request"]
    names = ("status", "ended", "requestId", "recipientId", "tokenId", "sourceIp")
    assert {name: line[name] for name in names} == {
        "status": status,
        "ended": "whole" if status == 200 else "refused",
        "requestId": "q-1",
        "recipientId": "alice",
        "tokenId": "t",
        "sourceIp": "203.0.113.7",
    }


def test_audit_line_has_the_end_of_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    """There is one line for each request, with the fields that the use case has added."""

    def use_case(request: Request) -> StreamedResponse:
        def chunks() -> Iterator[bytes]:
            for size in (10, 20):
                request.caller.audit.metrics.add(1, size)
                yield b"one\n"

        request.caller.audit.add(tableId="t-1", version=7, limit=None)
        return StreamedResponse(headers={}, chunks=chunks(), failed=lambda _: FAILED)

    with suppress(RuntimeError):
        answer_of(streaming(failing_source()), stream=True)
    answer_of(use_case, stream=True)
    answer_of(use_case, stream=True, refuse_after=2)
    with suppress(ConnectionResetError):
        run(application("test", use_case, stream=True)(scope(), receive_nothing, leaving_after_the_head()))
    lines = [record.__dict__ for record in caplog.records if hasattr(record, "requestId")]
    assert [(line["ended"], line.get("files"), line.get("bytes")) for line in lines] == [
        ("failed", None, None),
        ("whole", 2, 30),
        ("failed", 2, 30),
        ("abandoned", 1, 10),
    ]
    assert [(line["tableId"], line["version"], "limit" in line) for line in lines[1:]] == [("t-1", 7, False)] * 3


def test_metrics_without_dimension_have_first_bytes_and_broken_streams(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POWERTOOLS_METRICS_DISABLED", "false")
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "deltaic-test")

    def slow_at_its_end() -> Iterator[bytes]:
        yield b"one\n"
        time.sleep(0.05)
        yield b"two\n"

    for chunks in (slow_at_its_end(), failing_source()):
        with suppress(RuntimeError):
            answer_of(streaming(chunks), stream=True)
    answer_of(raises_not_found, stream=False)
    emitted = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"_aws"' in line]
    by_dimensions: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for line in emitted:
        [directive] = line["_aws"]["CloudWatchMetrics"]
        assert directive["Namespace"] == "Deltaic"
        assert line["service"] == "deltaic-test"
        by_dimensions.setdefault(tuple(sorted(directive["Dimensions"][0])), []).append(line)
    endpoint_metrics, service_metrics = by_dimensions["endpoint", "service"], by_dimensions["service",]
    assert [line["BrokenStreams"] for line in service_metrics] == [[0], [1], [0]]
    assert [line["Failures"] for line in endpoint_metrics] == [[0], [1], [0]]
    [first_byte], [latency] = service_metrics[0]["FirstByte"], endpoint_metrics[0]["Latency"]
    assert first_byte + 50 <= latency + 0.2  # both values are rounded


@pytest.mark.parametrize("kind", ["volume", "skill", "model"])
def test_log_and_metrics_name_the_kind_of_asset(
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    """Test a function that answers requests for all kinds of assets."""
    monkeypatch.setenv("POWERTOOLS_METRICS_DISABLED", "false")
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "deltaic-test")

    def use_case(request: Request) -> Response:
        route = f"/shares/{{share}}/schemas/{{schema}}/{kind}s/{{{kind}}}/files"
        assert asset_kind(structs.replace(request, route=route), "list_{}_files") == kind
        return Response()

    answer_of(use_case, stream=False)
    [line] = [record.__dict__ for record in caplog.records if record.getMessage() == "request"]
    emitted = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"_aws"' in line]
    assert line["endpoint"] == f"list_{kind}_files"
    assert [line["endpoint"] for line in emitted if "endpoint" in line] == [f"list_{kind}_files"]


async def receive_nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


def leaving_after_the_head() -> Send:
    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            raise ConnectionResetError

    return send


def failing_source() -> Iterator[bytes]:
    yield b"one\n"
    raise RuntimeError("the store does not answer")


def test_stream_is_sent_chunk_by_chunk() -> None:
    sent, error = answer_of(streaming(iter([b"one\n", b"two\n"])), stream=True)
    assert error is None
    assert [message.get("body") for message in sent[1:]] == [b"one\n", b"two\n", b""]
    assert sent[-1].get("more_body", False) is False


def test_failing_source_ends_with_the_failed_line_and_fails_the_stream() -> None:
    sent, error = answer_of(streaming(failing_source()), stream=True)
    assert isinstance(error, RuntimeError)
    assert body_of(sent) == b"one\n" + FAILED
    assert sent[-1]["more_body"] is True, "the app must not end a failed stream as complete"


def test_deadline_ends_with_the_failed_line() -> None:
    sent, error = answer_of(streaming(iter([b"one\n", b"two\n", b"three\n"])), stream=True, refuse_after=2)
    assert isinstance(error, DeadlineReached)
    assert body_of(sent) == b"one\ntwo\n" + FAILED


@pytest.mark.parametrize("after", range(1, 5))
def test_compressed_answer_is_readable_up_to_the_failed_line(after: int) -> None:
    lines = [b"%064d\n" % number * 5000 for number in range(3)]  # each more than a flush
    accepts_gzip: Any = {"accept-encoding": "gzip"}
    sent, error = answer_of(streaming(iter(lines)), stream=True, refuse_after=after, **accepts_gzip)
    assert isinstance(error, DeadlineReached)
    body = gzip.decompress(body_of(sent))
    assert body == b"".join(lines) if after == 4 else body == b"".join(lines[:after]) + FAILED
    assert sent[-1]["more_body"] is True


def test_deadline_at_the_end_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    for after in range(1, 4):
        answer_of(streaming(iter([b"one\n"])), stream=True, refuse_after=after)
    ended = [record.__dict__["ended"] for record in caplog.records if hasattr(record, "requestId")]
    assert ended == ["failed", "failed", "whole"]


def test_cancelled_answer_to_a_slow_client_ends_with_the_failed_line() -> None:
    sent: list[Message] = []

    async def slow_once(message: Message) -> None:
        if message.get("body") == b"two\n":
            await asyncio.sleep(3600)
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def within_limits() -> None:
        app = application("test", streaming(iter([b"one\n", b"two\n"])), stream=True)
        async with asyncio.timeout(0.2):
            await app(scope(), receive, slow_once)

    with pytest.raises(TimeoutError):
        run(within_limits())
    assert body_of(sent) == b"one\n" + FAILED


def test_client_that_leaves_is_not_a_failure_of_the_source() -> None:
    async def leave(message: Message) -> None:
        if message["type"] == "http.response.body":
            raise ConnectionResetError("the client has left")

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    with pytest.raises(ConnectionResetError):
        run(application("test", streaming(iter([b"one\n"])), stream=True)(scope(), receive, leave))


def test_buffered_answer_is_refused_as_soon_as_it_is_too_large() -> None:
    chunks = 0

    def endless() -> Iterator[bytes]:
        nonlocal chunks
        while True:
            chunks += 1
            yield b"x" * 100_000

    sent, error = answer_of(streaming(endless()), stream=False)
    assert error is None
    assert sent[0]["status"] == 400
    assert "maxFiles" in json.loads(body_of(sent))["message"]
    assert chunks < 100


def test_failed_compressed_stream_is_complete_gzip_with_the_failed_line() -> None:
    sent, error = answer_of(streaming(failing_source()), stream=True, accept_encoding="gzip, deflate")
    assert isinstance(error, RuntimeError)
    assert dict(sent[0]["headers"])[b"content-encoding"] == b"gzip"
    assert gzip.decompress(body_of(sent)) == b"one\n" + FAILED


@pytest.mark.parametrize(
    ("accept_encoding", "compressed"),
    [
        ("gzip", True),
        ("deflate, gzip;q=0.5", True),
        ("*", True),
        ("gzip;q=0", False),
        ("identity", False),
        ("", False),
    ],
)
def test_gzip_is_used_if_the_client_accepts_it(accept_encoding: str, compressed: bool) -> None:
    sent, _ = answer_of(streaming(iter([b"one\n"])), stream=True, accept_encoding=accept_encoding)
    assert (b"content-encoding" in dict(sent[0]["headers"])) is compressed
    body = body_of(sent)
    assert (gzip.decompress(body) if compressed else body) == b"one\n"


def test_first_chunk_of_a_compressed_stream_is_readable_at_once() -> None:
    sent, _ = answer_of(streaming(iter([b"head\n", b"x" * 1000])), stream=True, accept_encoding="gzip")
    import zlib

    assert zlib.decompressobj(wbits=31).decompress(sent[1]["body"]) == b"head\n"


def test_failing_source_of_a_buffered_answer_is_a_500() -> None:
    sent, error = answer_of(streaming(failing_source()), stream=False)
    assert error is None
    assert sent[0]["status"] == 500
    assert json.loads(body_of(sent)) == {"errorCode": "INTERNAL_ERROR", "message": ""}


@pytest.mark.parametrize("raised", [NotFound("share 'x' not found"), TooManyRequests("slow down")], ids=["404", "429"])
def test_deltaic_error_keeps_its_status_code_and_message(raised: NotFound | TooManyRequests) -> None:
    def use_case(_: object) -> Response:
        raise raised

    sent, error = answer_of(use_case, stream=False)
    assert error is None
    assert sent[0]["status"] == raised.status
    assert json.loads(body_of(sent)) == {"errorCode": raised.code, "message": raised.message}


def test_request_without_authorizer_is_401() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    bare = {**scope(), "aws.event": {"requestContext": {}}}
    run(application("test", lambda _: Response())(bare, receive, send))
    assert sent[0]["status"] == 401
