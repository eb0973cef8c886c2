"""The parts add streams, gateway responses, authorizers, limits and templates to LocalStack."""

import json
import subprocess
import sys
import threading
from typing import Any

import pytest
from deltaic_ops.local.proxy_event import MalformedResponse

from emulators.parts.formation import has_macros
from emulators.parts.gateway import read_head, rendered, token_authorizer
from emulators.parts.processes import ANSWER_LIMIT, limited
from emulators.parts.runtime_api import Outcome
from emulators.parts.streams import CHUNKS, Broken, Stream, Streams

PRELUDE = json.dumps({"statusCode": 206, "headers": {"X-A": "b"}}).encode() + b"\0" * 8


def test_modules_shared_with_the_local_gateway_need_no_layer() -> None:
    """They run in the emulator's environment, which has none."""
    shared = ("deploy.api", "local.authorizer", "local.proxy_event")
    modules = ", ".join(["emulators.parts.streams", *(f"deltaic_ops.{name}" for name in shared)])
    code = f"import sys; sys.modules['deltaic'] = None; import {modules}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def filled(*chunks: bytes, failed: bool = False) -> Stream:
    stream = Stream()
    for chunk in chunks:
        stream.take(chunk)
    stream.end(failed=failed)
    return stream


@pytest.mark.parametrize("cut", [1, 10, len(PRELUDE) - 1, len(PRELUDE), len(PRELUDE) + 2])
def test_a_stream_is_parsed_with_any_chunk_boundaries(cut: int) -> None:
    stream = PRELUDE + b"rows"
    status, headers, body = read_head(filled(stream[:cut], stream[cut:]))
    assert (status, b"".join(body)) == (206, b"rows")
    assert ("X-A", "b") in headers


def test_a_failed_stream_never_looks_complete() -> None:
    with pytest.raises(Broken):
        read_head(filled(failed=True))
    with pytest.raises(MalformedResponse):
        read_head(filled(b"{}"))
    _, _, body = read_head(filled(PRELUDE, b"some", failed=True))
    assert next(body) == b"some"
    with pytest.raises(Broken):
        next(body)


def test_a_client_that_disconnects_ends_the_waiting_function() -> None:
    stream = Stream()
    stream.take(PRELUDE)
    _, _, body = read_head(stream)
    ended: list[type[BaseException]] = []

    def write() -> None:
        try:
            for _ in range(CHUNKS + 1):
                stream.take(b"row")
        except ConnectionError as error:
            ended.append(type(error))

    writer = threading.Thread(target=write)
    writer.start()
    assert next(body) == b"row"
    body.close()  # type: ignore[attr-defined]  # a generator
    writer.join(5)
    stream.end(failed=False)
    assert ended in ([], [ConnectionError])
    with pytest.raises(ConnectionError, match="reader has left"):
        stream.take(b"more")


def test_an_open_stream_is_found_by_its_request() -> None:
    streams = Streams()
    event = {"requestContext": {"requestId": "r"}}
    stream = streams.open("r")
    assert streams.stream_of(event) is stream
    assert streams.stream_of({"requestContext": {"requestId": "s"}}) is None
    assert streams.stream_of({"type": "TOKEN"}) is None
    streams.close("r")
    assert streams.stream_of(event) is None


def test_a_buffered_response_over_6_mb_fails_and_a_streamed_one_does_not() -> None:
    fits, long = (Outcome("whole", b"x" * size) for size in (ANSWER_LIMIT, ANSWER_LIMIT + 1))
    assert limited(fits, b"") is fits
    refused = limited(long, b"")
    assert (refused.mode, json.loads(refused.body)["errorType"]) == ("error", "Function.ResponseSizeTooLarge")
    assert limited(Outcome("stream"), long.body) == Outcome("whole", long.body)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ('{"message":$context.error.messageString}', '{"message":"no \\"x\\""}'),
        ("$context.requestId of $context.authorizer.recipientId.", "r of a."),
        ("$context.no.such and $input.body", " and $input.body"),
    ],
)
def test_the_gateways_templates_are_rendered(template: str, text: str) -> None:
    variables = {
        "error": {"messageString": json.dumps('no "x"')},
        "requestId": "r",
        "authorizer": {"recipientId": "a"},
    }
    assert rendered(template, variables) == text


def test_an_authorizer_is_read_from_its_description_in_api_gateway() -> None:
    uri = "arn:aws:apigateway:us-east-1:lambda:path/2015-03-31/functions/arn:aws:lambda:x:live/invocations"
    description = {"type": "TOKEN", "authorizerUri": uri, "identitySource": "method.request.header.X-Token"}
    read = token_authorizer({**description, "identityValidationExpression": "^a+$", "authorizerResultTtlInSeconds": 0})
    assert (read.header, read.validation.pattern, read.ttl) == ("X-Token", "^a+$", 0)
    assert token_authorizer(description).ttl == 300  # API Gateway's own default


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"Api": {"Properties": {"Auth": {"Ref": "Authorizer.Alias"}}}}, False),
        ({"Api": {"Properties": {"Fn::Transform": {"Name": "AWS::Include"}}}}, True),
        ({"Fn::ForEach::Topics": ["Name", ["a"], {}]}, True),
    ],
)
def test_macros_inside_resources_are_found(resources: dict[str, Any], expected: bool) -> None:
    assert has_macros({"Transform": "AWS::Serverless-2016-10-31", "Resources": resources}) is expected
