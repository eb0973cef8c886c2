"""The local gateway over real sockets: it behaves as API Gateway does with the same template."""

import base64
import gzip
import json
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from deltaic_ops.deploy.sam_template import load_template
from deltaic_ops.local.functions import Functions
from deltaic_ops.local.gateway import Gateway

pytestmark = pytest.mark.slow

CHUNKED = (
    b"POST /small/echo/a HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer alice\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
TEMPLATE = Path(__file__).parent / "small" / "template.yaml"


def serve(**parameters: str) -> Gateway:
    template = load_template(TEMPLATE, parameters)
    return Gateway(template, Functions(template.functions, template.environment))


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with serve() as running:
        yield running


@pytest.fixture
def client(gateway: Gateway) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=gateway.endpoint, headers={"Authorization": "Bearer alice"}, trust_env=False) as ready:
        yield ready


def raw(gateway: Gateway, target: str, *, method: str = "GET") -> tuple[int, bytes]:
    """Send a target exactly as it is written: HTTP libraries normalise it."""
    host, port = gateway.endpoint.split("/")[2].split(":")
    with socket.create_connection((host, int(port)), timeout=10) as sock:
        head = f"{method} {target} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer alice\r\nConnection: close\r\n\r\n"
        sock.sendall(head.encode("ascii"))
        received = b"".join(iter(lambda: sock.recv(65_536), b""))
    head_bytes, _, body = received.partition(b"\r\n\r\n")
    return int(head_bytes.split(b" ")[1]), body


def test_the_event_is_a_rest_proxy_event(client: httpx.Client) -> None:
    answer = client.get(
        "/echo/a", params=[("x", "1 2"), ("x", "3"), ("y", "")], headers=[("X-Two", "a"), ("X-Two", "b")]
    )
    details = answer.json()
    event = details["event"]
    assert (event["resource"], event["httpMethod"], event["path"]) == ("/echo/{name}", "GET", "/echo/a")
    assert event["pathParameters"] == {"name": "a"}
    assert event["queryStringParameters"] == {"x": "3", "y": ""}
    assert event["multiValueQueryStringParameters"] == {"x": ["1 2", "3"], "y": [""]}
    assert event["multiValueHeaders"]["x-two"] == ["a", "b"]
    assert event["headers"]["x-two"] == "b"
    assert (event["body"], event["isBase64Encoded"]) == (None, False)
    context = event["requestContext"]
    assert (context["stage"], context["path"], context["resourcePath"]) == ("small", "/small/echo/a", "/echo/{name}")
    assert context["authorizer"]["recipientId"] == "alice"
    assert context["authorizer"]["principalId"] == "alice"
    assert context["identity"]["sourceIp"] == "127.0.0.1"
    assert context["requestId"] == details["request_id"] == answer.headers["x-amzn-RequestId"]
    assert 28_000 < details["left"] <= 29_000


@pytest.mark.parametrize(
    "segment",
    ["a%20b", "a%2Fb", "100%25", "%C3%A9", "a+b=c", "..", "%2e%2e", "a;b", "%7Bname%7D"],
    ids=["space", "slash", "percent", "unicode", "plus", "dots", "encoded dots", "semicolon", "braces"],
)
def test_path_and_parameters_are_not_decoded(gateway: Gateway, segment: str) -> None:
    status, body = raw(gateway, f"/small/echo/{segment}")
    event = json.loads(body)["event"]
    assert status == 200
    assert event["path"] == f"/echo/{segment}"
    assert event["pathParameters"] == {"name": segment}
    assert event["requestContext"]["path"] == f"/small/echo/{segment}"


def test_a_static_segment_has_precedence_over_a_parameter(client: httpx.Client) -> None:
    assert client.get("/echo/fixed").json()["event"]["resource"] == "/echo/fixed"
    assert client.get("/echo/fixed/").json()["event"]["resource"] == "/echo/fixed"


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/small/nowhere"),
        ("GET", "/small/echo"),
        ("GET", "/small/echo/"),
        ("GET", "/small/echo/a/b"),
        ("PUT", "/small/echo/a"),
        ("HEAD", "/small/echo/a"),
        ("GET", "/other/echo/a"),
        ("GET", "/echo/a"),
        ("GET", "/"),
        ("GET", "/smaller/echo/a"),
    ],
    ids=lambda value: value,
)
def test_an_unknown_route_is_404_in_the_templates_format(gateway: Gateway, method: str, target: str) -> None:
    status, body = raw(gateway, target, method=method)
    assert status == 404
    if method != "HEAD":
        assert json.loads(body) == {"errorCode": "RESOURCE_DOES_NOT_EXIST", "message": "no route"}


def test_a_head_route_has_headers_and_no_body(client: httpx.Client) -> None:
    answer = client.head("/tables/a%20b")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["delta-table-version"] == "7"
    assert bytes.fromhex(answer.headers["x-table"]).decode() == "a b"
    assert answer.headers["x-amzn-Remapped-www-authenticate"] == "Basic"
    assert "www-authenticate" not in answer.headers


@pytest.mark.parametrize(
    ("token", "status", "code"),
    [
        (None, 401, "UNAUTHENTICATED"),
        ("", 401, "UNAUTHENTICATED"),
        ("Basic YWxpY2U=", 401, "UNAUTHENTICATED"),
        ("Bearer UPPER", 401, "UNAUTHENTICATED"),
        ("Bearer unknown", 401, "UNAUTHENTICATED"),
        ("Bearer broken", 500, "INTERNAL_ERROR"),
        ("Bearer malformed", 500, "INTERNAL_ERROR"),
    ],
    ids=["none", "empty", "other scheme", "invalid", "unknown", "authorizer fails", "no policy"],
)
def test_a_token_in_another_format_is_refused_by_the_gateway(
    gateway: Gateway, token: str | None, status: int, code: str
) -> None:
    answer = httpx.get(f"{gateway.endpoint}/echo/a", headers={} if token is None else {"Authorization": token})
    assert (answer.status_code, answer.json()["errorCode"]) == (status, code)
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    assert ("www-authenticate" in answer.headers) is (status == 401)


def test_cached_policies_are_enforced(gateway: Gateway) -> None:
    def ask(token: str, path: str) -> int:
        return httpx.get(gateway.endpoint + path, headers={"Authorization": f"Bearer {token}"}).status_code

    assert [ask("deny", "/echo/a"), ask("deny", "/echo/fixed")] == [200, 403]
    assert ask("silent", "/echo/a") == 403
    # A policy for one method only, cached, refuses the next route: the trap that allow_all_routes avoids.
    assert [ask("narrow", "/echo/a"), ask("narrow", "/echo/b")] == [200, 403]


def calls(gateway: Gateway, token: str) -> int:
    answer = httpx.get(f"{gateway.endpoint}/echo/a", headers={"Authorization": f"Bearer {token}"})
    return int(answer.json()["event"]["requestContext"]["authorizer"]["calls"])


def test_a_policy_is_cached_for_its_token_and_time_to_live() -> None:
    with serve(Ttl="3") as gateway:
        first, second, repeated = calls(gateway, "one"), calls(gateway, "two"), calls(gateway, "one")
        assert first == repeated != second
        time.sleep(3.1)
        assert calls(gateway, "one") > second


def test_without_a_time_to_live_every_request_calls_the_authorizer() -> None:
    with serve(Ttl="0") as gateway:
        assert calls(gateway, "one") < calls(gateway, "one")


@pytest.mark.parametrize(
    "result",
    [
        "raise",
        {"statusCode": 200, "extra": 1},
        {"body": {"a": 1}},
        None,
        {"headers": {"x": ["a"]}},
        {"body": "x", "repeat": 6_400_000},
    ],
    ids=["raises", "extra key", "body no string", "null", "header list", "above 6 MB"],
)
def test_an_invalid_result_of_a_function_is_502(client: httpx.Client, result: Any) -> None:
    answer = client.post("/answer", content=json.dumps(result))
    assert (answer.status_code, answer.json()) == (502, {"errorCode": "INTERNAL_ERROR", "message": ""})
    assert "secret-of-the-function" not in answer.text


def test_responses_follow_the_proxy_rules(client: httpx.Client) -> None:
    answer = client.post(
        "/answer", json={"multiValueHeaders": {"X-A": ["1", "2"]}, "headers": {"X-A": "0", "X-B": "3"}}
    )
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers.get_list("x-a") == ["1", "2"]
    assert answer.headers["x-b"] == "3"
    assert answer.headers["content-type"] == "application/json"
    # Base64 without binary media types reaches the client as letters.
    assert client.post("/answer", json={"body": "eA==", "isBase64Encoded": True}).text == "eA=="


def test_large_buffered_responses_are_compressed_for_clients_that_accept_it(client: httpx.Client) -> None:
    body = {"body": "x", "repeat": 2000}
    packed = client.post("/answer", json=body)
    assert (packed.headers["content-encoding"], packed.text) == ("gzip", "x" * 2000)
    uncompressed = client.post("/answer", json=body, headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in uncompressed.headers
    assert "content-encoding" not in client.post("/answer", json={"body": "x"}).headers


def test_a_gzip_request_is_unpacked(client: httpx.Client) -> None:
    body = client.post("/echo/a", content=gzip.compress(b"{}"), headers={"Content-Encoding": "gzip"}).json()
    assert body["event"]["body"] == "{}"
    assert client.post("/echo/a", content=b"no gzip", headers={"Content-Encoding": "gzip"}).status_code == 400


def test_gzip_members_are_joined_to_one_body(client: httpx.Client) -> None:
    packed = gzip.compress(b"{") + gzip.compress(b"}") + b"\0" * 8
    answer = client.post("/echo/a", content=packed, headers={"Content-Encoding": "gzip"})
    assert answer.json()["event"]["body"] == "{}"


def test_bodies_are_base64_for_an_api_with_binary_media_types() -> None:
    template = replace(load_template(TEMPLATE), binary_media_types=("*/*",))
    with (
        Gateway(template, Functions(template.functions, template.environment)) as running,
        httpx.Client(base_url=running.endpoint, headers={"Authorization": "Bearer alice"}, trust_env=False) as client,
    ):
        with_body, without = client.post("/echo/a", content=b"{}").json(), client.get("/echo/a").json()
    assert [(details["event"]["body"], details["event"]["isBase64Encoded"]) for details in (with_body, without)] == [
        (base64.b64encode(b"{}").decode(), True),
        (None, False),
    ]


@pytest.mark.parametrize("cut", [3, 10, -1], ids=["head", "data", "checksum"])
def test_a_truncated_gzip_request_is_400(client: httpx.Client, cut: int) -> None:
    packed = gzip.compress(b"a request that was sent in part")[:cut]
    assert client.post("/echo/a", content=packed, headers={"Content-Encoding": "gzip"}).status_code == 400


def test_a_request_with_very_many_gzip_members_is_accepted(client: httpx.Client) -> None:
    """A copy per gzip member would take minutes and block other clients."""
    packed = gzip.compress(b"", mtime=0) * 250_000 + gzip.compress(b"{}")
    answer = client.post("/echo/a", content=packed, headers={"Content-Encoding": "gzip"}, timeout=30)
    assert answer.json()["event"]["body"] == "{}"


def test_a_gzip_request_of_more_than_10_mb_is_413_and_is_not_unpacked(client: httpx.Client) -> None:
    """A thousand members of 10 MB each, in 10 MB, are as little to unpack as one."""
    packed = gzip.compress(b"\0" * (10 * 1024 * 1024)) * 1000
    assert len(packed) < 11_000_000
    tracemalloc.start()
    try:
        status = client.post("/echo/a", content=packed[:10_000_000], headers={"Content-Encoding": "gzip"}).status_code
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert status == 413
    assert peak < 100 * 1024 * 1024


@pytest.mark.parametrize("host", ["rebound.example", "127.0.0.1.example:80", "127.0.0.1@rebound.example", "[", ""])
def test_a_request_for_another_host_is_refused(client: httpx.Client, host: str) -> None:
    answer = client.get("/echo/a", headers={"Host": host})
    assert (answer.status_code, answer.headers["x-amzn-RequestId"] != "") == (403, True)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:1", "lake.localhost:80"])
def test_a_request_for_this_host_is_accepted(client: httpx.Client, host: str) -> None:
    assert client.get("/echo/a", headers={"Host": host}).status_code == 200


KEYS = {"AWS_ACCESS_KEY_ID": "AKIDOWN", "AWS_SECRET_ACCESS_KEY": "secret of this process"}
CREDENTIALS = Credentials(*KEYS.values())
EVENT = b'{"authorizationToken": "alice", "methodArn": "any"}'


def invocation(url: str, keys: Credentials = CREDENTIALS, body: bytes = EVENT) -> dict[str, str]:
    """Return the headers of a signed request to start a function."""
    request = AWSRequest("POST", url, data=body, headers={"X-Amz-Invocation-Type": "Event"})
    SigV4Auth(keys, "lambda", "us-east-1").add_auth(request)
    return dict(request.headers)


def test_a_function_is_started_only_for_requests_signed_with_this_processs_keys(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    root = f"http://{gateway.endpoint.split('/')[2]}/2015-03-31/functions"
    url = f"{root}/{quote(load_template(TEMPLATE).functions['Authorizer'].arn, safe='')}/invocations"
    right = invocation(url)
    with monkeypatch.context() as clock:
        clock.setattr("botocore.auth.get_current_datetime", lambda: datetime.now(UTC) - timedelta(minutes=6))
        late = invocation(url)
    refused = {
        "no signature": {"X-Amz-Invocation-Type": "Event"},
        "a header that looks like one": {**right, "Authorization": "AWS4-HMAC-SHA256 x"},
        "another secret": invocation(url, Credentials("AKIDOWN", "another")),
        "another key": invocation(url, Credentials("AKIDOTHER", "secret of this process")),
        "another body": invocation(url, body=b"{}"),
        "another function": invocation(f"{root}/other/invocations"),
        "another header": {**right, "X-Amz-Invocation-Type": "RequestResponse"},
        "signed six minutes ago": late,
    }
    statuses = {name: httpx.post(url, content=EVENT, headers=headers).status_code for name, headers in refused.items()}
    assert statuses == dict.fromkeys(refused, 403)
    assert httpx.post(url, content=EVENT, headers=right).status_code == 202
    unknown = f"{root}/unknown/invocations"
    assert httpx.post(unknown, content=EVENT, headers=invocation(unknown)).status_code == 404


def test_without_credentials_no_function_can_be_started(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    url = f"http://{gateway.endpoint.split('/')[2]}/2015-03-31/functions/any/invocations"
    assert httpx.post(url, content=EVENT, headers=invocation(url)).status_code == 502


@pytest.mark.parametrize("target", ["http://[", "http://[::1", "http://127.0.0.1/small/echo/a"])
def test_a_request_target_that_is_no_path_is_404(gateway: Gateway, target: str) -> None:
    assert raw(gateway, target)[0] == 404
    assert raw(gateway, "/small/echo/a")[0] == 200


@pytest.mark.parametrize("chunks", [b"-1\r\n", b"zz\r\n", b"ffffffffffffffffffffff\r\n", b"2\r\nabXX"])
def test_a_body_with_invalid_chunks_is_400(gateway: Gateway, chunks: bytes) -> None:
    host, port = gateway.endpoint.split("/")[2].split(":")
    with socket.create_connection((host, int(port)), timeout=10) as sock:
        sock.sendall(CHUNKED + chunks)
        received = b"".join(iter(lambda: sock.recv(65_536), b""))
    assert received.startswith(b"HTTP/1.1 400")


def test_an_endless_body_is_refused_and_not_read_on(gateway: Gateway) -> None:
    host, port = gateway.endpoint.split("/")[2].split(":")
    chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    sent = 0
    with socket.create_connection((host, int(port)), timeout=10) as sock:
        sock.sendall(CHUNKED)
        received = b""
        try:
            while sent < 200:
                sock.sendall(chunk)
                sent += 1
        except OSError:
            pass
        with suppress(OSError):
            received = sock.recv(65_536)
    assert sent < 100
    assert received[:12] in {b"HTTP/1.1 413", b""}


def test_a_request_above_10_mb_is_413(client: httpx.Client) -> None:
    assert client.post("/echo/a", content=b"x" * 11_000_000).status_code == 413


def test_a_streams_first_byte_arrives_long_before_its_last(client: httpx.Client) -> None:
    with client.stream("POST", "/lines/slow", content=b"{}\n") as answer:
        assert answer.headers.get_list("x-two") == ["a", "b"]
        assert answer.headers["x-amzn-RequestId"]
        times = [time.monotonic() for _ in answer.iter_lines()]
    assert len(times) == 20
    assert times[-1] - times[0] > 0.25


def test_a_streaming_function_can_return_all_bytes_at_once(client: httpx.Client) -> None:
    streamed, buffered = client.post("/lines/many", content=b"{}\n"), client.post("/lines/whole", content=b"{}\n")
    assert streamed.content == buffered.content == b"{}\n" * 40_000
    assert streamed.headers["content-type"] == buffered.headers["content-type"] == "application/x-ndjson"


def test_a_failed_stream_is_detected_by_the_client(client: httpx.Client) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        client.post("/lines/fails", content=b"{}\n")


@pytest.mark.parametrize("kind", ["late", "plain"])
def test_a_stream_without_a_start_is_an_error_response(client: httpx.Client, kind: str) -> None:
    answer = client.post(f"/lines/{kind}", content=b"{}\n")
    assert (answer.status_code, answer.json()["errorCode"]) == (502, "INTERNAL_ERROR")


def test_a_client_that_disconnects_stops_the_function(client: httpx.Client) -> None:
    with client.stream("POST", "/lines/endless", content=b"x" * 100) as answer:
        next(answer.iter_raw())
    deadline = time.monotonic() + 5
    while (answer := client.post("/lines/stopped")).status_code != 200 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert int(answer.content) > 0


def test_concurrent_responses_are_not_mixed_up(gateway: Gateway) -> None:
    barrier = threading.Barrier(8)

    def ask(number: int) -> bool:
        line = b"%d\n" % number
        with httpx.Client(base_url=gateway.endpoint, headers={"Authorization": f"Bearer r{number}"}) as client:
            barrier.wait()
            for _ in range(5):
                if client.post("/lines/many", content=line).content != line * 40_000:
                    return False
                event = client.get(f"/echo/{number}").json()["event"]
                if event["requestContext"]["authorizer"]["recipientId"] != f"r{number}":
                    return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(8)))


def test_the_gateway_listens_only_on_loopback(gateway: Gateway) -> None:
    assert gateway.endpoint.startswith("http://127.0.0.1:")


def test_functions_without_their_environment_are_not_loaded() -> None:
    template = load_template(TEMPLATE)
    with pytest.raises(RuntimeError, match="SMALL_TABLE"):
        Functions(template.functions, ["SMALL_TABLE"])
