"""Download of an issuer's keys: on demand, at most once a minute, within two seconds and half a megabyte."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler

import pytest
from deltaic.errors import InvalidParameter
from deltaic.identity import jose
from deltaic.identity.issuer_keys import IssuerKeys
from deltaic.identity.jose import Jwk, JwtRejected
from deltaic.identity.key_download import MOST_BYTES, Unreachable, check_issuer, download_keys
from identity.issuer import Issuer, running, send

DISCOVERY, KEYS = "/.well-known/openid-configuration", "/keys"


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with running() as running_issuer:
        yield running_issuer


class Clock:
    """Clock that moves only when a test changes it."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def keys_of(clock: Clock) -> IssuerKeys:
    return IssuerKeys(lambda url: download_keys(url, loopback=True), clock)


def test_keys_are_downloaded_once_and_cached(issuer: Issuer) -> None:
    keys = keys_of(clock := Clock())
    for _ in range(5):
        assert keys.key(issuer.url, jose.read(issuer.token()))["kid"] == "first"
        clock.now += 600
    assert issuer.asked == [DISCOVERY, KEYS]
    clock.now += 3600
    keys.key(issuer.url, jose.read(issuer.token()))
    assert issuer.asked == [DISCOVERY, KEYS] * 2


def test_unknown_key_is_requested_at_most_once_a_minute(issuer: Issuer) -> None:
    keys = keys_of(clock := Clock())
    keys.key(issuer.url, jose.read(issuer.token()))
    issuer.rotate("second", keep=True)
    for _ in range(10):
        with pytest.raises(JwtRejected, match="no such key"):
            keys.key(issuer.url, jose.read(issuer.token()))
    assert issuer.asked == [DISCOVERY, KEYS]
    clock.now += 60
    assert keys.key(issuer.url, jose.read(issuer.token()))["kid"] == "second"
    for number in range(10):
        with pytest.raises(JwtRejected):
            keys.key(issuer.url, jose.read(issuer.token({"kid": f"invented-{number}"})))
    assert issuer.asked == [DISCOVERY, KEYS] * 2


def test_removed_key_is_refused_within_an_hour(issuer: Issuer) -> None:
    keys = keys_of(clock := Clock())
    old = issuer.token()
    keys.key(issuer.url, jose.read(old))
    issuer.rotate("second")
    assert keys.key(issuer.url, jose.read(old))
    clock.now += 3600
    with pytest.raises(JwtRejected, match="no such key"):
        keys.key(issuer.url, jose.read(old))


def test_keys_are_accepted_for_a_day_without_their_issuer(issuer: Issuer) -> None:
    keys = keys_of(clock := Clock())
    keys.key(issuer.url, jose.read(issuer.token()))
    issuer.answers[DISCOVERY] = lambda handler: send(handler, 500, {})
    clock.now += 86_399
    assert keys.key(issuer.url, jose.read(issuer.token()))
    clock.now += 1
    with pytest.raises(JwtRejected):
        keys.key(issuer.url, jose.read(issuer.token()))


def slow(handler: BaseHTTPRequestHandler) -> None:
    """Send a character of the headers every tenth of a second, and never end."""
    with suppress(OSError):
        handler.wfile.write(b"HTTP/1.0 200 OK\r\nX-Slow: ")
        for _ in range(100):
            handler.wfile.write(b"x")
            handler.wfile.flush()
            time.sleep(0.1)


def slow_body(handler: BaseHTTPRequestHandler) -> None:
    with suppress(OSError):
        handler.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n")
        for _ in range(100):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.1)


def send_no_http(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"hello\r\n\r\n")


BROKEN: dict[str, tuple[str, Callable[[BaseHTTPRequestHandler], None], str]] = {
    "discovery missing": (DISCOVERY, lambda handler: send(handler, 404, {}), "has HTTP status 404"),
    "discovery moved": (DISCOVERY, lambda handler: send(handler, 302, {}, {"Location": KEYS}), "has HTTP status 302"),
    "discovery of another": (
        DISCOVERY,
        lambda handler: send(handler, 200, {"issuer": "https://other.example", "jwks_uri": "https://other.example/k"}),
        "another issuer",
    ),
    "discovery no JSON": (DISCOVERY, lambda handler: send(handler, 200, b"<html>"), "not JSON"),
    "discovery a list": (DISCOVERY, lambda handler: send(handler, 200, []), "not a JSON object"),
    "keys moved": (KEYS, lambda handler: send(handler, 307, {}, {"Location": "/elsewhere"}), "has HTTP status 307"),
    "keys of megabytes": (KEYS, lambda handler: send(handler, 200, b" " * (MOST_BYTES + 1)), "longer than 512 KB"),
    "keys without end": (
        KEYS,
        lambda handler: send(handler, 200, b" " * 50_000_000, {"Content-Length": "50000000"}),
        "longer than 512 KB",
    ),
    "keys many": (KEYS, lambda handler: send(handler, 200, {"keys": [{}] * 101}), "at most 100"),
    "keys none": (KEYS, lambda handler: send(handler, 200, {"keys": {}}), "at most 100"),
    "keys deep": (KEYS, lambda handler: send(handler, 200, b"[" * 100_000), "not JSON"),
    "no HTTP": (KEYS, send_no_http, "cannot be downloaded"),
    "slow head": (DISCOVERY, slow, "did not respond within"),
    "slow body": (KEYS, slow_body, "did not respond"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_invalid_response_is_unreachable(issuer: Issuer, fault: str) -> None:
    path, answer, reason = BROKEN[fault]
    issuer.answers[path] = answer
    with pytest.raises(Unreachable, match=reason):
        download_keys(issuer.url, loopback=True, seconds=0.5 if "slow" in fault else 10)
    if "moved" in fault:
        assert issuer.asked in ([DISCOVERY], [DISCOVERY, KEYS])


@pytest.mark.parametrize(
    "address", ["http://issuer.test/keys", "ftp://x/keys", "file:///etc/passwd", 7, "https://a@b/"]
)
def test_address_of_keys_must_be_https(issuer: Issuer, address: object) -> None:
    issuer.answers[DISCOVERY] = lambda handler: send(handler, 200, {"issuer": issuer.url, "jwks_uri": address})
    with pytest.raises(Unreachable):
        download_keys(issuer.url, loopback=True)
    assert issuer.asked == [DISCOVERY]


def test_plain_http_is_only_for_local_servers(issuer: Issuer) -> None:
    with pytest.raises(Unreachable, match="not an https URL"):
        download_keys(issuer.url, loopback=False)
    assert issuer.asked == []


def test_closed_port_is_unreachable() -> None:
    with pytest.raises(Unreachable, match="cannot be downloaded"):
        download_keys("http://127.0.0.1:9", loopback=True)


def test_slow_issuer_delays_only_its_own_tokens(issuer: Issuer) -> None:
    """Tokens of another issuer do not wait, and the slow issuer gets no new request for a minute."""
    clock, started, release = Clock(), threading.Event(), threading.Event()
    requested: list[str] = []

    def download(url: str) -> tuple[Jwk, ...]:
        requested.append(url)
        if url == "https://slow.example":
            started.set()
            release.wait(30)
            raise Unreachable("the issuer did not respond within 2 s")
        return download_keys(url, loopback=True)

    keys = IssuerKeys(download, clock)
    refusals: list[str] = []
    token = jose.read(issuer.token())

    def wait() -> None:
        try:
            keys.key("https://slow.example", token)
        except JwtRejected as refusal:
            refusals.append(str(refusal))

    waiter = threading.Thread(target=wait)
    waiter.start()
    assert started.wait(30)
    assert keys.key(issuer.url, token)["kid"] == "first"
    release.set()
    waiter.join()
    for _ in range(10):
        wait()
    assert refusals == ["the issuer's key is not available: the issuer did not respond within 2 s"] * 11
    assert requested.count("https://slow.example") == 1


@pytest.mark.parametrize("issuer", ["https://login.example.org", "https://a.example:8443/realms/x/", "https://[::1]/x"])
def test_https_url_is_an_issuer(issuer: str) -> None:
    check_issuer(issuer, loopback=False)


@pytest.mark.parametrize(
    "issuer",
    [
        "http://login.example.org",
        "http://127.0.0.1:1",
        "login.example.org",
        "https://user:pass@login.example.org",
        "https://login.example.org?x=1",
        "https://login.example.org#x",
        "https://login.example.org/\n",
        f"https://login.example.org/{'x' * 512}",
        "",
    ],
)
def test_invalid_issuer_is_refused(issuer: str) -> None:
    with pytest.raises(InvalidParameter):
        check_issuer(issuer, loopback=False)
