"""Test how requests are parsed from API Gateway's event."""

from collections.abc import Sequence
from typing import Any

import pytest
from asgi_app import run
from deltaic.errors import MalformedRequest, Unauthenticated
from deltaic.http.asgi import Message
from deltaic.http.request import Request, read_request


def read(
    *,
    parameters: dict[str, str] | None = None,
    query: bytes = b"",
    headers: Sequence[tuple[bytes, bytes]] = (),
    bodies: Sequence[bytes] = (b"",),
    authorizer: dict[str, str] | None = None,
) -> Request:
    context = {"recipientId": "r-1", "tokenId": "t-1"} if authorizer is None else authorizer
    scope: dict[str, Any] = {
        "method": "GET",
        "query_string": query,
        "headers": list(headers),
        "aws.event": {
            "pathParameters": parameters,
            "requestContext": {"authorizer": context, "requestId": "q-1", "identity": {"sourceIp": "203.0.113.7"}},
        },
    }
    messages = [
        {"type": "http.request", "body": body, "more_body": number + 1 < len(bodies)}
        for number, body in enumerate(bodies)
    ]

    async def receive() -> Message:
        return messages.pop(0)

    return run(read_request(scope, receive))


def test_identity_comes_from_the_authorizer() -> None:
    request = read()
    assert (request.caller.recipient_id, request.caller.token_id) == ("r-1", "t-1")
    assert (request.method, request.request_id, request.source_ip) == ("GET", "q-1", "203.0.113.7")


@pytest.mark.parametrize(
    "authorizer", [{}, {"recipientId": "r-1"}, {"tokenId": "t-1"}, {"recipientId": "", "tokenId": "t"}]
)
def test_request_without_identity_is_unauthenticated(authorizer: dict[str, str]) -> None:
    with pytest.raises(Unauthenticated):
        read(authorizer=authorizer)


@pytest.mark.parametrize(
    ("encoded", "name"),
    [
        ("plain", "plain"),
        ("a%20b", "a b"),
        ("a+b", "a+b"),
        ("100%2525", "100%25"),
        ("%E6%9D%B1", "\u6771"),
        ("%ff", "\ufffd"),
        ("%zz", "%zz"),
    ],
)
def test_names_are_decoded_once_and_plus_is_unchanged(encoded: str, name: str) -> None:
    assert read(parameters={"share": encoded}).names == {"share": name}


def test_route_without_parameters_has_no_names() -> None:
    assert read(parameters=None).names == {}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (b"", {}),
        (b"a=1&b=", {"a": "1", "b": ""}),
        (b"a=1&a=2", {"a": "2"}),
        (b"t=2022-01-01T00%3A00%3A00%2B02%3A00", {"t": "2022-01-01T00:00:00+02:00"}),
        (b"a", {"a": ""}),
        (b"a=%ff", {"a": "\ufffd"}),
        (b"a=\xc3\xa9", {"a": "\u00e9"}),
    ],
)
def test_last_value_of_a_repeated_parameter_is_used(query: bytes, expected: dict[str, str]) -> None:
    assert read(query=query).query == expected


def test_too_many_parameters_are_refused() -> None:
    with pytest.raises(MalformedRequest, match="more than 200 parameters"):
        read(query=b"&".join(b"a=1" for _ in range(201)))


def test_header_names_are_lowercase_and_repeated_headers_are_joined() -> None:
    headers = [(b"Delta-Sharing-Capabilities", b"a=b"), (b"X-One", b"1"), (b"x-one", b"2")]
    assert read(headers=headers).headers == {"delta-sharing-capabilities": "a=b", "x-one": "1,2"}


def test_body_is_read_to_its_end() -> None:
    assert read(bodies=[b'{"a', b'":', b"1}"]).body == b'{"a":1}'
