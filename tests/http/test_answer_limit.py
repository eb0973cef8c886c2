"""Test that an answer above the platform's limit ends as failed before the platform truncates it."""

import gzip
from collections.abc import Callable, Iterator
from random import Random

import pytest
from asgi_app import FAILED, answer_of, body_of
from deltaic.errors import UnsupportedOperation
from deltaic.http.edge import UseCase
from deltaic.http.response import StreamedResponse

LIMIT = 4_000_000
REMEDIES = ["maxFiles", "predicateHints", "limitHint", "directory access"]


def lines(count: int) -> Iterator[bytes]:
    """Yield lines that gzip compresses to about half their size."""
    random = Random(7)  # noqa: S311 -- the same at every run
    for _ in range(count):
        yield b"%b\n" % random.randbytes(500).hex().encode()


def one_chunk(count: int) -> Iterator[bytes]:
    yield b"".join(lines(count))


def streaming(chunks: Iterator[bytes]) -> UseCase:
    return lambda _: StreamedResponse(headers={}, chunks=chunks, failed=lambda _: FAILED)


@pytest.mark.parametrize("source", [lines, one_chunk])
@pytest.mark.parametrize("accepted", ["identity", "gzip"])
def test_too_large_answer_ends_as_failed_before_the_limit(
    source: Callable[[int], Iterator[bytes]], accepted: str
) -> None:
    complete = b"".join(lines(10_000))
    sent, error = answer_of(streaming(source(10_000)), stream=True, most_bytes=LIMIT, accept_encoding=accepted)
    assert isinstance(error, UnsupportedOperation)
    assert "larger than the 4 MB" in error.message
    assert all(remedy in error.message for remedy in REMEDIES)
    assert ("Accept-Encoding: gzip" in error.message) is (accepted != "gzip")
    assert sent[-1]["more_body"] is True, "the app must not end a failed stream as complete"
    body = body_of(sent)
    assert LIMIT // 4 < len(body) < LIMIT
    decoded = gzip.decompress(body) if accepted == "gzip" else body
    assert decoded.endswith(b"\n" + FAILED)
    assert complete.startswith(decoded.removesuffix(FAILED))


@pytest.mark.parametrize("source", [lines, one_chunk])
@pytest.mark.parametrize("accepted", ["identity", "gzip"])
def test_answer_below_the_limit_is_complete(source: Callable[[int], Iterator[bytes]], accepted: str) -> None:
    sent, error = answer_of(streaming(source(1_900)), stream=True, most_bytes=LIMIT, accept_encoding=accepted)
    body = body_of(sent)
    assert error is None
    assert (gzip.decompress(body) if accepted == "gzip" else body) == b"".join(lines(1_900))
    assert sent[-1].get("more_body", False) is False


def test_answer_without_limit_is_not_refused() -> None:
    sent, error = answer_of(streaming(lines(10_000)), stream=True)
    assert (error, body_of(sent)) == (None, b"".join(lines(10_000)))
