"""Test that compressed answers are one gzip member, and strongly compressed only for slow readers."""

import gzip
import itertools
import random
import zlib
from collections.abc import Callable, Iterator

import pytest
from deltaic.http.compression import FLUSH_BYTES, MEASURE_SECONDS, GzipMember, end_with, gzip_chunks
from deltaic.sharing.page_budget import PageBudget
from hypothesis import given
from hypothesis import strategies as st
from isal import igzip_lib

WORDS = [
    b'{"file":{"url":"https://',
    b"\x00" * 700,
    bytes(range(256)),
    b"a",
    b'"}}\n',
    b"1f3870be274f6c49b3e31a0c" * 40,
]
CHUNK = st.lists(st.sampled_from(WORDS) | st.binary(max_size=40), max_size=12).map(b"".join)
LARGE = st.builds(lambda text, times: text * times, st.binary(min_size=1, max_size=60), st.integers(1, 3000))


def decompress_member(compressed: bytes) -> bytes:
    """Return the content of a single gzip member, and check that nothing follows it."""
    reader = zlib.decompressobj(wbits=31)
    read = reader.decompress(compressed) + reader.flush()
    assert reader.eof
    assert reader.unused_data == b""
    return read


def line(error: Exception) -> bytes:
    return f"failed: {error}\n".encode()


@given(st.lists(st.tuples(CHUNK | LARGE, st.sampled_from([None, False, True])), max_size=12))
def test_changing_levels_give_one_member_with_all_bytes(steps: list[tuple[bytes, bool | None]]) -> None:
    member, compressed, expected = GzipMember(), b"", b""
    reader = zlib.decompressobj(wbits=31)
    read = b""
    for chunk, strong in steps:
        piece = member.compress(chunk)
        expected += chunk
        if strong is not None:
            piece += member.flush(strong=strong)
        compressed += piece
        read += reader.decompress(piece)
        if strong is not None:
            assert read == expected  # after a flush, all bytes are readable
    compressed += member.end()
    assert decompress_member(compressed) == gzip.decompress(compressed) == expected
    assert igzip_lib.decompress(compressed, flag=igzip_lib.DECOMP_GZIP) == expected
    assert compressed[-8:] == zlib.crc32(expected).to_bytes(4, "little") + len(expected).to_bytes(4, "little")


@given(st.lists(CHUNK | LARGE, max_size=8), st.lists(st.floats(0, 1), min_size=1, max_size=40), st.booleans())
def test_stream_is_one_member_at_any_speed_and_has_the_failed_line(
    chunks: list[bytes], steps: list[float], breaks: bool
) -> None:
    times = itertools.accumulate(itertools.cycle(steps))

    def source() -> Iterator[bytes]:
        for chunk in chunks:
            yield chunk * 4
        if breaks:
            raise ValueError("lost")

    pieces: list[bytes] = []
    stream = gzip_chunks(source(), line, PageBudget(), lambda: next(times))
    if breaks:
        with pytest.raises(ValueError, match="lost"):
            pieces.extend(stream)
    else:
        pieces.extend(stream)
    read = decompress_member(b"".join(pieces))
    assert read == b"".join(chunk * 4 for chunk in chunks) + (b"failed: lost\n" if breaks else b"")


def lines(count: int) -> list[bytes]:
    """Return chunks of typical lines, which a strong level compresses better."""
    random_ = random.Random(7)  # noqa: S311 -- the same at every run

    def create_line() -> bytes:
        values = ",".join(f'"c{number}":{random_.randrange(10**6) / 100}' for number in range(6))
        return f'{{"file":{{"url":"https://lake/part-{random_.randbytes(8).hex()}","stats":{{{values}}}}}}}\n'.encode()

    return [b"".join(create_line() for _ in range(500)) for _ in range(count // 500)]


def compress(chunks: list[bytes], worked: float, waits: Callable[[int], float]) -> list[bytes]:
    """Compress chunks that take `worked` seconds each, for a reader that takes `waits(number)` seconds a piece."""
    now = [0.0]

    def source() -> Iterator[bytes]:
        for chunk in chunks:
            now[0] += worked
            yield chunk

    pieces: list[bytes] = []
    for piece in gzip_chunks(source(), line, PageBudget(), lambda: now[0]):
        now[0] += waits(len(pieces))
        pieces.append(piece)
    assert decompress_member(b"".join(pieces)) == b"".join(chunks)
    return pieces


@pytest.mark.parametrize(
    ("worked", "waited", "strong"),
    [
        pytest.param(0.004, 0.0001, False, id="a reader who keeps up"),
        pytest.param(0.004, 0.004, False, id="a reader as fast as we are"),
        pytest.param(0.001, 0.02, True, id="a reader who is waited for"),
        pytest.param(0.0, MEASURE_SECONDS / 1000, False, id="not looked at for long enough"),
    ],
)
def test_strong_compression_is_used_only_for_slow_readers(worked: float, waited: float, strong: bool) -> None:
    chunks = lines(20_000)
    assert sum(map(len, chunks)) > 8 * FLUSH_BYTES
    fast = sum(map(len, compress(chunks, 1.0, lambda _: 0.0)))
    compressed = sum(map(len, compress(chunks, worked, lambda _: waited)))
    assert compressed < 0.95 * fast if strong else compressed == fast


def test_faster_reader_gets_fast_compression_again() -> None:
    chunks = lines(40_000)
    fast = compress(chunks, 0.004, lambda _: 0.0)
    strong = compress(chunks, 0.004, lambda _: 0.1)
    half = len(fast) // 2
    changing = compress(chunks, 0.004, lambda piece: 0.1 if piece < half else 0.0)
    end = len(changing) // 4
    assert sum(map(len, changing[:end])) < 0.99 * sum(map(len, fast[:end]))
    assert sum(map(len, changing[-end:])) > 1.01 * sum(map(len, strong[-end:]))


def test_first_chunk_is_readable_before_the_next_one() -> None:
    pieces = gzip_chunks(iter([b"head\n", b"x" * 1000]), line, PageBudget())
    assert zlib.decompressobj(wbits=31).decompress(next(pieces)) == b"head\n"
    pieces.close()


def test_empty_stream_is_an_empty_member() -> None:
    assert decompress_member(b"".join(gzip_chunks([], line, PageBudget()))) == b""


def test_uncompressed_stream_ends_with_the_failed_line() -> None:
    def source() -> Iterator[bytes]:
        yield b"one\n"
        raise ValueError("lost")

    pieces: list[bytes] = []
    with pytest.raises(ValueError, match="lost"):
        pieces.extend(end_with(source(), line, PageBudget()))
    assert pieces == [b"one\n", b"failed: lost\n"]
