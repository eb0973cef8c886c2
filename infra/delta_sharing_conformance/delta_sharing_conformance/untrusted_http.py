"""HTTP answers of a server that is not trusted: bounded when unpacked, without redirects, from no address of this host.

A recipient's tools go where a server sends them: a signed URL may name this machine or its cloud's metadata service,
and some kilobytes of gzip unpack to gigabytes.
"""

import ipaddress
import socket
from collections.abc import Iterator, Mapping

import httpx

MOST_BYTES = 64 * 1024 * 1024
"""Of one answer's body, unpacked."""

ACCEPT_ENCODING = {"Accept-Encoding": "gzip"}
"""One that packs to a thousandth at best: a piece off the network cannot unpack to more than a whole answer may."""


class AnswerRefused(httpx.HTTPError):
    """The server's answer is not read, or its URL is not asked; the text says why, without the URL."""


def read_answer(client: httpx.Client, request: httpx.Request) -> httpx.Response:
    """Send a request and read its answer; raises AnswerRefused for a body too large or packed in another way."""
    answer = client.send(request, stream=True, follow_redirects=False)
    try:
        packed = answer.headers.get("content-encoding", "").strip().lower()
        if packed not in {"", "identity", "gzip"}:
            raise AnswerRefused("an answer packed otherwise than by gzip, which alone was accepted")
        body = bytearray()
        for part in answer.iter_bytes():
            body += part
            if len(body) > MOST_BYTES:
                raise AnswerRefused(f"an answer of more than {MOST_BYTES >> 20} MiB, unpacked")
    finally:
        answer.close()
    headers = [(name, value) for name, value in answer.headers.multi_items() if name != "content-encoding"]
    return httpx.Response(answer.status_code, headers=headers, content=bytes(body), request=request)


def fetch_url(client: httpx.Client, endpoint: str, url: str, headers: Mapping[str, str]) -> httpx.Response:
    """GET a URL that the server at `endpoint` gave; raises AnswerRefused for one of this host that is not its."""
    return read_answer(client, url_request(client, endpoint, url, {**ACCEPT_ENCODING, **headers}))


def url_request(client: httpx.Client, endpoint: str, url: str, headers: Mapping[str, str]) -> httpx.Request:
    """Return the GET of a URL that the server at `endpoint` gave; raises AnswerRefused as `fetch_url` does."""
    try:
        request = client.build_request("GET", url, headers=headers)
    except (httpx.InvalidURL, ValueError):
        raise AnswerRefused("a URL that is none") from None
    own = next(_own(request.url.host), None)
    if own is not None and next(_own(httpx.URL(endpoint).host), None) is None:
        raise AnswerRefused(f"a URL that leads to {own}, loopback or link-local here and not the server's: not fetched")
    return request


def _own(host: str) -> Iterator[str]:
    """Yield the addresses of a host that mean another machine to everybody: loopback, link-local, unspecified."""
    try:
        found = {str(told[4][0]) for told in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except UnicodeError:
        raise AnswerRefused("a URL whose host is none") from None
    except OSError:  # the request itself says so, or a proxy knows the name
        return
    for text in sorted(found):
        address = ipaddress.ip_address(text)
        address = getattr(address, "ipv4_mapped", None) or address
        if address.is_loopback or address.is_link_local or address.is_unspecified:
            yield text
