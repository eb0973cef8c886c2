"""Test buffered answers: in the format of API Gateway, and never truncated."""

import asyncio
import base64
import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from deltaic.http.asgi import Receive, Scope, Send
from deltaic.http.response_cycle import PRELUDE_LIMIT, prelude
from deltaic.http.streaming import FEWER_FILES, StreamingMangum
from deltaic.platform_limits import BUFFERED_BYTES
from hypothesis import given, settings
from hypothesis import strategies as st

EVENT: dict[str, Any] = {
    "resource": "/shares",
    "path": "/shares",
    "httpMethod": "GET",
    "headers": {},
    "multiValueHeaders": {},
    "requestContext": {},
    "body": None,
}
NDJSON = b"application/x-ndjson; charset=utf-8"


@pytest.fixture(scope="module", autouse=True)
def thread_event_loop() -> Iterator[None]:
    """Set an event loop for this thread: Mangum asks for it, and Python warns if none was ever set."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


def context(seconds: float = 29.0) -> Any:
    return SimpleNamespace(aws_request_id="r", get_remaining_time_in_millis=lambda: int(seconds * 1000))


def handler_of(*pieces: bytes, content_type: bytes = NDJSON, failure: Exception | None = None) -> Callable[..., Any]:
    async def app(_: Scope, __: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", content_type)]})
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if failure:
            raise failure
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return StreamingMangum(app, stream=False)


def test_ndjson_is_sent_as_text() -> None:
    answer = handler_of(b'{"a":1}\n', b'{"b":2}\n')(EVENT, context())
    assert answer["statusCode"] == 200
    assert answer["headers"] == {"content-type": NDJSON.decode()}
    assert (answer["body"], answer["isBase64Encoded"]) == ('{"a":1}\n{"b":2}\n', False)


def test_binary_body_is_sent_in_base64() -> None:
    answer = handler_of(b"\x1f\x8b\x08")(EVENT, context())
    assert answer["isBase64Encoded"] is True
    assert base64.b64decode(answer["body"]) == b"\x1f\x8b\x08"


@pytest.mark.parametrize(
    "size",
    [BUFFERED_BYTES, BUFFERED_BYTES - 10, BUFFERED_BYTES // 2 + 1024],
    ids=["above raw", "above with the envelope", "above when escaped"],
)
def test_answer_above_6_mb_is_refused_with_a_remedy(size: int) -> None:
    answer = handler_of(b'"' * size)(EVENT, context())
    document = json.loads(answer["body"])
    assert (answer["statusCode"], document["errorCode"]) == (400, "UNSUPPORTED_OPERATION")
    assert answer["headers"]["content-type"] == "application/json; charset=utf-8"
    assert "Accept-Encoding: gzip" in document["message"]
    assert "maxFiles" not in document["message"]
    assert "ResponseStreaming" not in document["message"]


def test_answer_just_below_6_mb_is_sent() -> None:
    answer = handler_of(b"x" * (BUFFERED_BYTES - 400))(EVENT, context())
    assert answer["statusCode"] == 200
    assert len(json.dumps(answer)) <= BUFFERED_BYTES


def test_failure_during_the_answer_is_a_500() -> None:
    answer = handler_of(b'{"a":1}\n', failure=LookupError("secret-of-the-app"))(EVENT, context())
    assert (answer["statusCode"], json.loads(answer["body"])) == (500, {"errorCode": "INTERNAL_ERROR", "message": ""})


@pytest.mark.parametrize(("body", "seconds"), [(b"x" * BUFFERED_BYTES, 29), (b"{}", 0)], ids=["too large", "late"])
def test_refused_answer_with_files_recommends_fewer_files(body: bytes, seconds: float) -> None:
    async def app(_: Scope, __: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    answer = StreamingMangum(app, stream=False, remedy=FEWER_FILES)(EVENT, context(seconds))
    assert json.loads(answer["body"])["message"].endswith(FEWER_FILES)


def test_late_answer_is_refused() -> None:
    answer = handler_of(b"{}\n")(EVENT, context(seconds=0))
    assert (answer["statusCode"], json.loads(answer["body"])["errorCode"]) == (400, "UNSUPPORTED_OPERATION")


def test_event_without_request_is_ignored() -> None:
    assert handler_of(b"{}\n")({"source": "aws.events"}, context()) is None


def test_answer_is_buffered_without_a_streaming_runtime() -> None:
    async def app(_: Scope, __: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}\n"})

    answer = StreamingMangum(app, stream=True)(EVENT, context())
    assert answer == b'{"statusCode":200,"headers":{}}' + b"\0" * 8 + b"{}\n"


TOKEN = st.from_regex(r"[a-z][a-z0-9-]{0,10}", fullmatch=True)
VALUE = st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFF), max_size=30)


@settings(deadline=None)  # must not fail on a busy machine
@given(st.lists(st.tuples(TOKEN, VALUE), max_size=20))
def test_prelude_has_all_headers_and_no_nul(headers: list[tuple[str, str]]) -> None:
    encoded = prelude(200, [(name.encode(), value.encode("latin-1")) for name, value in headers])
    assert len(encoded) <= PRELUDE_LIMIT
    assert encoded.endswith(b"\0" * 8)
    assert b"\0" not in encoded[:-8]
    head = json.loads(encoded[:-8])
    decoded = {(name, value) for name, value in head["headers"].items()}
    decoded |= {(name, value) for name, values in head.get("multiValueHeaders", {}).items() for value in values}
    decoded |= {("set-cookie", value) for value in head.get("cookies", [])}
    assert decoded == {(name, value) for name, value in headers if name != "transfer-encoding"}
