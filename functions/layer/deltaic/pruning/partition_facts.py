"""Derive facts about partition columns from files' partition values: one value, null, or unknown.

Delta protocol, "Partition Value Serialization". A table has few distinct partition values, so each is evaluated once.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Any, Final, TypeAlias

import pyarrow as pa

from deltaic import compute as pc
from deltaic.pruning.column_tests import Facts
from deltaic.pruning.values import MAX_PRECISION, Axis, ColumnType, partition_point


class AbsentValue(Enum):
    """Marker for a partition column that is missing in a file's `partitionValues`."""

    ABSENT = 0


Raw: TypeAlias = str | AbsentValue | None
_HIVE_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


def values(maps: pa.MapArray, name: str) -> pa.StringArray | None:
    """Return each file's value of a partition column; None unless all maps have it as the same n-th entry."""
    count = len(maps)
    if maps.null_count or not count:
        return None
    offsets = maps.offsets
    start, end = offsets[0].as_py(), offsets[count].as_py()
    size, odd = divmod(end - start, count)
    if odd or not size:
        return None
    sizes = pc.min_max(pc.subtract(offsets.slice(1), offsets.slice(0, count)))
    if sizes["min"].as_py() != size:
        return None
    keys, items = maps.keys.slice(start, end - start), maps.items.slice(start, end - start)
    matches = pc.equal(keys, name)
    if matches.true_count != count or matches.slice(0, size).true_count != 1:
        return None
    if size == 1:
        return items
    # The key has one position in the first file's map; check that all files have it at the same position.
    repeats = pc.equal(matches.slice(size), matches.slice(0, len(matches) - size))
    return pc.filter(items, matches) if repeats.true_count == len(repeats) else None


def values_of_any_shape(maps: pa.MapArray, name: str) -> list[Raw]:
    """Return each file's value for a key, whatever keys the maps contain; slower than `values`."""
    return [dict(pairs or ()).get(name, AbsentValue.ABSENT) for pairs in maps.to_pylist()]


def facts(raws: Sequence[Raw], type_: ColumnType) -> Facts:
    """Return the facts about a column of this type from its partition values."""
    lows: list[Any] = []
    highs: list[Any] = []
    may_be_null, is_null = [], []
    for raw in raws:
        null, text = _interpret(raw, type_)
        point = None if text is None else partition_point(text, type_)
        lows.append(point and point[0])
        highs.append(point and point[1])
        unreadable = isinstance(raw, AbsentValue) or (text is not None and point is None)
        may_be_null.append(null or unreadable)
        is_null.append(null and text is None)
    low, high = _to_array(lows, type_), _to_array(highs, type_)
    # NaN has no bounds, so it already passes every test.
    return Facts(low, high, pa.array(may_be_null, pa.bool_()), pa.array(is_null, pa.bool_()), may_be_nan=False)


def _interpret(raw: Raw, type_: ColumnType) -> tuple[bool, str | None]:
    """Return whether a partition value may mean null, and the string that it may mean (None: no string).

    By the protocol an empty string is null; but Spark's reader may read it, or Hive's marker for null, as a string.
    """
    if isinstance(raw, AbsentValue):
        return False, None
    if raw is None:
        return True, None
    if raw in {"", _HIVE_NULL}:
        return True, raw if type_.axis in {Axis.TEXT, None} else None
    return False, raw


def _to_array(values: list[Any], type_: ColumnType) -> pa.Array | None:
    kinds = {
        Axis.WHOLE: pa.int64(),
        Axis.DOUBLE: pa.float64(),
        Axis.TEXT: pa.string(),
        Axis.DECIMAL: pa.decimal128(MAX_PRECISION, type_.scale),
    }
    if type_.axis is None:
        return None
    try:
        return pa.array(values, kinds[type_.axis])
    except (pa.ArrowInvalid, OverflowError):  # a value out of the type's range
        return None
