"""Decides how many files a version has and how many bytes, without reading anything but paths and sizes."""

from collections.abc import Sequence

import pyarrow.compute as pc

from deltaic.delta.checkpoint import LinesPart, ParquetPart, Part
from deltaic.delta.checksum import Totals
from deltaic.delta.parquet import Cursor
from deltaic.delta.replay import Tail
from deltaic.delta.rows import add_paths, both, child, deletion_vectors
from deltaic.delta.unreadable import reading

_ROWS = 65536


def checkpoint_totals(tail: Tail, parts: Sequence[Part]) -> Totals:
    """Return the exact totals of the live files of a tail and a checkpoint's parts."""
    num_files = tail.files.num_rows
    size = pc.sum(tail.files["size"]).as_py() or 0
    for part in parts:
        more_files, more_size = _of_lines(tail, part) if isinstance(part, LinesPart) else _of_parquet(tail, part)
        num_files += more_files
        size += more_size
    return Totals(num_files, size)


def _of_lines(tail: Tail, part: LinesPart) -> tuple[int, int]:
    keep = tail.keep(part.files["path"], part.files["deletionVector"])
    files = part.files if keep is None else part.files.filter(keep)
    return files.num_rows, pc.sum(files["size"]).as_py() or 0


def _of_parquet(tail: Tail, part: ParquetPart) -> tuple[int, int]:
    num_files = size = 0
    file = part.file
    leaves = file.leaves("add.path", "add.size")
    if tail.seen:
        leaves += file.leaves(*(f"add.deletionVector.{name}" for name in ("storageType", "pathOrInlineDv", "offset")))
    groups = list(range(file.footer.num_row_groups))
    if not leaves or not groups:
        return 0, 0
    with reading(part.path):
        cursor = Cursor(file, file.fetch(file.ranges(groups, leaves)))
        for group in groups:
            for batch in cursor.batches(group, leaves, _ROWS):
                add = batch.column("add")
                paths, adds = add_paths(add)
                keep = both(adds, tail.keep(paths, deletion_vectors(add)))
                sizes = child(add, "size")
                if keep is not None:
                    sizes = sizes.filter(keep)
                num_files += len(sizes)
                size += pc.sum(sizes).as_py() or 0
    return num_files, size
