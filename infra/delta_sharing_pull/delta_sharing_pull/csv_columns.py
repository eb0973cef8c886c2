"""Convert columns to CSV text without loss, in the same format as the server's page for recipients.

Null is an empty cell and an empty string is `""`. Binary is hexadecimal. Timestamps are UTC and end with `Z`, except
`timestamp_ntz`. Arrays, maps and structs are JSON.
"""

import json
import math
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sharing_pull.errors import UnsupportedOperation


def check_types(types: Mapping[str, Any]) -> None:
    """Raise UnsupportedOperation if a column is of type variant or contains one; `types` are Delta types by name."""
    for name, kind in types.items():
        if '"variant"' in json.dumps(kind):
            raise UnsupportedOperation(
                f"CSV cannot represent column '{name}' of type variant: select other columns with --column"
            )


def text_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema to pass to pyarrow's CSV writer: the same columns with types that it can write without loss."""
    return pa.schema([pa.field(field.name, _text_type(field.type)) for field in schema])


def text_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert the columns of a batch to the types in the result of `text_schema`."""
    columns = [_column(column, field.type) for column, field in zip(batch.columns, batch.schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _text_type(kind: pa.DataType) -> pa.DataType:
    is_exact = pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date(kind)
    return kind if is_exact or pa.types.is_string(kind) else pa.string()


def _column(column: Any, kind: pa.DataType) -> Any:
    if _text_type(kind) == kind:
        return column
    if pa.types.is_timestamp(kind):
        return _timestamp_column(column, kind)
    return pa.array([None if value is None else _text(value, kind) for value in column.to_pylist()], pa.string())


def _timestamp_column(column: Any, kind: Any) -> Any:
    zone = "" if kind.tz is None else "Z"
    texts = column.cast(pa.int64()).cast(pa.timestamp(kind.unit)).cast(pa.string())
    iso = pc.replace_substring(texts, " ", "T", max_replacements=1)
    return pc.binary_join_element_wise(pc.replace_substring_regex(iso, r"\.?0+$", ""), zone, "")


def _text(value: Any, kind: pa.DataType) -> str:
    """Format a value as the string for a CSV cell or within JSON."""
    types = pa.types
    if types.is_floating(kind):
        return _float(value, single=types.is_float32(kind))
    if types.is_binary(kind) or types.is_large_binary(kind):
        return bytes(value).hex()
    if types.is_nested(kind):
        return _json(value, kind)
    if types.is_timestamp(kind):
        return _timestamp(value) + ("" if kind.tz is None else "Z")
    if types.is_date(kind):
        return str(value.isoformat())
    if types.is_boolean(kind):
        return "true" if value else "false"
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def _json(value: Any, kind: pa.DataType) -> str:
    if value is None:
        return "null"
    types = pa.types
    if types.is_map(kind):
        pairs = [f"{json.dumps(_text(key, kind.key_type))}:{_json(item, kind.item_type)}" for key, item in value]
        return f"{{{','.join(pairs)}}}"
    if types.is_list(kind):
        return f"[{','.join(_json(item, kind.value_type) for item in value)}]"
    if types.is_struct(kind):
        fields = [f"{json.dumps(field.name)}:{_json(value[field.name], field.type)}" for field in kind]
        return f"{{{','.join(fields)}}}"
    text = _text(value, kind)
    is_number = types.is_integer(kind) or types.is_decimal(kind) or (types.is_floating(kind) and math.isfinite(value))
    return text if is_number or types.is_boolean(kind) else json.dumps(text, ensure_ascii=False)


def _float(value: float, *, single: bool) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    text = str(np.float32(value)) if single else repr(value)
    return text.removesuffix(".0")


def _timestamp(value: datetime) -> str:
    text = value.replace(tzinfo=None).isoformat()
    return text.rstrip("0") if "." in text else text
