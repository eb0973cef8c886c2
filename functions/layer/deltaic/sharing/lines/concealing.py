"""Takes hidden columns out of the partition values of files."""

import pyarrow as pa

from deltaic import compute as pc


def without_keys(values: pa.MapArray, hidden: frozenset[str] | None) -> pa.MapArray:
    """Return `map<string,string>` without some keys; values that have none of them are returned as they are."""
    if not hidden:
        return values
    kept: pa.BooleanArray = pc.invert(pc.is_in(values.keys, value_set=pa.array(sorted(hidden), pa.string())))
    if kept.true_count == len(kept):
        return values
    # Where each map ends, counted in entries that stay.
    before = pc.cumulative_sum(pc.cast(kept, pa.int32())).to_pylist()
    offsets = [0 if end == 0 else before[end - 1] for end in values.offsets.to_pylist()]
    keys, items = pc.filter(values.keys, kept), pc.filter(values.items, kept)
    mask = pc.is_null(values) if values.null_count else None
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, mask=mask)
