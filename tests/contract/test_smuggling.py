"""Requests in which two HTTP parsers could read different tokens get only the rows of their own token."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from urllib.parse import urlsplit

import pytest
from contract.server import Server

UNAUTHORIZED, BAD_REQUEST = 401, 400

CASES: dict[str, tuple[Sequence[bytes], object]] = {
    "one": ([b"Authorization: Bearer ALICE"], "alice"),
    "letters of names": ([b"aUTHORIZATION: bearer ALICE"], "alice"),
    "spaces around": ([b"Authorization:    Bearer   ALICE   "], "alice"),
    "folded": ([b"Authorization: Bearer", b" ALICE"], "alice"),
    "folded with more": ([b"Authorization: Bearer ALICE", b" x"], UNAUTHORIZED),
    "folded into another": ([b"X-Other: x", b" Authorization: Bearer ALICE"], UNAUTHORIZED),
    "another after a line feed": ([b"Authorization: Bearer ALICE\nX-Other: BOB"], "alice"),
    "another after a carriage return": ([b"Authorization: Bearer ALICE\rX-Other: BOB"], BAD_REQUEST),
    "two": ([b"Authorization: Bearer ALICE", b"Authorization: Bearer BOB"], "bob"),
    "two, the last of nobody": ([b"Authorization: Bearer ALICE", b"Authorization: Bearer x"], UNAUTHORIZED),
    "two, the last empty": ([b"Authorization: Bearer ALICE", b"Authorization: "], UNAUTHORIZED),
    "joined by a comma": ([b"Authorization: Bearer ALICE, Bearer BOB"], UNAUTHORIZED),
    "joined without a scheme": ([b"Authorization: Bearer ALICE,BOB"], UNAUTHORIZED),
    "joined by a space": ([b"Authorization: Bearer ALICE BOB"], UNAUTHORIZED),
    "a tab": ([b"Authorization: Bearer\tALICE"], UNAUTHORIZED),
    "no space": ([b"Authorization: BearerALICE"], UNAUTHORIZED),
    "a no-break space": ([b"Authorization: Bearer \xa0ALICE"], UNAUTHORIZED),
    "a word that is none": ([b"Authorization: Bear\xc3\xa9r ALICE", b"X-Bearer: ALICE"], UNAUTHORIZED),
    "a wide letter": (
        ["Authorization: Bearer \N{FULLWIDTH LATIN SMALL LETTER D}lt_".encode() + b"ALICE"],
        UNAUTHORIZED,
    ),
    "a zero byte": ([b"Authorization: Bearer ALICE\x00"], BAD_REQUEST),
    "a vertical tab": ([b"Authorization: Bearer ALICE\x0b"], BAD_REQUEST),
    "a space before the colon": ([b"Authorization : Bearer ALICE"], BAD_REQUEST),
    "an underscore": ([b"Authorization_: Bearer ALICE"], UNAUTHORIZED),
    "a proxy's": ([b"Proxy-Authorization: Bearer ALICE"], UNAUTHORIZED),
    "as the gateway renames": ([b"X-Amzn-Remapped-Authorization: Bearer ALICE"], UNAUTHORIZED),
    "at length": ([b"Authorization: Bearer ALICE" + b"A" * 100_000], UNAUTHORIZED),
    "dots at length": ([b"Authorization: Bearer a." + b"." * 60_000], UNAUTHORIZED),
    "a recipient of its own saying": (
        [b"X-Recipient-Id: alice", b"X-Amzn-Principal-Id: alice", b"recipientId: alice", b"Authorization: Bearer x"],
        UNAUTHORIZED,
    ),
    # Of the two lengths the chunks' counts (RFC 9112, section 6.1), so that the second bearer is of no request.
    "two lengths": (
        [
            b"Authorization: Bearer ALICE\r\nContent-Length: 90\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
            b"GET /delta-sharing/shares HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer BOB",
        ],
        "alice",
    ),
}


def send_lines(server: Server, lines: Sequence[bytes]) -> tuple[int, bytes]:
    """Send these very bytes; return status and body."""
    parts = urlsplit(server.endpoint)
    head = b"\r\n".join(
        [b"GET %s/shares HTTP/1.1" % parts.path.encode(), b"Host: localhost", b"Connection: close", *lines]
    )
    for name in ("alice", "bob"):
        head = head.replace(name.upper().encode(), server.readers[name].token.encode())
    answer = b""
    with socket.create_connection((str(parts.hostname), parts.port or 80), timeout=60) as connection:
        connection.sendall(head + b"\r\n\r\n")
        while received := connection.recv(65_536):
            answer += received
    headers, _, body = answer.partition(b"\r\n\r\n")
    return int(headers.split()[1]), body


@pytest.mark.parametrize("case", CASES)
def test_ambiguous_authorization_headers_are_refused(server: Server, case: str) -> None:
    lines, expected = CASES[case]
    status, body = send_lines(server, lines)
    if isinstance(expected, str):
        assert (status, body) == (200, server.recipient(expected).get("/shares").body)
    else:
        assert status == expected
        assert b"items" not in body
