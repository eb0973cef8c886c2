"""HTTP answers of a server that is not trusted: bounded when unpacked, without redirects, from no address of this host.

A recipient's tools go where a server sends them: a signed URL may name this machine or its cloud's metadata service,
and some kilobytes of gzip unpack to gigabytes.
"""

import ipaddress
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import httpx

MOST_BYTES = 64 * 1024 * 1024
"""Of one answer's body, unpacked; of one line where an answer is read line by line."""

MOST_GROWTH = 16
"""How many times larger than its gzipped form a long answer of lines may be; signed URLs do not compress better."""

MOST_PAGES = 10_000
"""Of one listing or query."""

ACCEPT_ENCODING = {"Accept-Encoding": "gzip"}
"""One that packs to a thousandth at best: a piece off the network cannot unpack to more than a whole answer may."""


_AWS_METADATA = ipaddress.ip_network("fd00:ec2::/32")
"""Where an instance of AWS finds its credentials by IPv6."""


class AnswerRefused(httpx.HTTPError):
    """The server's answer is not read, or its URL is not asked; the text says why, without the URL."""


_Page = TypeVar("_Page")


def read_answer(client: httpx.Client, request: httpx.Request) -> httpx.Response:
    """Send a request and read its answer; raises AnswerRefused for a body too large or packed in another way."""
    answer = client.send(request, stream=True, follow_redirects=False)
    try:
        body = b"".join(body_parts(answer))
    finally:
        answer.close()
    headers = [(name, value) for name, value in answer.headers.multi_items() if name != "content-encoding"]
    return httpx.Response(answer.status_code, headers=headers, content=body, request=request)


def body_parts(answer: httpx.Response, growth: int = 0) -> Iterator[bytes]:
    """Yield an answer's body, unpacked.

    Raises AnswerRefused for a body compressed other than by gzip, and for one larger than MOST_BYTES and than `growth`
    times what came over the network.
    """
    packed = answer.headers.get("content-encoding", "").strip().lower()
    if packed not in {"", "identity", "gzip"}:
        raise AnswerRefused("an answer packed otherwise than by gzip, which alone was accepted")
    size = 0
    for part in answer.iter_bytes():
        size += len(part)
        if size > max(MOST_BYTES, growth * answer.num_bytes_downloaded):
            raise AnswerRefused(f"an answer of more than {MOST_BYTES >> 20} MiB, unpacked")
        yield part


def body_lines(answer: httpx.Response) -> Iterator[bytes]:
    """Yield the lines of an answer, which may be as many as it likes; raises AnswerRefused as `body_parts` does."""
    line = bytearray()
    for part in body_parts(answer, MOST_GROWTH):
        first, *others = part.split(b"\n")
        line += first
        for other in others:
            yield bytes(line)
            line = bytearray(other)
        if len(line) > MOST_BYTES:
            raise AnswerRefused(f"a line of more than {MOST_BYTES >> 20} MiB")
    yield bytes(line)


def all_pages(ask: Callable[[str], _Page], next_token: Callable[[_Page], str]) -> Iterator[_Page]:
    """Yield the pages that `ask` returns for a token, the first one for ""; raises AnswerRefused if there is no end."""
    seen, token = {""}, ""
    while True:
        yield (page := ask(token))
        if not (token := next_token(page)):
            return
        if token in seen or len(seen) >= MOST_PAGES:
            again = "the same nextPageToken again" if token in seen else f"more than {MOST_PAGES:,} pages"
            raise AnswerRefused(f"a listing without an end: {again}")
        seen.add(token)


def url_request(client: httpx.Client, endpoint: str, url: str, headers: Mapping[str, str]) -> httpx.Request:
    """Return the GET of a URL that the server at `endpoint` gave; raises AnswerRefused as `check_url` does."""
    check_url(endpoint, url)
    return client.build_request("GET", url, headers=headers)


def check_url(endpoint: str, url: str) -> None:
    """Raise AnswerRefused unless the server at `endpoint` may send its recipients to a URL, of a file or of a store."""
    try:
        given = httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        raise AnswerRefused("a URL that is none") from None
    if given.scheme not in {"http", "https"}:
        raise AnswerRefused("a URL that is not of the web: not fetched")
    own = next(_own(given.host), None)
    if own is not None and next(_own(httpx.URL(endpoint).host), None) is None:
        raise AnswerRefused(f"a URL that leads to {own}, loopback or link-local here and not the server's: not fetched")


def _own(host: str) -> Iterator[str]:
    """Yield the addresses of a host that mean another machine to everybody: loopback, link-local, AWS's metadata."""
    try:
        found = {str(told[4][0]) for told in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except UnicodeError:
        raise AnswerRefused("a URL whose host is none") from None
    except OSError:  # the request itself says so, or a proxy knows the name
        return
    for text in sorted(found):
        address = ipaddress.ip_address(text)
        address = getattr(address, "ipv4_mapped", None) or address
        if address.is_loopback or address.is_link_local or address.is_unspecified or address in _AWS_METADATA:
            yield text
