"""The Iceberg type of each Delta type, and the encodings of its values in Iceberg metadata.

Iceberg specification, "Schemas and Data Types", "Appendix A: Avro" and "Appendix D: Single-value serialization". A
value is an int (also dates in days, timestamps in microseconds, unscaled decimals), float, str or bytes.
"""

import struct
from collections.abc import Callable
from math import nan
from typing import Any, Final, NamedTuple

from deltaic.iceberg import avro
from deltaic.pruning.values import EXACTLY, ColumnType, boolean, column_type, days, double, exact, integer, microseconds

Value = int | float | str | bytes


class IcebergType(NamedTuple):
    """An Iceberg type, and how its values are stored."""

    name: str
    avro: Any
    """Avro schema of partition values."""
    parse_partition: Callable[[str], Value | None]
    """Parses a partition value of the Delta log; returns None if it is invalid."""
    encode_bound: Callable[[Any], bytes]
    """Encodes a value as a bound (Iceberg, "Single-value serialization")."""
    encode_partition: Callable[[Any], bytes]
    """Encodes a partition value in Avro."""


def _parse_float(text: str) -> float | None:
    return nan if text.lower() == "nan" else double(text)


def _timestamp(name: str) -> IcebergType:
    def parse(text: str) -> int | None:
        timestamp = microseconds(text)
        return None if timestamp is None else timestamp[0]

    schema = {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": name == "timestamptz"}
    return IcebergType(name, schema, parse, _LONG, avro.integer)


_INT, _LONG, _FLOAT, _DOUBLE, _BOOLEAN = (struct.Struct(f"<{kind}").pack for kind in "iqfd?")
_INTEGER: Final = IcebergType("int", "int", integer, _INT, avro.integer)
_TYPES: Final = {
    "byte": _INTEGER,
    "short": _INTEGER,
    "integer": _INTEGER,
    "long": IcebergType("long", "long", integer, _LONG, avro.integer),
    "float": IcebergType("float", "float", _parse_float, _FLOAT, _FLOAT),
    "double": IcebergType("double", "double", _parse_float, _DOUBLE, _DOUBLE),
    "boolean": IcebergType("boolean", "boolean", boolean, _BOOLEAN, _BOOLEAN),
    "string": IcebergType("string", "string", str, str.encode, avro.text),
    "binary": IcebergType("binary", "bytes", str.encode, bytes, avro.data),
    "date": IcebergType("date", {"type": "int", "logicalType": "date"}, days, _INT, avro.integer),
    "timestamp": _timestamp("timestamptz"),
    "timestamp_ntz": _timestamp("timestamp"),
}
_DELTA_TYPES: Final = {type_.name: name for name, type_ in _TYPES.items()} | {"uuid": "binary"}
"""Delta type of each Iceberg type. Iceberg stores byte, short and integer as int, which becomes integer."""


def iceberg_type(type_: ColumnType, field_id: int = 0) -> IcebergType:
    """Return the Iceberg type of a column; raises KeyError if Iceberg has no equivalent."""
    if type_.name != "decimal":
        return _TYPES[type_.name]
    precision, scale = type_.precision, type_.scale
    size = int(10**precision).bit_length() // 8 + 1
    schema = {"type": "fixed", "size": size, "logicalType": "decimal", "precision": precision, "scale": scale}

    def parse(text: str) -> int | None:
        value = exact(text)
        scaled = None if value is None else value.scaleb(scale, EXACTLY)
        if scaled is None or scaled != scaled.to_integral_value() or scaled.adjusted() >= precision:
            return None
        return int(scaled)

    def encode(value: int) -> bytes:
        return value.to_bytes(size, "big", signed=True)

    named = {**schema, "name": f"decimal_{field_id}"}
    return IcebergType(f"decimal({precision}, {scale})", named, parse, unscaled, encode)


def delta_type(name: str) -> str | None:
    """Return the Delta type of a primitive Iceberg type; None if Delta has no equivalent."""
    type_ = column_type(name)
    if type_.name == "decimal":
        return f"decimal({type_.precision},{type_.scale})"
    return "binary" if name.startswith("fixed[") else _DELTA_TYPES.get(name)


def partition_value(text: str | None, type_: ColumnType) -> Value | None:
    """Parse a partition value from the Delta log; None and the empty string are null.

    Times without a zone are in UTC (Delta protocol, "Partition Value Serialization"). Raises ValueError.
    """
    if not text:
        return None
    value = iceberg_type(type_).parse_partition(text)
    if value is None:
        raise ValueError(type_.name)
    return value


def unscaled(value: int) -> bytes:
    """Encode an unscaled decimal in the fewest bytes of two's complement, big-endian."""
    return value.to_bytes((value if value >= 0 else ~value).bit_length() // 8 + 1, "big", signed=True)
