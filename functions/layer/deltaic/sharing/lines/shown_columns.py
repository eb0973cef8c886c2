"""Remove hidden columns from the partition values and statistics of files."""

import msgspec
import pyarrow as pa

from deltaic import compute as pc


def shown_values(values: pa.MapArray, columns: frozenset[str] | None) -> pa.MapArray:
    """Return a `map<string,string>` column with only the keys in `columns`; None keeps all keys."""
    if columns is None:
        return values
    is_shown: pa.BooleanArray = pc.is_in(values.keys, value_set=pa.array(sorted(columns), pa.string()))
    if is_shown.true_count == len(is_shown):
        return values
    # End of each map, counted in remaining entries.
    before = pc.cumulative_sum(pc.cast(is_shown, pa.int32())).to_pylist()
    offsets = [0 if end == 0 else before[end - 1] for end in values.offsets.to_pylist()]
    keys, items = pc.filter(values.keys, is_shown), pc.filter(values.items, is_shown)
    mask = pc.is_null(values) if values.null_count else None
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, mask=mask)


class _Statistics(msgspec.Struct, omit_defaults=True, rename="camel"):
    """Standard fields of file statistics (Delta protocol, "Per-file Statistics"); others could name hidden columns."""

    num_records: int | None = None
    min_values: dict[str, msgspec.Raw] | None = None
    max_values: dict[str, msgspec.Raw] | None = None
    null_count: dict[str, msgspec.Raw] | None = None
    tight_bounds: bool | None = None


def shown_statistics(statistics: str | None, columns: frozenset[str] | None) -> str | None:
    """Return a file's statistics without hidden columns; None if they are invalid."""
    if columns is None or statistics is None:
        return statistics
    try:
        remaining = msgspec.json.decode(statistics, type=_Statistics)
    except (msgspec.DecodeError, UnicodeError):
        return None

    def select(values: dict[str, msgspec.Raw] | None) -> dict[str, msgspec.Raw] | None:
        return values and {name: value for name, value in values.items() if name in columns}

    remaining.min_values, remaining.max_values = select(remaining.min_values), select(remaining.max_values)
    remaining.null_count = select(remaining.null_count)
    return msgspec.json.encode(remaining).decode()


def all_shown_statistics(column: pa.StringArray, columns: frozenset[str] | None) -> pa.StringArray:
    """Remove hidden columns from each string of a column of file statistics."""
    if columns is None:
        return column
    return pa.array([shown_statistics(statistics, columns) for statistics in column.to_pylist()], pa.string())
