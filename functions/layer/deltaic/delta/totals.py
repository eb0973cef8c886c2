"""Counts the files of a version and their bytes, by paths and sizes alone, or by less.

To know which files of a checkpoint later commits mention takes all of its paths: most of a second for a million. Beyond
EXACT files the commits are believed instead, as other readers and writers do that keep checksums up to date by them:
what is removed was there, and what is added was not. With a filter, what they say of partition values is
believed too, where they all do.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from deltaic import compute as pc
from deltaic.delta.checksum import Totals
from deltaic.delta.file_filter import FileFilter
from deltaic.delta.log_files import reading
from deltaic.delta.replay import Tail
from deltaic.delta.scan.add_rows import OUTPUT_LEAVES, PARTITION_VALUES, add_paths, both, deletion_vectors
from deltaic.delta.scan.checkpoint_parts import LinesPart, ParquetPart, Part, bounded_groups
from deltaic.delta.scan.parquet_file import Cursor
from deltaic.delta.scan.row_group_cache import PartCache, RowGroupCache
from deltaic.delta.scan.row_selection import Selection

EXACT: Final = 20_000
"""Adds of a checkpoint up to which no commit is believed: looking takes about ten milliseconds then."""
_AHEAD: Final = 16 << 20
"""Bytes of a part's chosen row groups that are fetched whole where the files follow: one request, and not two."""


def checkpoint_totals(tail: Tail, parts: Sequence[Part], exact: int = EXACT) -> Totals:
    """Return the totals of the live files of a tail and a checkpoint's parts, counted where those are few."""
    told = _as_told(tail, parts, exact)
    counts = [told] if told else [
        _of_lines(tail, part.files) if isinstance(part, LinesPart) else _of_parquet(tail, part) for part in parts
    ]  # fmt: skip
    return _sum([_kept(tail.files, None), *counts])


def filtered_totals(  # noqa: PLR0913 -- a version, and where what is read of it is kept
    tail: Tail,
    parts: Sequence[Part],
    wanted: FileFilter,
    cache: RowGroupCache,
    table: str,
    *,
    files_follow: bool,
    exact: int = EXACT,
) -> Totals:
    """Return the totals of the live files that a filter keeps by their partition values; `table` as in the cache.

    With `files_follow` what is fetched is left to the scan of those files that comes next.
    """
    counts = [_kept(tail.files, wanted.by_partition(tail.files["partitionValues"]))]
    summed = _as_told_of(tail, parts, wanted, cache, table, exact, files_follow=files_follow)
    if summed is not None:
        return _sum([*counts, summed])
    for part, bounded in zip(parts, bounded_groups(parts, wanted), strict=True):
        if isinstance(part, LinesPart):
            files = pc.filter(part.files, wanted.by_partition(part.files["partitionValues"]))
            counts.append(_of_lines(tail, files))
        else:
            groups = part.groups_of_adds() if bounded is None else bounded
            if not groups:
                continue
            selection = Selection(part, wanted, groups, cache.of(table, part.identity))
            chosen = {group: selection.of(group).rows for group in groups}
            some = {group: mask for group, mask in chosen.items() if mask.true_count}
            counts.append(_of_parquet(tail, part, some, files_follow=files_follow))
    return _sum(counts)


def _sum(counts: Sequence[tuple[int, int]]) -> Totals:
    return Totals(sum(files for files, _ in counts), sum(size for _, size in counts))


def _as_told_of(  # noqa: PLR0913, PLR0917 -- as filtered_totals
    tail: Tail,
    parts: Sequence[Part],
    wanted: FileFilter,
    cache: RowGroupCache,
    table: str,
    exact: int,
    *,
    files_follow: bool,
) -> tuple[int, int] | None:
    """Return what a filter keeps of what is left of a checkpoint, by the word of later commits; None as for _as_told.

    Paths are not read, only partition values and sizes.
    """
    gone = [one for one in tail.displaced.values() if one is not None and one.partition_values]
    adds = [part.num_adds for part in parts]
    if len(gone) < len(tail.displaced) or None in adds or sum(filter(None, adds)) <= exact:
        return None
    values: Any = pa.array([list(one.partition_values.items()) for one in gone], PARTITION_VALUES)
    kept = wanted.by_partition(values)
    files = -kept.true_count
    size = -sum(one.size for one, keep in zip(gone, kept.to_pylist(), strict=True) if keep)
    for part, bounded in zip(parts, bounded_groups(parts, wanted), strict=True):
        if isinstance(part, LinesPart):
            more = _kept(part.files, wanted.by_partition(part.files["partitionValues"]))
        else:
            groups = part.groups_of_adds() if bounded is None else bounded
            found = _chosen_sizes(
                part, wanted, groups, cache.of(table, part.identity), few=files_follow and bounded is not None
            )
            if found is None:
                return None
            more = found
        files, size = files + more[0], size + more[1]
    return (files, size) if min(files, size) >= 0 else None


def _chosen_sizes(
    part: ParquetPart, wanted: FileFilter, groups: Sequence[int], cache: PartCache, *, few: bool
) -> tuple[int, int] | None:
    """Return how many adds of these row groups a filter chooses, and their bytes; None where paths must tell.

    With `few` everything that a scan of them reads is fetched, and left to it.
    """
    if not groups:
        return 0, 0
    file, num_files, size = part.file, 0, 0
    selection = Selection(part, wanted, groups, cache)
    sizes, path = file.leaves("add.size"), file.columns.get("add.path")
    with reading(part.path):
        # What is needed lies side by side, so it is as many requests as for partition values alone.
        spans = file.spans(groups, [*selection.leaves, *sizes, *(file.leaves(*OUTPUT_LEAVES) if few else ())])
        blocks = file.fetch(spans) if sum(end - start for start, end in spans) <= _AHEAD else []
    selection.lend(blocks)
    chosen = {group: selection.of(group) for group in groups}
    if path is None or any(one.adds != file.values(group, path) for group, one in chosen.items()):
        return None
    hit = [group for group, one in chosen.items() if one.rows.true_count]
    with reading(part.path):
        blocks = file.fetch(file.ranges(hit, sizes), blocks)
        if few:
            file.lend(blocks)
        for add in _adds(Cursor(file, blocks), hit, sizes, {group: chosen[group].rows for group in hit}):
            num_files += len(add)
            size += pc.sum(add.field("size")).as_py() or 0
    return num_files, size


def _adds(
    cursor: Cursor, groups: Sequence[int], leaves: Sequence[int], chosen: Mapping[int, pa.BooleanArray] | None
) -> Iterator[pa.StructArray]:
    """Yield the `add` of all rows of these row groups, or of the rows of each that were chosen."""
    for group in groups:
        row = 0
        for batch in cursor.batches(group, leaves):
            add = batch.column("add")
            yield add if chosen is None else pc.filter(add, chosen[group].slice(row, len(add)))
            row += len(add)


def _as_told(tail: Tail, parts: Sequence[Part], exact: int) -> tuple[int, int] | None:
    """Return what is left of a checkpoint by the word of later commits; None where it is small, or unclear."""
    adds = [part.num_adds for part in parts]
    gone = [one.size for one in tail.displaced.values() if one is not None]
    if None in adds or len(gone) < len(tail.displaced) or sum(filter(None, adds)) <= exact:
        return None
    sizes = [part.size_of_adds for part in parts]
    if None in sizes:
        return None
    files, size = sum(filter(None, adds)) - len(gone), sum(filter(None, sizes)) - sum(gone)
    return (files, size) if min(files, size) >= 0 else None


def _of_lines(tail: Tail, files: pa.RecordBatch) -> tuple[int, int]:
    return _kept(files, tail.unmentioned(files["path"], files["deletionVector"]))


def _kept(files: pa.RecordBatch, mask: pa.BooleanArray | None) -> tuple[int, int]:
    kept = files if mask is None else pc.filter(files, mask)
    return kept.num_rows, pc.sum(kept["size"]).as_py() or 0


def _of_parquet(
    tail: Tail,
    part: ParquetPart,
    chosen: Mapping[int, pa.BooleanArray] | None = None,
    *,
    files_follow: bool = False,
) -> tuple[int, int]:
    """Count the live files of all row groups, or of the rows of some that were chosen."""
    num_files = size = 0
    file = part.file
    leaves = file.leaves("add.path", "add.size")
    if tail.seen:
        leaves += file.leaves(*(f"add.deletionVector.{name}" for name in ("storageType", "pathOrInlineDv", "offset")))
    groups = list(range(file.footer.num_row_groups) if chosen is None else chosen)
    if not leaves or not groups:
        return 0, 0
    with reading(part.path):
        ranges = file.ranges(groups, leaves)
        if files_follow:
            whole = file.ranges(groups, file.leaves(*OUTPUT_LEAVES))
            ranges = whole if sum(end - start for start, end in whole) <= _AHEAD else ranges
        blocks = file.fetch(ranges)
        if files_follow:
            file.lend(blocks)
        for add in _adds(Cursor(file, blocks), groups, leaves, chosen):
            paths, adds = add_paths(add)
            mask = both(adds, tail.unmentioned(paths, deletion_vectors(add)))
            sizes = add.field("size") if mask is None else pc.filter(add.field("size"), mask)
            num_files += len(sizes)
            size += pc.sum(sizes).as_py() or 0
    return num_files, size
