"""Test the streaming contract between processes: AWS's client runs the function; the Runtime API is an emulator."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from emulators.parts.runtime_api import Outcome, RuntimeApi
from emulators.parts.runtime_process import runtime_process

FOLDER = Path(__file__).parent / "streamed"
DELIMITER = b"\0" * 8


class Reader:
    """Reader of a stream that records bytes and their times; it can be slow, and it can leave."""

    def __init__(self, *, bytes_per_second: float = 0.0, leaves_after: int | None = None) -> None:
        self.chunks: list[bytes] = []
        self.times: list[float] = []
        self._pace = bytes_per_second
        self._leaves_after = leaves_after

    def __call__(self, chunk: bytes) -> None:
        self.chunks.append(chunk)
        self.times.append(time.monotonic())
        if self._pace:
            time.sleep(len(chunk) / self._pace)
        if self._leaves_after is not None and len(self.received) > self._leaves_after:
            raise ConnectionResetError("the reader leaves")

    @property
    def received(self) -> bytes:
        return b"".join(self.chunks)

    @property
    def head(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.received.split(DELIMITER, 1)[0])
        return document

    @property
    def body(self) -> bytes:
        return self.received.split(DELIMITER, 1)[1]


def event(path: str, method: str = "GET", query: dict[str, str] | None = None, body: str | None = None) -> Any:
    return {
        "resource": path,
        "path": path,
        "httpMethod": method,
        "headers": {"Host": "shares.example"},
        "multiValueHeaders": {"Host": ["shares.example"]},
        "queryStringParameters": query,
        "multiValueQueryStringParameters": {name: [value] for name, value in (query or {}).items()} or None,
        "pathParameters": None,
        "requestContext": {"requestId": "r", "identity": {"sourceIp": "127.0.0.1"}},
        "body": body,
        "isBase64Encoded": False,
    }


@pytest.fixture(scope="module")
def runtime() -> Iterator[RuntimeApi]:
    with runtime_process(FOLDER, {}) as api:
        yield api


def invoke(api: RuntimeApi, path: str, reader: Reader, seconds: float = 30.0, **request: Any) -> Outcome:
    outcome = api.invoke(event(path, **request), sink=reader, seconds=seconds)
    assert api.refused == []
    return outcome


def test_first_byte_arrives_long_before_the_last(runtime: RuntimeApi) -> None:
    reader = Reader()
    outcome = invoke(runtime, "/lines", reader)
    assert (outcome.mode, outcome.error_type) == ("stream", "")
    assert outcome.content_type == "application/vnd.awslambda.http-integration-response"
    assert outcome.headers["Lambda-Runtime-Invocation-Id"]
    assert reader.head == {
        "statusCode": 200,
        "headers": {"content-type": "application/x-ndjson; charset=utf-8", "delta-table-version": "3"},
    }
    assert reader.body == b"".join(b'{"line":%d}\n' % number for number in range(5))
    assert len(reader.chunks) == 5
    assert reader.times[-1] - reader.times[0] > 0.15


def test_app_that_waits_for_a_disconnect_is_not_interrupted(runtime: RuntimeApi) -> None:
    reader = Reader()
    assert invoke(runtime, "/listener", reader).error_type == ""
    assert reader.body.count(b"\n") == 5


def test_path_query_and_body_reach_the_app(runtime: RuntimeApi) -> None:
    reader = Reader()
    invoke(runtime, "/echo/a%20b%25", reader, method="POST", query={"pageToken": "x y"}, body='{"limitHint":1}')
    assert bytes.fromhex(reader.head["headers"]["x-path"]).decode() == "/echo/a b%"
    assert reader.head["headers"]["x-query"] == "pageToken=x+y"
    assert reader.body == b'{"limitHint":1}'


def test_repeated_headers_and_cookies_have_the_format_of_api_gateway(runtime: RuntimeApi) -> None:
    reader = Reader()
    invoke(runtime, "/heads", reader)
    assert reader.head["multiValueHeaders"] == {"x-two": ["a", "b"]}
    assert reader.head["cookies"] == ["k=1", "l=2"]
    assert "x-two" not in reader.head["headers"]
    assert "set-cookie" not in reader.head["headers"]


@pytest.mark.parametrize(
    ("path", "method"), [("/empty/204", "GET"), ("/empty/304", "GET"), ("/empty", "HEAD")], ids=["204", "304", "HEAD"]
)
def test_answer_without_body_keeps_its_headers(runtime: RuntimeApi, path: str, method: str) -> None:
    reader = Reader()
    assert invoke(runtime, path, reader, method=method).error_type == ""
    assert reader.body == b""
    assert reader.head["headers"]["content-length"] == "7"


def test_empty_body_is_a_valid_answer(runtime: RuntimeApi) -> None:
    reader = Reader()
    assert invoke(runtime, "/nothing", reader).mode == "stream"
    assert (reader.head["statusCode"], reader.body) == (200, b"")


def test_head_above_16_kb_is_a_function_error(runtime: RuntimeApi) -> None:
    reader = Reader()
    outcome = invoke(runtime, "/huge_head", reader)
    assert (outcome.mode, outcome.error_type, reader.chunks) == ("error", "ValueError", [])


def test_exception_before_the_first_byte_is_a_function_error(runtime: RuntimeApi) -> None:
    reader = Reader()
    outcome = invoke(runtime, "/raises_before", reader)
    assert (outcome.mode, outcome.error_type, reader.chunks) == ("error", "LookupError", [])


@pytest.mark.parametrize(
    ("path", "kind"), [("/raises_amid", "LookupError"), ("/stops_early", "RuntimeError")], ids=["raises", "stops"]
)
def test_failure_during_the_stream_is_reported_by_trailers(runtime: RuntimeApi, path: str, kind: str) -> None:
    reader = Reader()
    outcome = invoke(runtime, path, reader)
    assert (outcome.mode, outcome.error_type) == ("stream", kind)
    assert reader.body == b'{"line":0}\n'
    assert b"secret-of-the-app" not in outcome.body


def test_failure_after_the_answer_does_not_affect_it(runtime: RuntimeApi) -> None:
    reader = Reader()
    outcome = invoke(runtime, "/raises_after", reader)
    assert (outcome.mode, outcome.error_type, reader.body) == ("stream", "", b'{"line":0}\n')
    # Nothing is sent after the end: trailers there would be parsed as another request.
    time.sleep(0.1)
    assert invoke(runtime, "/nothing", Reader()).mode == "stream"


def test_event_without_request_is_ignored(runtime: RuntimeApi) -> None:
    outcome = runtime.invoke({"invokeCompletionStatus": "Success"}, sink=Reader())
    assert (outcome.mode, outcome.body, runtime.refused) == ("whole", b"null", [])


def test_slow_reader_delays_the_app_and_the_next_invocation(runtime: RuntimeApi) -> None:
    reader = Reader(bytes_per_second=12 * 1024 * 1024)
    started = time.monotonic()
    assert invoke(runtime, "/large", reader, query={"mib": "12"}).error_type == ""
    assert len(reader.body) == 12 * 1024 * 1024
    assert time.monotonic() - started > 0.9


def test_reader_that_leaves_stops_the_app_and_the_next_invocation_works(runtime: RuntimeApi) -> None:
    outcome = invoke(runtime, "/endless", Reader(leaves_after=1_000_000))
    assert outcome.error_type.startswith("Lost.")
    reader = Reader()
    invoke(runtime, "/errors", reader)
    name, _, sent = reader.body.decode().partition(" ")
    assert name in {"ConnectionResetError", "BrokenPipeError"}
    assert int(sent) < 64 * 1024 * 1024


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/busy", "/waits"])
def test_stream_ends_with_the_failed_line_near_the_deadline(runtime: RuntimeApi, path: str) -> None:
    reader = Reader()
    started = time.monotonic()
    outcome = invoke(runtime, path, reader, seconds=3.0)
    assert 2.0 < time.monotonic() - started < 2.9
    assert (outcome.mode, outcome.error_type) == ("stream", "DeadlineReached")
    assert reader.body.startswith(b"{}\n")
    assert reader.body.endswith(b"!aborted\n")


@pytest.mark.slow
def test_thousand_mixed_invocations_are_answered(runtime: RuntimeApi) -> None:
    for number in range(250):
        for path, mode in (("/heads", "stream"), ("/raises_before", "error"), ("/raises_amid", "stream")):
            assert invoke(runtime, path, Reader()).mode == mode, number
        reader = Reader()
        invoke(runtime, "/echo", reader, method="POST", body=str(number))
        assert reader.body == str(number).encode()


def test_function_that_cannot_start_reports_the_reason() -> None:
    with runtime_process(FOLDER, {}, handler="broken.handler") as api:
        outcome = api.invoke(event("/lines"), sink=Reader())
    assert (outcome.mode, outcome.error_type) == ("error", "RuntimeError")
    assert json.loads(outcome.body)["errorMessage"] == "no settings"


@pytest.mark.parametrize("client", ["renamed_parameter", "renamed_method", "wrapped_caller"])
def test_unknown_interface_of_the_client_sends_the_same_bytes_buffered(client: str) -> None:
    with runtime_process(FOLDER, {}, handler=f"{client}.handler") as api:
        outcome = api.invoke(event("/lines"), sink=Reader())
        assert (outcome.mode, outcome.content_type) == ("whole", "application/unknown")
        head, body = outcome.body.split(DELIMITER, 1)
        assert json.loads(head)["headers"]["delta-table-version"] == "3"
        assert body == b"".join(b'{"line":%d}\n' % number for number in range(5))
        # Also above 6 MB, because a streaming invocation does not have this limit.
        large = api.invoke(event("/large", query={"mib": "8"}), sink=Reader())
        assert len(large.body.split(DELIMITER, 1)[1]) == 8 * 1024 * 1024
        failed = api.invoke(event("/raises_amid"), sink=Reader())
        assert (failed.mode, failed.error_type) == ("error", "LookupError")
        assert api.refused == []
