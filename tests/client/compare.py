"""Compare rows that the client returned with rows that Spark read: same columns, same multiset of values.

Values that pandas cannot distinguish count as equal:

    a null float and NaN        both are NaN in a frame
    an integer next to nulls    the column is double: compared as the double nearest to Spark's integer
    a Parquet timestamp         frames of the parquet format have no zone (Spark writes INT96): taken as UTC
"""

import json
import math
import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.variant_utils import VariantUtils

NULL: Final = "null"
NOT_A_NUMBER: Final = "null or NaN"
Row = tuple[Any, ...]


def assert_same_rows(frame: pd.DataFrame, expected: pa.Table, *, zones: bool, context: object) -> None:
    """Assert that a frame has Spark's columns in the same order, and its rows in any order.

    Args:
        frame: What the client returned.
        expected: What Spark read.
        zones: Whether the client keeps a timestamp's zone (delta format).
        context: Part of the error message.
    """
    assert list(frame.columns) == expected.column_names, context
    actual = Counter(rows_of_frame(frame, expected.schema, zones=zones))
    expected_rows = Counter(rows_of_spark(expected, frame))
    assert actual == expected_rows, (
        f"{context}: not in Spark's {list(actual - expected_rows)}, only in Spark's {list(expected_rows - actual)}"
    )


def rows_of_frame(frame: pd.DataFrame, schema: pa.Schema, *, zones: bool) -> Iterable[Row]:
    """Return the rows of a frame as plain values; asserts that their types match Spark's."""
    columns = []
    for field in schema:
        column = frame[field.name]
        if zones and len(column) and pa.types.is_timestamp(field.type):
            assert (getattr(column.dtype, "tz", None) is None) == (field.type.tz is None), (field, column.dtype)
        columns.append([_to_plain(value, field.type) for value in column])
    return zip(*columns, strict=True)


def rows_of_spark(table: pa.Table, frame: pd.DataFrame) -> Iterable[Row]:
    """Return Spark's rows as plain values, with integers as precise as in the frame."""
    columns = []
    for field in table.schema:
        values = table[field.name].to_pylist()
        if pa.types.is_integer(field.type) and len(frame) and frame[field.name].dtype.kind == "f":
            values = [None if value is None else int(float(value)) for value in values]
        columns.append([_to_plain(value, field.type) for value in values])
    return zip(*columns, strict=True)


def _to_plain(value: Any, kind: pa.DataType) -> Any:
    types = pa.types
    if types.is_floating(kind):
        missing = value is None or math.isnan(value)
        return NOT_A_NUMBER if missing else struct.pack(">d", float(value))  # -0.0 is not 0.0
    if value is None or value is pd.NaT or (isinstance(value, float) and math.isnan(value)):
        return NULL
    if types.is_boolean(kind):
        assert isinstance(value, (bool, np.bool_)), value
        return bool(value)
    if types.is_integer(kind):
        assert not isinstance(value, bool), value
        assert int(value) == value, value
        return int(value)
    if types.is_decimal(kind):
        assert isinstance(value, Decimal), value
        return value
    if types.is_string(kind):
        return _variant_json(value) if isinstance(value, dict) else _check_text(value)
    if types.is_binary(kind):
        assert isinstance(value, bytes), value
        return value
    if types.is_date(kind):
        assert isinstance(value, date), value
        assert not isinstance(value, datetime), value
        return value
    if types.is_timestamp(kind):
        return _to_microseconds(value)
    if types.is_list(kind):
        return tuple(_to_plain(item, kind.value_type) for item in value)
    if types.is_map(kind):
        pairs = [(_to_plain(key, kind.key_type), _to_plain(item, kind.item_type)) for key, item in value]
        return tuple(sorted(pairs, key=repr))
    assert types.is_struct(kind), kind
    return _struct_values(value, kind)


def _check_text(value: Any) -> str:
    assert isinstance(value, str), value
    return value


def _variant_json(value: Mapping[str, bytes]) -> str:
    """Return a variant as Spark's JSON."""
    assert set(value) == {"metadata", "value"}, value
    context = VariantUtils.to_json(value["value"], value["metadata"])
    return json.dumps(json.loads(context), separators=(",", ":"), ensure_ascii=False)


def _to_microseconds(value: Any) -> int:
    timestamp = pd.Timestamp(value)
    timestamp = timestamp if timestamp.tz is None else timestamp.tz_convert(UTC).tz_localize(None)
    microseconds = timestamp.to_datetime64()
    assert microseconds == microseconds.astype("datetime64[us]"), value
    return int(microseconds.astype("datetime64[us]").astype(np.int64))


def _struct_values(value: Mapping[str, Any], kind: pa.StructType) -> Row:
    """Return a struct's values; the parquet reader omits fields that an old file does not have."""
    field_names = {field.name for field in kind}
    assert set(value) <= field_names, (value, field_names)
    return tuple(_to_plain(value.get(field.name), field.type) for field in kind)
