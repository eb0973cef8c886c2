"""Gzip for a stream on its way out: fast while the reader keeps up, tight while it is the reader that we wait for.

igzip's fastest level costs a third of what making a line costs. Where bytes are what limits (Lambda sends 2 MB/s after
the first 6 MB), our processor waits, and zlib-ng makes of the same lines a fifth less for six times the work: it takes
over while the stream is blocked in sending. Both write one gzip member, for not every reader goes on to a second: raw
deflate, ended on a whole byte, continued by the other with the last 32 KB as its dictionary.
"""

import time
from collections.abc import Callable, Generator, Iterable
from typing import Any, Final

from isal import isal_zlib

from deltaic.sharing.page_budget import PageBudget

FLUSH_BYTES: Final = 256 * 1024
"""Raw bytes between two flushes; the first chunk is flushed at once, for it holds the protocol and metaData lines."""

WINDOW_BYTES: Final = 32 * 1024
"""How far deflate looks back (RFC 1951)."""

LOOK_SECONDS: Final = 0.05
"""How long is looked before it is decided who waits for whom: some flushes, so that one that is slow says nothing."""

_SLOWER: Final = 1.5
"""How many times our own work the waiting must be: packed tight, a line takes us two to three times as long."""

_STILL_SLOWER: Final = 0.25
"""And how many times the work on tight lines, so that it is still the reader who is waited for."""

_HEADER: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_RAW: Final = -isal_zlib.MAX_WBITS
_TIGHT_LEVEL: Final = 6

Clock = Callable[[], float]


class GzipMember:
    """One member of gzip (RFC 1952), written at the level of the moment."""

    def __init__(self) -> None:
        self.tight = False
        self._opening = _HEADER
        self._pack: Any = isal_zlib.compressobj(level=1, wbits=_RAW)
        self._window = b""
        self._check = isal_zlib.crc32(b"")
        self._length = 0

    def compress(self, data: bytes) -> bytes:
        """Take bytes and return what of the member is ready."""
        self._check = isal_zlib.crc32(data, self._check)
        self._length += len(data)
        self._window = data if len(data) >= WINDOW_BYTES else (self._window + data)[-WINDOW_BYTES:]
        opening, self._opening = self._opening, b""
        packed: bytes = opening + self._pack.compress(data)
        return packed

    def flush(self, *, tight: bool) -> bytes:
        """Return what makes all bytes so far readable; those that follow are packed tight or fast."""
        packed: bytes = self._pack.flush(isal_zlib.Z_SYNC_FLUSH)
        if tight is not self.tight:
            self.tight = tight
            window = self._window[-WINDOW_BYTES:]
            self._pack = _tight(window) if tight else isal_zlib.compressobj(level=1, wbits=_RAW, zdict=window)
        return packed

    def end(self) -> bytes:
        """Return the rest of the member, with its check and length."""
        rest: bytes = self._opening + self._pack.flush()
        return rest + self._check.to_bytes(4, "little") + (self._length & 0xFFFFFFFF).to_bytes(4, "little")


def _tight(window: bytes) -> Any:
    # Imported here: most answers end before anybody waits.
    from zlib_ng import zlib_ng

    return zlib_ng.compressobj(level=_TIGHT_LEVEL, wbits=_RAW, zdict=window)


class Pace:
    """Who keeps whom waiting, by the time between two pieces of an answer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = self._left = clock()
        self._waited = 0.0

    def leave(self) -> None:
        """A piece is given away."""
        self._left = self._clock()

    def back(self) -> None:
        """It has been taken."""
        self._waited += self._clock() - self._left

    def tight(self, *, now: bool) -> bool:
        """Tell whether what follows should be packed tight, as it is `now` or otherwise."""
        moment = self._clock()
        elapsed = moment - self._since
        if elapsed < LOOK_SECONDS:
            return now
        waited, self._waited, self._since = self._waited, 0.0, moment
        return waited > (elapsed - waited) * (_STILL_SLOWER if now else _SLOWER)


def gzip_chunks(
    chunks: Iterable[bytes], failed: Callable[[Exception], bytes], budget: PageBudget, clock: Clock = time.perf_counter
) -> Generator[bytes]:
    """Yield one gzip member of `chunks`; if they raise, the last line is what `failed` gives; then raise.

    With each flush `budget` is told what of the chunks has settled. `clock` tells seconds: how long whoever takes
    the pieces keeps each decides how tight the next ones are packed.
    """
    member, pace = GzipMember(), Pace(clock)
    pending = FLUSH_BYTES
    taken = 0
    try:
        for chunk in chunks:
            packed = member.compress(chunk)
            taken += len(chunk)
            pending += len(chunk)
            if pending >= FLUSH_BYTES:
                packed += member.flush(tight=pace.tight(now=member.tight))
                pending = 0
                budget.settled = taken
            if packed:
                pace.leave()
                yield packed
                pace.back()
    except Exception as error:
        yield member.compress(failed(error)) + member.end()
        raise
    yield member.end()


def end_with(chunks: Iterable[bytes], failed: Callable[[Exception], bytes], budget: PageBudget) -> Generator[bytes]:
    """Yield `chunks`, each settled at once; if they raise, yield what `failed` gives as the last line, and raise."""
    try:
        for chunk in chunks:
            budget.settled += len(chunk)
            yield chunk
    except Exception as error:
        yield failed(error)
        raise
