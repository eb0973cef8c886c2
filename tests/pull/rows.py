"""Decides when pulled rows are the rows that Spark read: the same multiset of values of the same types, to the bit."""

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
    """Return rows as plain values by the types that Spark has, which theirs must be; variants as JSON."""
    assert table.column_names == schema.names
    for found, known in zip(table.schema, schema, strict=True):
        assert _same_type(found.type, known.type), (found, known)
    columns = [
        [_plain(value, field.type) for value in column.to_pylist()]
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return Counter(zip(*columns, strict=True))


def rows_of_csv(path: Path, schema: pa.Schema) -> Counter[Row]:
    """Return a CSV file's rows as the same plain values."""
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
        [None if text is None else _plain(_parsed(text, field.type), field.type) for text in column.to_pylist()]
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return Counter(zip(*columns, strict=True))


def rows_of_folder(folder: Path) -> Any:
    """Return what Delta's own library reads of a folder."""
    interface = kernel.PythonInterface(folder.as_uri())
    built = kernel.ScanBuilder(kernel.Table(folder.as_uri()).snapshot(interface)).build()
    return built.execute(interface).read_all()


def difference(found: Counter[Row], wanted: Counter[Row]) -> str:
    return f"too many {list(found - wanted)[:3]}, missing {list(wanted - found)[:3]}"


def _same_type(found: Any, known: Any) -> bool:
    if _variant(found):
        return pa.types.is_string(known)
    if pa.types.is_nested(known):
        inner = [(found.field(at).type, known.field(at).type) for at in range(known.num_fields)]
        return found.id == known.id and all(_same_type(*pair) for pair in inner)
    return bool(found == known)


def _variant(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) and {field.name for field in kind} == {"metadata", "value"}


def _plain(value: Any, kind: pa.DataType) -> Any:
    types = pa.types
    if value is None:
        return None
    if types.is_floating(kind):
        return "NaN" if math.isnan(value) else struct.pack(">d", float(value))
    if types.is_string(kind) and isinstance(value, dict):
        told = json.loads(VariantUtils.to_json(value["value"], value["metadata"]))
        return json.dumps(told, separators=(",", ":"), ensure_ascii=False)
    if types.is_list(kind):
        return tuple(_plain(item, kind.value_type) for item in value)
    if types.is_map(kind):
        pairs = [(_plain(key, kind.key_type), _plain(item, kind.item_type)) for key, item in value]
        return tuple(sorted(pairs, key=repr))
    if types.is_struct(kind):
        return tuple(_plain(value[field.name], field.type) for field in kind)
    return value


def _parsed(text: Any, kind: pa.DataType) -> Any:
    """Return the value that a cell's text, or a part of its JSON, means."""
    types = pa.types
    if types.is_nested(kind):
        return _of_json(json.loads(text, parse_float=str, parse_int=str), kind)
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


def _of_json(value: Any, kind: pa.DataType) -> Any:
    types = pa.types
    if value is None or isinstance(value, bool):
        return value
    if types.is_list(kind):
        return [_of_json(item, kind.value_type) for item in value]
    if types.is_map(kind):
        return [(_parsed(key, kind.key_type), _of_json(item, kind.item_type)) for key, item in value.items()]
    if types.is_struct(kind):
        return {field.name: _of_json(value[field.name], field.type) for field in kind}
    return _parsed(value, kind)
