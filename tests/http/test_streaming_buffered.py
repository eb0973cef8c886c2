"""Without streaming an answer is whole, of a form that API Gateway takes, and never cut."""

import base64
import json
from collections.abc import Callable
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


def context(seconds: float = 29.0) -> Any:
    return SimpleNamespace(aws_request_id="r", get_remaining_time_in_millis=lambda: int(seconds * 1000))


def answering(*pieces: bytes, content_type: bytes = NDJSON, failure: Exception | None = None) -> Callable[..., Any]:
    async def app(_: Scope, __: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", content_type)]})
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if failure:
            raise failure
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return StreamingMangum(app, stream=False)


def test_ndjson_leaves_as_text() -> None:
    answer = answering(b'{"a":1}\n', b'{"b":2}\n')(EVENT, context())
    assert answer["statusCode"] == 200
    assert answer["headers"] == {"content-type": NDJSON.decode()}
    assert (answer["body"], answer["isBase64Encoded"]) == ('{"a":1}\n{"b":2}\n', False)


def test_bytes_that_are_no_text_leave_in_base64() -> None:
    answer = answering(b"\x1f\x8b\x08")(EVENT, context())
    assert answer["isBase64Encoded"] is True
    assert base64.b64decode(answer["body"]) == b"\x1f\x8b\x08"


@pytest.mark.parametrize(
    "size",
    [BUFFERED_BYTES, BUFFERED_BYTES - 10, BUFFERED_BYTES // 2 + 1024],
    ids=["above raw", "above with the envelope", "above when escaped"],
)
def test_an_answer_above_6_mb_is_refused_with_the_remedy(size: int) -> None:
    answer = answering(b'"' * size)(EVENT, context())
    document = json.loads(answer["body"])
    assert (answer["statusCode"], document["errorCode"]) == (400, "UNSUPPORTED_OPERATION")
    assert answer["headers"]["content-type"] == "application/json; charset=utf-8"
    assert "Accept-Encoding: gzip" in document["message"]
    assert "maxFiles" not in document["message"]
    assert "ResponseStreaming" not in document["message"]


def test_an_answer_just_below_6_mb_leaves_whole() -> None:
    answer = answering(b"x" * (BUFFERED_BYTES - 400))(EVENT, context())
    assert answer["statusCode"] == 200
    assert len(json.dumps(answer)) <= BUFFERED_BYTES


def test_a_failure_amid_the_answer_is_a_clean_500() -> None:
    answer = answering(b'{"a":1}\n', failure=LookupError("secret-of-the-app"))(EVENT, context())
    assert (answer["statusCode"], json.loads(answer["body"])) == (500, {"errorCode": "INTERNAL_ERROR", "message": ""})


@pytest.mark.parametrize(("body", "seconds"), [(b"x" * BUFFERED_BYTES, 29), (b"{}", 0)], ids=["too large", "late"])
def test_refusal_of_an_answer_that_names_files_asks_for_fewer(body: bytes, seconds: float) -> None:
    async def app(_: Scope, __: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    answer = StreamingMangum(app, stream=False, remedy=FEWER_FILES)(EVENT, context(seconds))
    assert json.loads(answer["body"])["message"].endswith(FEWER_FILES)


def test_an_answer_that_is_late_says_so() -> None:
    answer = answering(b"{}\n")(EVENT, context(seconds=0))
    assert (answer["statusCode"], json.loads(answer["body"])["errorCode"]) == (400, "UNSUPPORTED_OPERATION")


def test_an_event_that_is_no_request_is_tolerated() -> None:
    assert answering(b"{}\n")({"source": "aws.events"}, context()) is None


def test_nothing_here_streams_unless_a_runtime_offers_it() -> None:
    async def app(_: Scope, __: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}\n"})

    whole = StreamingMangum(app, stream=True)(EVENT, context())
    assert whole == b'{"statusCode":200,"headers":{}}' + b"\0" * 8 + b"{}\n"


TOKEN = st.from_regex(r"[a-z][a-z0-9-]{0,10}", fullmatch=True)
VALUE = st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFF), max_size=30)


@settings(deadline=None)  # a busy machine is no failure
@given(st.lists(st.tuples(TOKEN, VALUE), max_size=20))
def test_a_prelude_loses_no_header_and_holds_no_nul(headers: list[tuple[str, str]]) -> None:
    encoded = prelude(200, [(name.encode(), value.encode("latin-1")) for name, value in headers])
    assert len(encoded) <= PRELUDE_LIMIT
    assert encoded.endswith(b"\0" * 8)
    assert b"\0" not in encoded[:-8]
    head = json.loads(encoded[:-8])
    found = {(name, value) for name, value in head["headers"].items()}
    found |= {(name, value) for name, values in head.get("multiValueHeaders", {}).items() for value in values}
    found |= {("set-cookie", value) for value in head.get("cookies", [])}
    assert found == {(name, value) for name, value in headers if name != "transfer-encoding"}
