"""Fetches an issuer's keys: its discovery document, then the key set that it names; within seconds and bytes, or not.

Whoever answers slowly, at length or with a redirect has not answered. A thread of its own does it, so that not even a
name that does not resolve keeps anybody longer.
"""

import json
import threading
import time
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from queue import Empty, SimpleQueue
from socket import SHUT_RDWR, socket
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult

from deltaic.errors import InvalidParameter
from deltaic.identity.jose import Jwk
from deltaic.urls import parse_endpoint

SECONDS: Final = 2.0
"""For both documents together."""
MOST_BYTES: Final = 512 * 1024
"""Of each document."""
MOST_KEYS: Final = 100
LONGEST_URL: Final = 512
_CHUNK: Final = 65_536
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


class Unreachable(Exception):
    """An issuer's keys cannot be had; the message says why, in words of ours alone."""


def check_issuer(issuer: str, *, loopback: bool) -> None:
    """Raise InvalidParameter unless this can be an issuer: an https URL as OpenID Connect Discovery wants it.

    With `loopback` plain http to this machine will do, as the embedded AWS has it.
    """
    parts = parse_endpoint(issuer)
    safe = parts.scheme == "https" or (loopback and parts.hostname in _LOOPBACK)
    if not safe or parts.username is not None or parts.password is not None or len(issuer) > LONGEST_URL:
        raise InvalidParameter(
            f"'{issuer}' is not an issuer: write its https URL as the claim iss of its tokens has it, "
            f"{LONGEST_URL} characters at most"
        )


class IssuerMetadata(NamedTuple):
    """What is used of what an issuer publishes."""

    keys: tuple[Jwk, ...]
    token_endpoint: str
    """Where its clients get tokens; empty if it does not say."""


def download_metadata(issuer: str, *, loopback: bool, seconds: float = SECONDS) -> IssuerMetadata:
    """Return what an issuer publishes now; raises Unreachable after so many seconds at the latest."""
    answers: SimpleQueue[IssuerMetadata | Unreachable] = SimpleQueue()
    fetching = _Fetching(time.monotonic() + seconds, loopback=loopback)

    def work() -> None:
        try:
            answers.put(fetching.published(issuer))
        except Unreachable as failure:
            answers.put(failure)

    threading.Thread(target=work, name="issuer", daemon=True).start()
    try:
        answer = answers.get(timeout=seconds)
    except Empty:
        fetching.stop()
        answer = Unreachable(f"it did not answer within {seconds:g} s")
    if isinstance(answer, Unreachable):
        raise answer
    return answer


class _Fetching:
    """One attempt, which can be ended from outside: a peer that sends a letter a second is never late by itself."""

    def __init__(self, deadline: float, *, loopback: bool) -> None:
        self._deadline = deadline
        self._loopback = loopback
        self._socket: socket | None = None

    def stop(self) -> None:
        """Let the thread fail at its next read."""
        connected = self._socket
        if connected is not None:
            with suppress(OSError):
                connected.shutdown(SHUT_RDWR)

    def published(self, issuer: str) -> IssuerMetadata:
        """Return what the two documents say; raises Unreachable."""
        told = self._document(f"{issuer.rstrip('/')}/.well-known/openid-configuration", "its discovery document")
        if told.get("issuer") != issuer:
            raise Unreachable("its discovery document is of another issuer")
        address = told.get("jwks_uri")
        if not isinstance(address, str):
            raise Unreachable("its discovery document names no keys")
        keys = self._document(address, "its key set").get("keys")
        if not isinstance(keys, list) or len(keys) > MOST_KEYS:
            raise Unreachable(f"its key set has no list of at most {MOST_KEYS} keys")
        endpoint = told.get("token_endpoint")
        return IssuerMetadata(
            tuple(key for key in keys if isinstance(key, dict)), endpoint if isinstance(endpoint, str) else ""
        )

    def _document(self, address: str, what: str) -> dict[str, Any]:
        place, mark, query = address.partition("?")
        try:
            check_issuer(place, loopback=self._loopback)
            parts = parse_endpoint(place)
        except InvalidParameter:
            raise Unreachable(f"the address of {what} is no https URL") from None
        if not query.isprintable() or len(query) > LONGEST_URL:
            raise Unreachable(f"the address of {what} is no https URL")
        try:
            read: object = json.loads(self._get(parts, f"{mark}{query}", what).decode())
        except (OSError, HTTPException):
            raise Unreachable(f"{what} cannot be fetched") from None
        except (ValueError, RecursionError):
            raise Unreachable(f"{what} is no JSON") from None
        if not isinstance(read, dict):
            raise Unreachable(f"{what} is no object")
        return read

    def _get(self, parts: SplitResult, query: str, what: str) -> bytes:
        connection = self._connection(parts)
        response = None
        try:
            connection.connect()
            self._socket = connection.sock
            headers = {"Accept": "application/json", "User-Agent": "deltaic", "Connection": "close"}
            connection.request("GET", f"{parts.path or '/'}{query}", headers=headers)
            response = connection.getresponse()
            if response.status != HTTPStatus.OK:
                raise Unreachable(f"{what} is answered with {response.status}")
            content = b""
            while chunk := response.read1(_CHUNK):
                content += chunk
                if len(content) > MOST_BYTES:
                    raise Unreachable(f"{what} is longer than {MOST_BYTES // 1024} KB")
                self._left()
            return content
        finally:
            if response is not None:
                response.close()  # it has the socket of a connection that is to be closed
            connection.close()

    def _connection(self, parts: SplitResult) -> HTTPConnection:
        host, port = parts.hostname or "", parts.port
        if parts.scheme == "https":
            import ssl

            context = ssl.create_default_context()
            return HTTPSConnection(host, port, timeout=self._left(), context=context)
        return HTTPConnection(host, port, timeout=self._left())

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise Unreachable("it did not answer in time")
        return left
