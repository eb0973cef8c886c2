"""Decides how many bytes the paths and statistics of a version's files take compressed, by footers and summaries alone.

Columns that nobody has compressed count for nothing, and so do all files of later commits.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from deltaic.delta.replay import Tail
from deltaic.delta.scan.checkpoint_parts import ParquetPart, Part

_COLUMNS: Final = ("add.path", "add.stats")


class PackedGroup(NamedTuple):
    """Files that lie together in a checkpoint."""

    files: int
    nbytes: int
    """Of their paths and statistics, compressed; 0 where nobody has told."""
    codec: str = ""
    """What compressed them, in the words of Parquet; empty where a summary tells."""


def packed_bytes(tail: Tail, parts: Sequence[Part]) -> int:
    """Return a floor: parts of the checkpoint of which neither footer nor summary is at hand count for nothing.

    The footer of the first part is fetched if it is not at hand, for its rows are read next.
    """
    groups = _told(parts)
    adds = sum(group.files for group in groups)
    # Each file that the tail mentions may be one of the checkpoint's that is gone, with its share of the bytes.
    left = max(adds - sum(map(len, tail.seen.values())), 0)
    return sum(group.nbytes for group in groups) * left // adds if adds else 0


def packed_groups(parts: Sequence[Part], files: int) -> list[PackedGroup]:
    """Return the row groups of a checkpoint of so many files; the first is the one whose rows are read first.

    A part of which only a summary is at hand is one group. So are all of which there is neither, of the bytes that they
    have if they are made as the first part is.
    """
    groups = _told(parts)
    rest = files - sum(group.files for group in groups)
    if rest > 0 and groups:
        opened = [part for part in parts if isinstance(part, ParquetPart) and part.is_opened]
        unknown = [part for part in parts if isinstance(part, ParquetPart) and not (part.is_opened or part.summary)]
        others = [part.size for part in unknown]
        share = sum(group.nbytes for part in opened for group in _groups(part)) / sum(part.file.size for part in opened)
        sizes = [size for size in others if size is not None]
        groups.append(PackedGroup(rest, int(sum(sizes) * share) if len(sizes) == len(others) else 0))
    return groups


def _told(parts: Sequence[Part]) -> list[PackedGroup]:
    found: list[PackedGroup] = []
    for number, part in enumerate(parts):
        if isinstance(part, ParquetPart) and (number == 0 or part.is_opened) and part.num_adds:
            found += _groups(part)
        elif isinstance(part, ParquetPart) and part.summary is not None and part.summary.num_adds:
            found.append(PackedGroup(part.summary.num_adds, part.summary.packed_bytes))
    return found


def _groups(part: ParquetPart) -> list[PackedGroup]:
    leaf = part.file.columns["add.path"]
    groups = range(part.file.footer.num_row_groups)
    told = [PackedGroup(part.file.values(group, leaf) or 0, *_compressed(part, group)) for group in groups]
    return [group for group in told if group.files]


def _compressed(part: ParquetPart, group: int) -> tuple[int, str]:
    columns = part.file.footer.row_group(group)
    chunks = [columns.column(leaf) for leaf in part.file.leaves(*_COLUMNS)]
    packed = [chunk for chunk in chunks if chunk.compression != "UNCOMPRESSED"]
    return sum(chunk.total_compressed_size for chunk in packed), packed[0].compression if packed else ""
