"""Facts that a file's partition values tell of its partition columns: one point, or null, or nothing.

Delta protocol, "Partition Value Serialization". A table has few distinct values, so they are looked at once each and
the answers spread over the files.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Any, Final, TypeAlias

import pyarrow as pa

from deltaic import compute as pc
from deltaic.pruning.column_tests import Facts
from deltaic.pruning.values import MAX_PRECISION, Axis, ColumnType, partition_point


class AbsentValue(Enum):
    """A partition column that a file's map does not name, which says nothing."""

    ABSENT = 0


Raw: TypeAlias = str | AbsentValue | None
_HIVE_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


def values(maps: pa.MapArray, name: str) -> pa.StringArray | None:
    """Return one key's value for each file; None where some file has no map, not this key, or has it twice."""
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
    named = pc.equal(keys, name)
    if named.true_count != count or named.slice(0, size).true_count != 1:
        return None
    if size == 1:
        return items
    # The key stands at one place in the first file's map: if each mark repeats at the next file, it does in all.
    repeats = pc.equal(named.slice(size), named.slice(0, len(named) - size))
    return pc.filter(items, named) if repeats.true_count == len(repeats) else None


def values_of_any_shape(maps: pa.MapArray, name: str) -> list[Raw]:
    """Return one key's value for each file, slowly, and where it is absent."""
    return [dict(pairs or ()).get(name, AbsentValue.ABSENT) for pairs in maps.to_pylist()]


def facts(raws: Sequence[Raw], type_: ColumnType) -> Facts:
    """Return what partition values say about a column of that type."""
    lows: list[Any] = []
    highs: list[Any] = []
    may_be_null, is_null = [], []
    for raw in raws:
        null, text = _null_and_text(raw, type_)
        point = None if text is None else partition_point(text, type_)
        lows.append(point and point[0])
        highs.append(point and point[1])
        unreadable = isinstance(raw, AbsentValue) or (text is not None and point is None)
        may_be_null.append(null or unreadable)
        is_null.append(null and text is None)
    low, high = _array(lows, type_), _array(highs, type_)
    # NaN has no point, so nothing is known of it: it passes every test already.
    return Facts(low, high, pa.array(may_be_null, pa.bool_()), pa.array(is_null, pa.bool_()), may_be_nan=False)


def _null_and_text(raw: Raw, type_: ColumnType) -> tuple[bool, str | None]:
    """Return whether the value may be null, and the text that it may be otherwise.

    An empty string is null by the protocol; Spark's own reader, and its name for null in folders, may be a string.
    """
    if isinstance(raw, AbsentValue):
        return False, None
    if raw is None:
        return True, None
    if raw in {"", _HIVE_NULL}:
        return True, raw if type_.axis in {Axis.TEXT, None} else None
    return False, raw


def _array(values: list[Any], type_: ColumnType) -> pa.Array | None:
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
    except (pa.ArrowInvalid, OverflowError):  # a value that the type does not hold
        return None
