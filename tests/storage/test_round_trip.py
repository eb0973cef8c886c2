"""Signed URLs with two real stores: valid URLs are served, changed and expired URLs are refused."""

import http.client
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import pytest
from deltaic.storage.locations import Location
from deltaic.storage.signing import UrlSigner
from storage.keys import NASTY_KEYS
from storage.stores import Store

HOUR = timedelta(hours=1)

# SeaweedFS stores objects as files, so it refuses keys that cannot be file names.
NO_FILE_NAMES = frozenset({"a/./b/../c.parquet", "../up", "trailing/", "//", "x" * 900})


def fetch(url: str, method: str = "GET", **headers: str) -> tuple[int, bytes]:
    """Send a request without normalizing the path of the URL."""
    parts = urlsplit(url)
    assert parts.hostname
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=20)
    try:
        connection.request(method, f"{parts.path}?{parts.query}", headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def signer(store: Store, *, ttl: timedelta = HOUR, now: datetime | None = None) -> UrlSigner:
    return UrlSigner(store.credentials, store.storage, Location(store.bucket, ""), ttl=ttl, now=now)


@pytest.mark.parametrize("key", NASTY_KEYS, ids=ascii)
def test_nasty_keys_are_served(ministack: Store, key: str) -> None:
    check_served(ministack, key)


@pytest.mark.parametrize("key", [key for key in NASTY_KEYS if key not in NO_FILE_NAMES], ids=ascii)
def test_nasty_keys_are_served_by_seaweedfs(seaweedfs: Store, key: str) -> None:
    check_served(seaweedfs, key)


def check_served(store: Store, key: str) -> None:
    store.put(key, b"0123456789")
    url = signer(store).url(key)
    assert fetch(url) == (200, b"0123456789")
    assert fetch(url, Range="bytes=2-4") == (206, b"234")


def flipped(url: str, position: int) -> str:
    return url[:position] + ("0" if url[position] != "0" else "1") + url[position + 1 :]


@pytest.mark.parametrize("part", ["signature", "path", "expiry", "date", "removed"])
def test_a_changed_url_is_refused(store: Store, part: str) -> None:
    for number in range(3):
        store.put(f"changed/part-{number}", b"data")
    url = signer(store).url("changed/part-2")
    changed = {
        "signature": flipped(url, len(url) - 1),
        "path": url.replace("changed/part-2", "changed/part-1"),
        "expiry": url.replace("X-Amz-Expires=3600", "X-Amz-Expires=7200"),
        "date": flipped(url, url.index("X-Amz-Date=") + len("X-Amz-Date=20")),
        "removed": url.partition("?")[0] + "?",
    }[part]
    assert changed != url
    assert fetch(url)[0] == 200
    assert fetch(changed)[0] in {400, 403}


def test_only_get_is_signed(store: Store) -> None:
    store.put("methods/x", b"data")
    url = signer(store).url("methods/x")
    assert [fetch(url, method)[0] for method in ("HEAD", "PUT", "DELETE")] == [403, 403, 403]
    assert fetch(url) == (200, b"data")


def test_an_expired_url_is_refused(store: Store) -> None:
    store.put("expired/x", b"data")
    now = datetime.now(UTC)
    assert fetch(signer(store, ttl=timedelta(minutes=10), now=now - timedelta(minutes=9)).url("expired/x"))[0] == 200
    assert fetch(signer(store, ttl=timedelta(minutes=10), now=now - timedelta(minutes=11)).url("expired/x"))[0] == 403
