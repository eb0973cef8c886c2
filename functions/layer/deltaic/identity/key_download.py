"""Download an issuer's discovery document and public keys (OpenID Connect), with limits on time and size.

Slow responses, long responses and redirects are errors. The download runs in a separate thread, so that not even slow
name resolution can exceed the time limit.
"""

import json
import threading
import time
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from queue import Empty, SimpleQueue
from socket import SHUT_RDWR, socket
from typing import Any, Final
from urllib.parse import SplitResult

from deltaic.errors import InvalidParameter
from deltaic.identity.jose import Jwk
from deltaic.urls import parse_endpoint

SECONDS: Final = 2.0
"""Time limit for both documents together."""
MOST_BYTES: Final = 512 * 1024
"""Size limit of each document."""
MOST_KEYS: Final = 100
LONGEST_URL: Final = 512
_CHUNK: Final = 65_536
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


class Unreachable(Exception):
    """Error for a failed download of an issuer's keys; its message contains nothing that the issuer sent."""


def check_issuer(issuer: str, *, loopback: bool) -> None:
    """Raise InvalidParameter unless `issuer` is an https URL, as OpenID Connect Discovery requires.

    With `loopback`, also accepts http URLs of this machine, for local servers.
    """
    parts = parse_endpoint(issuer)
    is_safe = parts.scheme == "https" or (loopback and parts.hostname in _LOOPBACK)
    if not is_safe or parts.username is not None or parts.password is not None or len(issuer) > LONGEST_URL:
        raise InvalidParameter(
            f"'{issuer}' is not an issuer URL: write the issuer's https URL exactly as in the claim iss of its tokens, "
            f"with at most {LONGEST_URL} characters"
        )


def download_keys(issuer: str, *, loopback: bool, seconds: float = SECONDS) -> tuple[Jwk, ...]:
    """Download an issuer's public keys; raises Unreachable, for example after `seconds`."""
    results: SimpleQueue[tuple[Jwk, ...] | Unreachable] = SimpleQueue()
    download = _Download(time.monotonic() + seconds, loopback=loopback)

    def run() -> None:
        try:
            results.put(download.keys(issuer))
        except Unreachable as failure:
            results.put(failure)

    threading.Thread(target=run, name="issuer", daemon=True).start()
    try:
        result = results.get(timeout=seconds)
    except Empty:
        download.stop()
        result = Unreachable(f"the issuer did not respond within {seconds:g} s")
    if isinstance(result, Unreachable):
        raise result
    return result


class _Download:
    """Download that another thread can stop, because timeouts of sockets apply only to single reads."""

    def __init__(self, deadline: float, *, loopback: bool) -> None:
        self._deadline = deadline
        self._loopback = loopback
        self._socket: socket | None = None

    def stop(self) -> None:
        """Make the downloading thread fail at its next read."""
        connected = self._socket
        if connected is not None:
            with suppress(OSError):
                connected.shutdown(SHUT_RDWR)

    def keys(self, issuer: str) -> tuple[Jwk, ...]:
        """Download the discovery document and the key set; raises Unreachable."""
        discovery = self._document(f"{issuer.rstrip('/')}/.well-known/openid-configuration", "the discovery document")
        if discovery.get("issuer") != issuer:
            raise Unreachable("the discovery document names another issuer")
        address = discovery.get("jwks_uri")
        if not isinstance(address, str):
            raise Unreachable("the discovery document has no jwks_uri")
        keys = self._document(address, "the key set").get("keys")
        if not isinstance(keys, list) or len(keys) > MOST_KEYS:
            raise Unreachable(f"the key set does not contain a list of at most {MOST_KEYS} keys")
        return tuple(key for key in keys if isinstance(key, dict))

    def _document(self, address: str, title: str) -> dict[str, Any]:
        url, mark, query = address.partition("?")
        try:
            check_issuer(url, loopback=self._loopback)
            parts = parse_endpoint(url)
        except InvalidParameter:
            raise Unreachable(f"the address of {title} is not an https URL") from None
        if not query.isprintable() or len(query) > LONGEST_URL:
            raise Unreachable(f"the address of {title} is not an https URL")
        try:
            document: object = json.loads(self._get(parts, f"{mark}{query}", title).decode())
        except (OSError, HTTPException):
            raise Unreachable(f"{title} cannot be downloaded") from None
        except (ValueError, RecursionError):
            raise Unreachable(f"{title} is not JSON") from None
        if not isinstance(document, dict):
            raise Unreachable(f"{title} is not a JSON object")
        return document

    def _get(self, parts: SplitResult, query: str, title: str) -> bytes:
        connection = self._connection(parts)
        response = None
        try:
            connection.connect()
            self._socket = connection.sock
            headers = {"Accept": "application/json", "User-Agent": "deltaic", "Connection": "close"}
            connection.request("GET", f"{parts.path or '/'}{query}", headers=headers)
            response = connection.getresponse()
            if response.status != HTTPStatus.OK:
                raise Unreachable(f"{title} has HTTP status {response.status}")
            content = b""
            while chunk := response.read1(_CHUNK):
                content += chunk
                if len(content) > MOST_BYTES:
                    raise Unreachable(f"{title} is longer than {MOST_BYTES // 1024} KB")
                self._remaining_seconds()
            return content
        finally:
            if response is not None:
                response.close()  # With "Connection: close", the response owns the socket.
            connection.close()

    def _connection(self, parts: SplitResult) -> HTTPConnection:
        host, port = parts.hostname or "", parts.port
        if parts.scheme == "https":
            import ssl

            context = ssl.create_default_context()
            return HTTPSConnection(host, port, timeout=self._remaining_seconds(), context=context)
        return HTTPConnection(host, port, timeout=self._remaining_seconds())

    def _remaining_seconds(self) -> float:
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise Unreachable("the issuer did not respond in time")
        return remaining
