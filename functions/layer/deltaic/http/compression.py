"""Gzip for a stream on its way out: igzip's fastest level, flushed so that a reader sees progress."""

from collections.abc import Callable, Generator, Iterable

from isal import isal_zlib

from deltaic.sharing.outflow import Outflow

FLUSH_BYTES = 256 * 1024
"""Raw bytes between two flushes; the first chunk is flushed at once, for it holds the protocol and metaData lines."""

_GZIP_WRAPPER = 16 + isal_zlib.MAX_WBITS


def gzip_chunks(chunks: Iterable[bytes], failed: Callable[[Exception], bytes], outflow: Outflow) -> Generator[bytes]:
    """Yield one gzip stream of `chunks`; if they raise, the last line is what `failed` gives; then raise.

    With each flush `outflow` is told what of the chunks has settled.
    """
    pack = isal_zlib.compressobj(level=1, wbits=_GZIP_WRAPPER)
    pending = FLUSH_BYTES
    taken = 0
    try:
        for chunk in chunks:
            packed = pack.compress(chunk)
            taken += len(chunk)
            pending += len(chunk)
            if pending >= FLUSH_BYTES:
                packed += pack.flush(isal_zlib.Z_SYNC_FLUSH)
                pending = 0
                outflow.settled = taken
            if packed:
                yield packed
    except Exception as error:
        yield pack.compress(failed(error)) + pack.flush()
        raise
    yield pack.flush()


def end_with(chunks: Iterable[bytes], failed: Callable[[Exception], bytes], outflow: Outflow) -> Generator[bytes]:
    """Yield `chunks`, each settled at once; if they raise, yield what `failed` gives as the last line, and raise."""
    try:
        for chunk in chunks:
            outflow.settled += len(chunk)
            yield chunk
    except Exception as error:
        yield failed(error)
        raise
