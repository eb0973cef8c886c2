"""Gzip compression of a stream: fast at first, strong (smaller but slower) while sending is the bottleneck.

The fastest level of igzip takes a third of the time that creating a line takes. Where bandwidth is the limit (Lambda
sends 2 MB/s after the first 6 MB), the processor is idle. Then zlib-ng takes six times as long, and its output is a
fifth smaller. Both write to the same gzip member, because some clients stop after the first member: the first
compressor ends its raw deflate stream at a byte boundary, and the next continues with the last 32 KB as dictionary.
"""

import time
from collections.abc import Callable, Generator, Iterable
from typing import Any, Final

from isal import isal_zlib

from deltaic.sharing.page_budget import PageBudget

FLUSH_BYTES: Final = 256 * 1024
"""Uncompressed bytes between flushes; the first chunk, with the protocol and metaData lines, is flushed at once."""

WINDOW_BYTES: Final = 32 * 1024
"""Size of the deflate window (RFC 1951)."""

MEASURE_SECONDS: Final = 0.05
"""Minimum length of a measurement: it covers several flushes, so that a single slow flush has no effect."""

_START_RATIO: Final = 1.5
"""Ratio of sending to creating time that starts strong compression, with which a line takes 2 to 3 times as long."""

_STOP_RATIO: Final = 0.25
"""Ratio of sending time to creating time below which strong compression ends."""

_HEADER: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_RAW: Final = -isal_zlib.MAX_WBITS
_STRONG_LEVEL: Final = 6

Clock = Callable[[], float]


class GzipMember:
    """Encoder of one gzip member (RFC 1952) whose compression level can change between flushes."""

    def __init__(self) -> None:
        self.strong = False
        self._header = _HEADER
        self._compressor: Any = isal_zlib.compressobj(level=1, wbits=_RAW)
        self._window = b""
        self._checksum = isal_zlib.crc32(b"")
        self._length = 0

    def compress(self, data: bytes) -> bytes:
        """Compress bytes, and return the compressed bytes available so far."""
        self._checksum = isal_zlib.crc32(data, self._checksum)
        self._length += len(data)
        self._window = data if len(data) >= WINDOW_BYTES else (self._window + data)[-WINDOW_BYTES:]
        header, self._header = self._header, b""
        compressed: bytes = header + self._compressor.compress(data)
        return compressed

    def flush(self, *, strong: bool) -> bytes:
        """Return the pending bytes, and compress the following ones with zlib-ng (`strong`) or, faster, with igzip."""
        compressed: bytes = self._compressor.flush(isal_zlib.Z_SYNC_FLUSH)
        if strong is not self.strong:
            self.strong = strong
            window = self._window[-WINDOW_BYTES:]
            fast = isal_zlib.compressobj
            self._compressor = _strong_compressor(window) if strong else fast(level=1, wbits=_RAW, zdict=window)
        return compressed

    def end(self) -> bytes:
        """Return the last compressed bytes of the member, with checksum and length."""
        rest: bytes = self._header + self._compressor.flush()
        return rest + self._checksum.to_bytes(4, "little") + (self._length & 0xFFFFFFFF).to_bytes(4, "little")


def _strong_compressor(window: bytes) -> Any:
    # Imported on demand: most responses end before strong compression starts.
    from zlib_ng import zlib_ng

    return zlib_ng.compressobj(level=_STRONG_LEVEL, wbits=_RAW, zdict=window)


class SendTimer:
    """Timer that measures how long a response is being sent and how long it is being created."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._measured_since = self._sending_since = clock()
        self._sending_seconds = 0.0

    def start_sending(self) -> None:
        """Record the time at which sending a piece of the response starts."""
        self._sending_since = self._clock()

    def end_sending(self) -> None:
        """Add the time since `start_sending` to the time spent on sending."""
        self._sending_seconds += self._clock() - self._sending_since

    def strong(self, *, now: bool) -> bool:
        """Return whether to compress the next bytes strongly; `now` is true if the previous bytes were."""
        timestamp = self._clock()
        elapsed = timestamp - self._measured_since
        if elapsed < MEASURE_SECONDS:
            return now
        sending, self._sending_seconds, self._measured_since = self._sending_seconds, 0.0, timestamp
        return sending > (elapsed - sending) * (_STOP_RATIO if now else _START_RATIO)


def gzip_chunks(
    chunks: Iterable[bytes], failed: Callable[[Exception], bytes], budget: PageBudget, clock: Clock = time.perf_counter
) -> Generator[bytes]:
    """Compress `chunks` into one gzip member; if they raise, append the line that `failed` returns and re-raise.

    Each flush records in `budget` how many bytes of `chunks` are compressed. The time in seconds, by `clock`, that the
    consumer takes for each piece determines the compression level.
    """
    member, timer = GzipMember(), SendTimer(clock)
    unflushed = FLUSH_BYTES
    read_bytes = 0
    try:
        for chunk in chunks:
            compressed = member.compress(chunk)
            read_bytes += len(chunk)
            unflushed += len(chunk)
            if unflushed >= FLUSH_BYTES:
                compressed += member.flush(strong=timer.strong(now=member.strong))
                unflushed = 0
                budget.settled = read_bytes
            if compressed:
                timer.start_sending()
                yield compressed
                timer.end_sending()
    except Exception as error:
        yield member.compress(failed(error)) + member.end()
        raise
    yield member.end()


def end_with(chunks: Iterable[bytes], failed: Callable[[Exception], bytes], budget: PageBudget) -> Generator[bytes]:
    """Yield `chunks` uncompressed; if they raise, append the line that `failed` returns and re-raise."""
    try:
        for chunk in chunks:
            budget.settled += len(chunk)
            yield chunk
    except Exception as error:
        yield failed(error)
        raise
