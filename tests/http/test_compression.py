"""One gzip member whoever packs it: read back by readers that stop after the first, and tight only for slow readers."""

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


def one_member(packed: bytes) -> bytes:
    """Read as Java's GZIPInputStream over a single member does: header, deflate, check and length, nothing after."""
    reader = zlib.decompressobj(wbits=31)
    read = reader.decompress(packed) + reader.flush()
    assert reader.eof
    assert reader.unused_data == b""
    return read


def line(error: Exception) -> bytes:
    return f"failed: {error}\n".encode()


@given(st.lists(st.tuples(CHUNK | LARGE, st.sampled_from([None, False, True])), max_size=12))
def test_whatever_is_packed_tight_or_fast_is_one_member_that_says_it(steps: list[tuple[bytes, bool | None]]) -> None:
    member, packed, said = GzipMember(), b"", b""
    reader = zlib.decompressobj(wbits=31)
    read = b""
    for chunk, tight in steps:
        more = member.compress(chunk)
        said += chunk
        if tight is not None:
            more += member.flush(tight=tight)
        packed += more
        read += reader.decompress(more)
        if tight is not None:
            assert read == said  # flushed: all of it can be read
    packed += member.end()
    assert one_member(packed) == gzip.decompress(packed) == said
    assert igzip_lib.decompress(packed, flag=igzip_lib.DECOMP_GZIP) == said
    assert packed[-8:] == zlib.crc32(said).to_bytes(4, "little") + len(said).to_bytes(4, "little")


@given(st.lists(CHUNK | LARGE, max_size=8), st.lists(st.floats(0, 1), min_size=1, max_size=40), st.booleans())
def test_a_stream_is_one_member_at_any_pace_with_the_failure_in_it(
    chunks: list[bytes], steps: list[float], breaks: bool
) -> None:
    moments = itertools.accumulate(itertools.cycle(steps))

    def source() -> Iterator[bytes]:
        for chunk in chunks:
            yield chunk * 4
        if breaks:
            raise ValueError("lost")

    pieces: list[bytes] = []
    packing = gzip_chunks(source(), line, PageBudget(), lambda: next(moments))
    if breaks:
        with pytest.raises(ValueError, match="lost"):
            pieces.extend(packing)
    else:
        pieces.extend(packing)
    read = one_member(b"".join(pieces))
    assert read == b"".join(chunk * 4 for chunk in chunks) + (b"failed: lost\n" if breaks else b"")


def lines(count: int) -> list[bytes]:
    """Return chunks like those of an answer, of which a tight level makes less."""
    words = random.Random(7)  # noqa: S311 -- the same at every run

    def one() -> bytes:
        values = ",".join(f'"c{number}":{words.randrange(10**6) / 100}' for number in range(6))
        return f'{{"file":{{"url":"https://lake/part-{words.randbytes(8).hex()}","stats":{{{values}}}}}}}\n'.encode()

    return [b"".join(one() for _ in range(500)) for _ in range(count // 500)]


def told(chunks: list[bytes], worked: float, waits: Callable[[int], float]) -> list[bytes]:
    """Return the pieces of a stream whose every chunk takes `worked` seconds, and whose reader keeps each a while."""
    now = [0.0]

    def source() -> Iterator[bytes]:
        for chunk in chunks:
            now[0] += worked
            yield chunk

    pieces: list[bytes] = []
    for piece in gzip_chunks(source(), line, PageBudget(), lambda: now[0]):
        now[0] += waits(len(pieces))
        pieces.append(piece)
    assert one_member(b"".join(pieces)) == b"".join(chunks)
    return pieces


@pytest.mark.parametrize(
    ("worked", "waited", "tight"),
    [
        pytest.param(0.004, 0.0001, False, id="a reader who keeps up"),
        pytest.param(0.004, 0.004, False, id="a reader as fast as we are"),
        pytest.param(0.001, 0.02, True, id="a reader who is waited for"),
        pytest.param(0.0, MEASURE_SECONDS / 1000, False, id="not looked at for long enough"),
    ],
)
def test_lines_are_packed_tight_only_where_the_reader_is_waited_for(worked: float, waited: float, tight: bool) -> None:
    chunks = lines(20_000)
    assert sum(map(len, chunks)) > 8 * FLUSH_BYTES
    fast = sum(map(len, told(chunks, 1.0, lambda _: 0.0)))
    packed = sum(map(len, told(chunks, worked, lambda _: waited)))
    assert packed < 0.95 * fast if tight else packed == fast


def test_a_reader_who_keeps_up_again_is_served_fast_again() -> None:
    chunks = lines(40_000)
    fast = told(chunks, 0.004, lambda _: 0.0)
    tight = told(chunks, 0.004, lambda _: 0.1)
    half = len(fast) // 2
    both = told(chunks, 0.004, lambda piece: 0.1 if piece < half else 0.0)
    end = len(both) // 4
    assert sum(map(len, both[:end])) < 0.99 * sum(map(len, fast[:end]))
    assert sum(map(len, both[-end:])) > 1.01 * sum(map(len, tight[-end:]))


def test_the_first_bytes_can_be_read_before_there_are_others() -> None:
    pieces = gzip_chunks(iter([b"head\n", b"x" * 1000]), line, PageBudget())
    assert zlib.decompressobj(wbits=31).decompress(next(pieces)) == b"head\n"
    pieces.close()


def test_nothing_is_an_empty_member() -> None:
    assert one_member(b"".join(gzip_chunks([], line, PageBudget()))) == b""


def test_without_gzip_the_failure_is_the_last_line() -> None:
    def source() -> Iterator[bytes]:
        yield b"one\n"
        raise ValueError("lost")

    kept: list[bytes] = []
    with pytest.raises(ValueError, match="lost"):
        kept.extend(end_with(source(), line, PageBudget()))
    assert kept == [b"one\n", b"failed: lost\n"]
