"""Keeps only shown columns in the partition values and statistics of files."""

import msgspec
import pyarrow as pa

from deltaic import compute as pc


def shown_values(values: pa.MapArray, shown: frozenset[str] | None) -> pa.MapArray:
    """Return `map<string,string>` with the shown keys alone; None shows all."""
    if shown is None:
        return values
    visible: pa.BooleanArray = pc.is_in(values.keys, value_set=pa.array(sorted(shown), pa.string()))
    if visible.true_count == len(visible):
        return values
    # Where each map ends, counted in entries that stay.
    before = pc.cumulative_sum(pc.cast(visible, pa.int32())).to_pylist()
    offsets = [0 if end == 0 else before[end - 1] for end in values.offsets.to_pylist()]
    keys, items = pc.filter(values.keys, visible), pc.filter(values.items, visible)
    mask = pc.is_null(values) if values.null_count else None
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, mask=mask)


class _Statistics(msgspec.Struct, omit_defaults=True, rename="camel"):
    """What is known of a file's statistics (Delta protocol, "Per-file Statistics"); others may name any column."""

    num_records: int | None = None
    min_values: dict[str, msgspec.Raw] | None = None
    max_values: dict[str, msgspec.Raw] | None = None
    null_count: dict[str, msgspec.Raw] | None = None
    tight_bounds: bool | None = None


def shown_statistics(statistics: str | None, shown: frozenset[str] | None) -> str | None:
    """Return a file's statistics of the shown columns, values as they were written; None for what cannot be read."""
    if shown is None or statistics is None:
        return statistics
    try:
        left = msgspec.json.decode(statistics, type=_Statistics)
    except (msgspec.DecodeError, UnicodeError):
        return None

    def seen(values: dict[str, msgspec.Raw] | None) -> dict[str, msgspec.Raw] | None:
        return values and {name: value for name, value in values.items() if name in shown}

    left.min_values, left.max_values = seen(left.min_values), seen(left.max_values)
    left.null_count = seen(left.null_count)
    return msgspec.json.encode(left).decode()


def all_shown_statistics(column: pa.StringArray, shown: frozenset[str] | None) -> pa.StringArray:
    """Return the statistics of files, of the shown columns."""
    if shown is None:
        return column
    return pa.array([shown_statistics(one, shown) for one in column.to_pylist()], pa.string())
