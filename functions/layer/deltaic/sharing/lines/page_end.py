"""Ends a page that ends by itself at its last line: the last one that is sure to fit what may leave."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from deltaic.sharing.audit_record import ResponseMetrics
from deltaic.sharing.page import Page
from deltaic.sharing.page_budget import PageBudget


def fitting_lines(chunks: Iterable[bytes], page: Page, budget: PageBudget, metrics: ResponseMetrics) -> Iterator[bytes]:
    """Yield the file lines of a page while they are sure to fit, but at least one; the others are for the next page.

    What is left of a chunk waits for the room that it gets once a compressor has let go of what it held back.
    """
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
            # All lines made so far are counted there: to look for their ends takes longer than to join them.
            files = metrics.files or 0 if end == len(rest) else files + rest.count(b"\n", 0, end)
            budget.made += end
            yield rest[:end]
            rest = rest[end:]


def _end(page: Page, files: int, rest: bytes, metrics: ResponseMetrics) -> None:
    """End a page after so many files, and count no line of the rest of a chunk."""
    if page.files <= files:  # its lines were known, and nothing of the log was read for them
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
"""Of a line what the metrics count."""
