"""Decides how many bytes the paths and statistics of a version's files take at the least, by little.

They are counted compressed. It is a floor and no estimate: parts of a checkpoint of which neither summary nor footer is
at hand count for nothing, and so do columns that nobody has compressed and all files of later commits.
"""

from collections.abc import Sequence
from typing import Final

from deltaic.delta.replay import Tail
from deltaic.delta.scan.checkpoint_parts import ParquetPart, Part

_COLUMNS: Final = ("add.path", "add.stats")


def packed_bytes(tail: Tail, parts: Sequence[Part]) -> int:
    """Return the bytes; the footer of the first part is fetched if it is not at hand, for its rows are read next."""
    adds = nbytes = 0
    for number, part in enumerate(parts):
        if isinstance(part, ParquetPart) and part.summary is not None:
            adds += part.summary.num_adds
            nbytes += part.summary.packed_bytes
        elif isinstance(part, ParquetPart) and (number == 0 or part.is_opened):
            adds += part.num_adds or 0
            nbytes += _compressed(part) if part.num_adds else 0
    # Each file that the tail mentions may be one of the checkpoint's that is gone, with its share of the bytes.
    left = max(adds - sum(map(len, tail.seen.values())), 0)
    return nbytes * left // adds if adds else 0


def _compressed(part: ParquetPart) -> int:
    footer, leaves = part.file.footer, part.file.leaves(*_COLUMNS)
    chunks = [footer.row_group(group).column(leaf) for group in range(footer.num_row_groups) for leaf in leaves]
    return sum(chunk.total_compressed_size for chunk in chunks if chunk.compression != "UNCOMPRESSED")
