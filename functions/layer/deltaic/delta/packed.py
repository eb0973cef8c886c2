"""Counts the bytes that paths and statistics of a version's files take compressed, by footers and summaries alone.

Columns that nobody has compressed count for nothing, and so do all files of later commits.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from deltaic.delta.replay import Tail
from deltaic.delta.scan.checkpoint_parts import ParquetPart, Part

_COLUMNS: Final = ("add.path", "add.stats")


def packed_bytes(tail: Tail, parts: Sequence[Part]) -> int:
    """Return a floor: parts of the checkpoint of which neither footer nor summary is at hand count for nothing.

    The footer of the first part is fetched if it is not at hand, for its rows are read next.
    """
    measured = list(_measured(parts))
    adds = sum(files for files, _ in measured)
    # Each file that the tail mentions may be one of the checkpoint's that is gone, with its share of the bytes.
    left = max(adds - sum(map(len, tail.seen.values())), 0)
    return sum(nbytes for _, nbytes in measured) * left // adds if adds else 0


def _measured(parts: Sequence[Part]) -> Iterator[tuple[int, int]]:
    """Yield files and bytes of parts of which one of both tells."""
    for number, part in enumerate(parts):
        if isinstance(part, ParquetPart) and (number == 0 or part.is_opened) and part.num_adds:
            yield part.num_adds, _compressed(part)
        elif isinstance(part, ParquetPart) and part.summary is not None:
            yield part.summary.num_adds, part.summary.packed_bytes


def _compressed(part: ParquetPart) -> int:
    footer = part.file.footer
    groups = [footer.row_group(group) for group in range(footer.num_row_groups)]
    chunks = [group.column(leaf) for group in groups for leaf in part.file.leaves(*_COLUMNS)]
    return sum(chunk.total_compressed_size for chunk in chunks if chunk.compression != "UNCOMPRESSED")
