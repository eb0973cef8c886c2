"""Read HTTP responses of an untrusted server: limit their size, follow no redirects, and check URLs.

A malicious server can return a signed URL that points to this machine or to the metadata service of its cloud, or a
few kilobytes of gzip that decompress to gigabytes.
"""

import ipaddress
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import TypeVar

import httpx

MAX_BYTES = 64 * 1024 * 1024
"""Maximum size of a decompressed response body, or of one line of a streamed response."""

MAX_COMPRESSION_RATIO = 16
"""Maximum compression ratio of responses with many lines, which real responses with signed URLs do not reach."""

MAX_PAGES = 10_000
"""Maximum number of pages in one listing or query."""

ACCEPT_ENCODING = {"Accept-Encoding": "gzip"}
"""Request header for gzip only. With its ratio of at most 1,000, each decompressed network read is below MAX_BYTES."""

_AWS_METADATA = ipaddress.ip_network("fd00:ec2::/32")
"""IPv6 addresses of the AWS instance metadata service, which serves credentials."""


class UnsafeResponse(httpx.HTTPError):
    """A response or URL from the server is unsafe, so it was not read. The message never contains the URL."""


_Page = TypeVar("_Page")


def read_response(client: httpx.Client, request: httpx.Request) -> httpx.Response:
    """Send a request and read the whole response; raises UnsafeResponse for the same reasons as `body_parts`."""
    with closing(client.send(request, stream=True, follow_redirects=False)) as response:
        body = b"".join(body_parts(response))
    headers = [(name, value) for name, value in response.headers.multi_items() if name != "content-encoding"]
    return httpx.Response(response.status_code, headers=headers, content=body, request=request)


def body_parts(response: httpx.Response, max_ratio: int = 0) -> Iterator[bytes]:
    """Yield the decompressed body of a response in chunks.

    Raises UnsafeResponse if the compression is not gzip, or if the size exceeds both MAX_BYTES and `max_ratio` times
    the compressed size.
    """
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in {"", "identity", "gzip"}:
        raise UnsafeResponse(f"the Content-Encoding is {encoding!r} instead of gzip")
    size = 0
    for part in response.iter_bytes():
        size += len(part)
        if size > max(MAX_BYTES, max_ratio * response.num_bytes_downloaded):
            raise UnsafeResponse(f"a response of more than {MAX_BYTES >> 20} MiB when decompressed")
        yield part


def body_lines(response: httpx.Response) -> Iterator[bytes]:
    """Yield the lines of a response of any size; raises UnsafeResponse if a line or the compression is too large."""
    line = bytearray()
    for part in body_parts(response, MAX_COMPRESSION_RATIO):
        first, *rest = part.split(b"\n")
        line += first
        for start in rest:
            yield bytes(line)
            line = bytearray(start)
        if len(line) > MAX_BYTES:
            raise UnsafeResponse(f"a response has a line of more than {MAX_BYTES >> 20} MiB")
    yield bytes(line)


def all_pages(get_page: Callable[[str], _Page], next_token: Callable[[_Page], str]) -> Iterator[_Page]:
    """Yield the first page (page token "") and all following pages; raises UnsafeResponse if the pages never end."""
    tokens, token = {""}, ""
    while True:
        yield (page := get_page(token))
        if not (token := next_token(page)):
            return
        if token in tokens or len(tokens) >= MAX_PAGES:
            reason = "the server repeats a page token" if token in tokens else f"more than {MAX_PAGES:,} pages"
            raise UnsafeResponse(f"the pages never end: {reason}")
        tokens.add(token)


def url_request(client: httpx.Client, endpoint: str, url: str, headers: Mapping[str, str]) -> httpx.Request:
    """Return a GET request for a URL that the server at `endpoint` sent; raises UnsafeResponse as `check_url` does."""
    check_url(endpoint, url)
    return client.build_request("GET", url, headers=headers)


def check_url(endpoint: str, url: str) -> None:
    """Raise UnsafeResponse if a URL is invalid or points to a local address, unless the endpoint is local too."""
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        raise UnsafeResponse("a URL from the server was not used, because it is invalid") from None
    if parsed.scheme not in {"http", "https"}:
        raise UnsafeResponse("a URL from the server was not used, because it is not http or https")
    address = next(_local_addresses(parsed.host), None)
    if address is not None and next(_local_addresses(httpx.URL(endpoint).host), None) is None:
        raise UnsafeResponse(f"a URL from the server was not used: it has the loopback or link-local address {address}")


def _local_addresses(host: str) -> Iterator[str]:
    """Yield those IP addresses of a host that are loopback, link-local or of the AWS metadata service."""
    try:
        addresses = {str(info[4][0]) for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except UnicodeError:
        raise UnsafeResponse("a URL from the server was not used, because its host is invalid") from None
    except OSError:  # the request fails with a better message, or a proxy resolves the name
        return
    for text in sorted(addresses):
        address = ipaddress.ip_address(text)
        address = getattr(address, "ipv4_mapped", None) or address
        if address.is_loopback or address.is_link_local or address.is_unspecified or address in _AWS_METADATA:
            yield text
