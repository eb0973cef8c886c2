"""End a page after the last line that certainly fits the maximum size of the page."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from deltaic.sharing.audit_record import ResponseMetrics
from deltaic.sharing.page import Page
from deltaic.sharing.page_budget import PageBudget


def fitting_lines(chunks: Iterable[bytes], page: Page, budget: PageBudget, metrics: ResponseMetrics) -> Iterator[bytes]:
    """Yield the file lines that fit the budget, but at least one, and end the page after them."""
    files = 0
    for chunk in chunks:
        rest = chunk
        while rest:
            end = budget.fitting(rest)
            if not end and not files:
                end = rest.index(b"\n") + 1
            if not end:
                _end(page, files, rest, metrics)
                return
            # If the complete chunk fits, use the count of the metrics, because counting line ends is slow.
            files = metrics.files or 0 if end == len(rest) else files + rest.count(b"\n", 0, end)
            budget.created += end
            yield rest[:end]  # afterwards there may be more room, because the compressor has sent what it buffered
            rest = rest[end:]


def _end(page: Page, files: int, rest: bytes, metrics: ResponseMetrics) -> None:
    """End a page after this many files, and subtract the lines in `rest`, which are not sent, from the metrics."""
    if page.files <= files:  # all lines came from the cache, and the log was not read
        for _ in page:
            if page.files > files:
                break
    page.end_after(files)
    adds = [_decoder.decode(line).add for line in rest.splitlines()]
    metrics.add(-len(adds), -sum(add.size or 0 for add in adds))
    metrics.deletion_vectors -= sum(
        add.deletion_vector is not None and add.deletion_vector.storage_type == "p" for add in adds
    )


class _Vector(msgspec.Struct, rename="camel"):
    storage_type: str


class _AddLine(msgspec.Struct, rename="camel"):
    size: int | None = None
    deletion_vector: _Vector | None = None


class _SingleAction(msgspec.Struct):
    add: _AddLine


class _FileLine(_AddLine, rename="camel"):
    delta_single_action: _SingleAction | None = None


class _CountedLine(msgspec.Struct):
    file: _FileLine

    @property
    def add(self) -> _AddLine:
        return self.file if self.file.delta_single_action is None else self.file.delta_single_action.add


_decoder: Final = msgspec.json.Decoder(_CountedLine)
"""Decodes only the fields of a file line that the metrics count."""
