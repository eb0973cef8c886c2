"""Count the live files of a table version and sum their sizes.

Finding the checkpoint rows that later commits replace requires all paths: most of a second for a million files. Above
EXACT files this module instead relies on the commits, as engines do that update checksums incrementally: a removed file
existed before, and an added file did not. With a filter it also relies on the partition values in `remove` actions, if
every `remove` action has them.
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
"""Up to this number of `add` actions in a checkpoint, files are counted exactly, which takes about ten milliseconds."""
_AHEAD: Final = 16 << 20
"""Up to this number of bytes, the request for the counted columns also fetches the columns that the next scan reads."""


def checkpoint_totals(tail: Tail, parts: Sequence[Part], exact: int = EXACT) -> Totals:
    """Return number and size of a version's live files; exact for a checkpoint of up to `exact` files."""
    log_count = _count_by_log(tail, parts, exact)
    counts = [log_count] if log_count else [
        _count_lines(tail, part.files) if isinstance(part, LinesPart) else _count_parquet(tail, part) for part in parts
    ]  # fmt: skip
    return _sum_counts([_count_rows(tail.files, None), *counts])


def filtered_totals(  # noqa: PLR0913 -- a version, and where what is read of it is kept
    tail: Tail,
    parts: Sequence[Part],
    file_filter: FileFilter,
    cache: RowGroupCache,
    table: str,
    *,
    files_follow: bool,
    exact: int = EXACT,
) -> Totals:
    """Return the totals of the live files that a filter keeps.

    Set `files_follow` if a scan of these files comes next: it can then use the fetched bytes.
    """
    counts = [_count_rows(tail.files, file_filter.by_partition(tail.files["partitionValues"]))]
    summed = _count_filtered_by_log(tail, parts, file_filter, cache, table, exact, files_follow=files_follow)
    if summed is not None:
        return _sum_counts([*counts, summed])
    for part, bounded in zip(parts, bounded_groups(parts, file_filter), strict=True):
        if isinstance(part, LinesPart):
            files = pc.filter(part.files, file_filter.by_partition(part.files["partitionValues"]))
            counts.append(_count_lines(tail, files))
        else:
            groups = part.groups_of_adds() if bounded is None else bounded
            if not groups:
                continue
            selection = Selection(part, file_filter, groups, cache.part(table, part.identity))
            chosen = {group: selection.select(group).rows for group in groups}
            matching = {group: mask for group, mask in chosen.items() if mask.true_count}
            counts.append(_count_parquet(tail, part, matching, files_follow=files_follow))
    return _sum_counts(counts)


def _sum_counts(counts: Sequence[tuple[int, int]]) -> Totals:
    return Totals(sum(files for files, _ in counts), sum(size for _, size in counts))


def _count_filtered_by_log(  # noqa: PLR0913, PLR0917 -- as filtered_totals
    tail: Tail,
    parts: Sequence[Part],
    file_filter: FileFilter,
    cache: RowGroupCache,
    table: str,
    exact: int,
    *,
    files_follow: bool,
) -> tuple[int, int] | None:
    """Count files of a checkpoint that a filter keeps and later commits do not remove; None to count by path.

    Reads only partition values and sizes, not paths. Also returns None for up to `exact` files: their paths are few.
    """
    removed = [remove for remove in tail.displaced.values() if remove is not None and remove.partition_values]
    adds = [part.num_adds for part in parts]
    if len(removed) < len(tail.displaced) or None in adds or sum(filter(None, adds)) <= exact:
        return None
    values: Any = pa.array([list(remove.partition_values.items()) for remove in removed], PARTITION_VALUES)
    mask = file_filter.by_partition(values)
    files = -mask.true_count
    size = -sum(remove.size for remove, is_kept in zip(removed, mask.to_pylist(), strict=True) if is_kept)
    for part, bounded in zip(parts, bounded_groups(parts, file_filter), strict=True):
        if isinstance(part, LinesPart):
            keep = file_filter.by_partition(part.files["partitionValues"])
            part_count: tuple[int, int] | None = _count_rows(part.files, keep)
        else:
            groups = part.groups_of_adds() if bounded is None else bounded
            few = files_follow and bounded is not None
            part_count = _count_chosen(part, file_filter, groups, cache.part(table, part.identity), few=few)
        if part_count is None:
            return None
        files, size = files + part_count[0], size + part_count[1]
    return (files, size) if min(files, size) >= 0 else None


def _count_chosen(
    part: ParquetPart, file_filter: FileFilter, groups: Sequence[int], cache: PartCache, *, few: bool
) -> tuple[int, int] | None:
    """Count the `add` actions that a filter keeps; None if only their paths show which rows are `add` actions.

    `few` means that a scan of these few row groups follows: also fetch its other columns, and keep them for the scan.
    """
    if not groups:
        return 0, 0
    file, num_files, size = part.file, 0, 0
    selection = Selection(part, file_filter, groups, cache)
    sizes, path = file.leaves("add.size"), file.columns.get("add.path")
    with reading(part.path):
        # These columns are adjacent, so this needs no more requests than partition values alone.
        spans = file.spans(groups, [*selection.leaves, *sizes, *(file.leaves(*OUTPUT_LEAVES) if few else ())])
        blocks = file.fetch(spans) if sum(end - start for start, end in spans) <= _AHEAD else []
    selection.use_prefetched(blocks)
    chosen = {group: selection.select(group) for group in groups}
    if path is None or any(choice.adds != file.values(group, path) for group, choice in chosen.items()):
        return None
    matches = [group for group, choice in chosen.items() if choice.rows.true_count]
    with reading(part.path):
        blocks = file.fetch(file.ranges(matches, sizes), blocks)
        if few:
            file.keep_prefetched(blocks)
        for add in _read_adds(Cursor(file, blocks), matches, sizes, {group: chosen[group].rows for group in matches}):
            num_files += len(add)
            size += pc.sum(add.field("size")).as_py() or 0
    return num_files, size


def _read_adds(
    cursor: Cursor, groups: Sequence[int], leaves: Sequence[int], chosen: Mapping[int, pa.BooleanArray] | None
) -> Iterator[pa.StructArray]:
    """Yield the `add` column of row groups, for all rows or for the chosen rows."""
    for group in groups:
        row = 0
        for batch in cursor.batches(group, leaves):
            add = batch.column("add")
            yield add if chosen is None else pc.filter(add, chosen[group].slice(row, len(add)))
            row += len(add)


def _count_by_log(tail: Tail, parts: Sequence[Part], exact: int) -> tuple[int, int] | None:
    """Count a checkpoint's files minus files removed later; None for up to `exact` files or an unknown count."""
    adds = [part.num_adds for part in parts]
    removed = [remove.size for remove in tail.displaced.values() if remove is not None]
    if None in adds or len(removed) < len(tail.displaced) or sum(filter(None, adds)) <= exact:
        return None
    sizes = [part.size_of_adds for part in parts]
    if None in sizes:
        return None
    files, size = sum(filter(None, adds)) - len(removed), sum(filter(None, sizes)) - sum(removed)
    return (files, size) if min(files, size) >= 0 else None


def _count_lines(tail: Tail, files: pa.RecordBatch) -> tuple[int, int]:
    return _count_rows(files, tail.select_unmentioned(files["path"], files["deletionVector"]))


def _count_rows(files: pa.RecordBatch, mask: pa.BooleanArray | None) -> tuple[int, int]:
    kept_rows = files if mask is None else pc.filter(files, mask)
    return kept_rows.num_rows, pc.sum(kept_rows["size"]).as_py() or 0


def _count_parquet(
    tail: Tail,
    part: ParquetPart,
    chosen: Mapping[int, pa.BooleanArray] | None = None,
    *,
    files_follow: bool = False,
) -> tuple[int, int]:
    """Count the live files in a Parquet part, in all rows or in the chosen rows of each row group."""
    num_files = size = 0
    file = part.file
    leaves = file.leaves("add.path", "add.size")
    if tail.mentioned:
        leaves += file.leaves(*(f"add.deletionVector.{name}" for name in ("storageType", "pathOrInlineDv", "offset")))
    groups = list(range(file.footer.num_row_groups) if chosen is None else chosen)
    if not leaves or not groups:
        return 0, 0
    with reading(part.path):
        ranges = file.ranges(groups, leaves)
        if files_follow:
            all_ranges = file.ranges(groups, file.leaves(*OUTPUT_LEAVES))
            ranges = all_ranges if sum(end - start for start, end in all_ranges) <= _AHEAD else ranges
        blocks = file.fetch(ranges)
        if files_follow:
            file.keep_prefetched(blocks)
        for add in _read_adds(Cursor(file, blocks), groups, leaves, chosen):
            paths, adds = add_paths(add)
            mask = both(adds, tail.select_unmentioned(paths, deletion_vectors(add)))
            sizes = add.field("size") if mask is None else pc.filter(add.field("size"), mask)
            num_files += len(sizes)
            size += pc.sum(sizes).as_py() or 0
    return num_files, size
