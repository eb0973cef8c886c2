"""Measures what a line weighs on the wire, as its reader is served, beside what is random in it."""

import time
from collections.abc import Iterator
from typing import Final

from bench import ours, tables
from bench.figures import Figure

LINES: Final = 20_000
SUBJECT: Final = "bytes a line"
_SIGNATURE: Final = 32
_UUID: Final = 15.25
"""Of its 128 bits six say that it is random."""
_IDS: Final = {"parquet": 16, "delta": 32}
"""Digests of the path: nothing that a coder could know of, random to it like the path."""
_WORTH: Final = 0.88
"""What packing tight must make of the bytes that the fast level leaves."""


def line_bytes(token_length: int) -> Iterator[Figure]:
    """Yield the bytes and the compressor's time of a line in both formats; URLs carry a token of so many characters."""
    from deltaic.sharing.access import Tally
    from deltaic.sharing.lines.rendering import FileStyle, render

    batch, urls = ours.files_and_urls(LINES, token_length)
    signed = _SIGNATURE + _UUID
    for style in (
        FileStyle("parquet", "parquet"),
        FileStyle("delta", "delta"),
        FileStyle("parquet", "parquet", statistics=False),
    ):
        chunks = list(render(batch, urls, style, Tally()))
        said = f"{style.response_format} format" + ("" if style.statistics else ", without statistics")
        floor = signed + _IDS[style.scheme] + (tables.STATISTICS_BITS / 8 if style.statistics else 0)
        yield Figure(SUBJECT, f"{said}: plain", sum(map(len, chunks)) / LINES, "B")
        fast, quick = _packed(chunks, waited=0.0)
        tight, slow = _packed(chunks, waited=1.0)
        yield Figure(SUBJECT, f"{said}: a reader who keeps up", fast, "B", None, "what is random", floor)
        bar = fast * _WORTH if style.statistics else None
        yield Figure(SUBJECT, f"{said}: a reader who is waited for", tight, "B", bar, "what is random", floor)
        yield Figure(SUBJECT, f"{said}: packing, fast", quick, "us")
        yield Figure(SUBJECT, f"{said}: packing, tight", slow, "us")


def _packed(chunks: list[bytes], waited: float) -> tuple[float, float]:
    """Return the bytes of a line, and the microseconds of packing it, for a reader who keeps each piece a while."""
    from deltaic.http.compression import gzip_chunks
    from deltaic.sharing.outflow import Outflow

    kept = [0.0]
    nbytes = 0
    began = time.process_time()
    for piece in gzip_chunks(chunks, lambda _: b"", Outflow(), lambda: kept[0]):
        kept[0] += waited
        nbytes += len(piece)
    return nbytes / LINES, (time.process_time() - began) / LINES * 1e6
