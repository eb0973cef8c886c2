"""Compare downloaded rows with those that Spark read: values, types and duplicates must be equal."""

import json
import math
import struct
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import delta_kernel_rust_sharing_wrapper as kernel  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.csv
from pyspark.sql.variant_utils import VariantUtils

Row = tuple[Any, ...]


def rows_of(table: pa.Table, schema: pa.Schema) -> Counter[Row]:
    """Return rows as Python values, after checking that their types equal Spark's. Variants become JSON."""
    assert table.column_names == schema.names
    for actual, expected in zip(table.schema, schema, strict=True):
        assert _same_type(actual.type, expected.type), (actual, expected)
    columns = [
        [_python_value(value, field.type) for value in column.to_pylist()]
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return Counter(zip(*columns, strict=True))


def rows_of_csv(path: Path, schema: pa.Schema) -> Counter[Row]:
    """Return the rows of a CSV file as the same Python values."""
    read = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(schema.names, pa.string()),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        null_values=[""],
    )
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    table = pyarrow.csv.read_csv(path, convert_options=read, parse_options=parse)
    assert table.column_names == schema.names
    columns = [
        [None if text is None else _python_value(_parse(text, field.type), field.type) for text in column.to_pylist()]
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return Counter(zip(*columns, strict=True))


def rows_of_folder(folder: Path) -> Any:
    """Return the rows of a Delta table, read by Delta's own library."""
    interface = kernel.PythonInterface(folder.as_uri())
    scan = kernel.ScanBuilder(kernel.Table(folder.as_uri()).snapshot(interface)).build()
    return scan.execute(interface).read_all()


def difference(actual: Counter[Row], expected: Counter[Row]) -> str:
    return f"too many {list(actual - expected)[:3]}, missing {list(expected - actual)[:3]}"


def _same_type(actual: Any, expected: Any) -> bool:
    if _is_variant(actual):
        return pa.types.is_string(expected)
    if pa.types.is_nested(expected):
        pairs = [(actual.field(index).type, expected.field(index).type) for index in range(expected.num_fields)]
        return actual.id == expected.id and all(_same_type(*pair) for pair in pairs)
    return bool(actual == expected)


def _is_variant(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) and {field.name for field in kind} == {"metadata", "value"}


def _python_value(value: Any, kind: pa.DataType) -> Any:
    types = pa.types
    if value is None:
        return None
    if types.is_floating(kind):
        return "NaN" if math.isnan(value) else struct.pack(">d", float(value))
    if types.is_string(kind) and isinstance(value, dict):
        variant = json.loads(VariantUtils.to_json(value["value"], value["metadata"]))
        return json.dumps(variant, separators=(",", ":"), ensure_ascii=False)
    if types.is_list(kind):
        return tuple(_python_value(item, kind.value_type) for item in value)
    if types.is_map(kind):
        pairs = [(_python_value(key, kind.key_type), _python_value(item, kind.item_type)) for key, item in value]
        return tuple(sorted(pairs, key=repr))
    if types.is_struct(kind):
        return tuple(_python_value(value[field.name], field.type) for field in kind)
    return value


def _parse(text: Any, kind: pa.DataType) -> Any:
    """Parse the text of a CSV cell, or of a part of its JSON."""
    types = pa.types
    if types.is_nested(kind):
        return _from_json(json.loads(text, parse_float=str, parse_int=str), kind)
    if types.is_floating(kind):
        value = float(text)
        return struct.unpack("f", struct.pack("f", value))[0] if types.is_float32(kind) else value
    if types.is_integer(kind):
        return int(text)
    if types.is_decimal(kind):
        assert len(text.partition(".")[2]) == kind.scale
        return Decimal(text)
    if types.is_boolean(kind):
        return {"true": True, "false": False}[text]
    if types.is_binary(kind):
        return bytes.fromhex(text)
    if types.is_date(kind):
        return date.fromisoformat(text)
    if types.is_timestamp(kind):
        assert text.endswith("Z") == (kind.tz is not None)
        return datetime.fromisoformat(text).astimezone(UTC) if kind.tz else datetime.fromisoformat(text)
    return text


def _from_json(value: Any, kind: pa.DataType) -> Any:
    types = pa.types
    if value is None or isinstance(value, bool):
        return value
    if types.is_list(kind):
        return [_from_json(item, kind.value_type) for item in value]
    if types.is_map(kind):
        return [(_parse(key, kind.key_type), _from_json(item, kind.item_type)) for key, item in value.items()]
    if types.is_struct(kind):
        return {field.name: _from_json(value[field.name], field.type) for field in kind}
    return _parse(value, kind)
