"""Convert Delta types to Iceberg types, and values to the encodings of Iceberg metadata.

Iceberg specification, "Schemas and Data Types", "Appendix A: Avro" and "Appendix D: Single-value serialization". A
value is an int (also dates in days, timestamps in microseconds, unscaled decimals), float, str or bytes.
"""

import struct
from collections.abc import Callable
from decimal import Decimal
from math import nan
from typing import Any, Final

from deltaic.iceberg import avro
from deltaic.pruning.values import EXACTLY, ColumnType, boolean, column_type, days, double, exact, integer, microseconds

Value = int | float | str | bytes

ICEBERG_TYPES: Final = {
    "byte": "int",
    "short": "int",
    "integer": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}
_PACKED: Final = {
    "int": struct.Struct("<i"),
    "date": struct.Struct("<i"),
    "long": struct.Struct("<q"),
    "timestamp": struct.Struct("<q"),
    "timestamptz": struct.Struct("<q"),
    "float": struct.Struct("<f"),
    "double": struct.Struct("<d"),
}


def iceberg_type(name: str) -> str | None:
    """Return the Iceberg type for a primitive Delta type, or None if Iceberg has no equivalent."""
    type_ = column_type(name)
    if type_.name == "decimal":
        return f"decimal({type_.precision}, {type_.scale})"
    return ICEBERG_TYPES.get(type_.name)


def single_value(type_: ColumnType) -> Callable[[Any], bytes]:
    """Return the function that encodes values of a type as Iceberg single values, which bounds are."""
    name = ICEBERG_TYPES.get(type_.name, "")
    if type_.name == "decimal":
        return unscaled
    if name in _PACKED:
        return _PACKED[name].pack
    others: dict[str, Callable[[Any], bytes]] = {"boolean": _encode_boolean, "string": str.encode, "binary": bytes}
    return others[name]


def avro_type(type_: ColumnType, field_id: int) -> Any:
    """Return the Avro schema for partition values of a column type."""
    name = ICEBERG_TYPES.get(type_.name, "")
    if type_.name == "decimal":
        return {
            "type": "fixed",
            "size": _fixed_size(type_.precision),
            "logicalType": "decimal",
            "precision": type_.precision,
            "scale": type_.scale,
            "name": f"decimal_{field_id}",
        }
    if name == "date":
        return {"type": "int", "logicalType": "date"}
    if name.startswith("timestamp"):
        return {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": name == "timestamptz"}
    return "bytes" if name == "binary" else name


def avro_value(type_: ColumnType) -> Callable[[Any], bytes]:
    """Return the function that encodes partition values of a column type in Avro."""
    name = ICEBERG_TYPES.get(type_.name, "")
    if type_.name == "decimal":
        size = _fixed_size(type_.precision)
        return lambda value: int.to_bytes(value, size, "big", signed=True)
    if name in {"float", "double"}:
        return _PACKED[name].pack
    others: dict[str, Callable[[Any], bytes]] = {"boolean": _encode_boolean, "string": avro.text, "binary": avro.data}
    return others.get(name, avro.integer)


def partition_value(text: str | None, type_: ColumnType) -> Value | None:
    """Parse a partition value from the Delta log; None and the empty string are null.

    Times without a zone are in UTC (Delta protocol, "Partition Value Serialization"). Raises ValueError.
    """
    if not text:
        return None
    if type_.name == "string":
        return text
    if type_.name == "binary":
        return text.encode()
    if type_.name in {"float", "double"}:
        value: Value | None = nan if text.lower() == "nan" else double(text)
    elif type_.name in {"timestamp", "timestamp_ntz"}:
        timestamp = microseconds(text)
        value = None if timestamp is None else timestamp[0]
    elif type_.name == "decimal":
        value = _unscaled_integer(exact(text), type_)
    else:
        readers: dict[str, Callable[[str], int | None]] = {"boolean": boolean, "date": days}
        value = readers.get(type_.name, integer)(text)
    if value is None:
        raise ValueError(type_.name)
    return value


def _unscaled_integer(value: Decimal | None, type_: ColumnType) -> int | None:
    if value is None:
        return None
    scaled = value.scaleb(type_.scale, EXACTLY)
    is_exact = scaled == scaled.to_integral_value() and scaled.adjusted() < type_.precision
    return int(scaled) if is_exact else None


def unscaled(value: int) -> bytes:
    """Encode an unscaled decimal in the fewest bytes of two's complement, big-endian."""
    return value.to_bytes((value if value >= 0 else ~value).bit_length() // 8 + 1, "big", signed=True)


def _fixed_size(precision: int) -> int:
    return int(10**precision).bit_length() // 8 + 1


def _encode_boolean(value: int) -> bytes:
    return b"\x01" if value else b"\x00"
