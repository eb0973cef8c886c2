"""Predict in plain Python how rows of some types are merged into a table of other types.

A kind is the name of a leaf, or a struct, array or map of kinds. Values are as Arrow gives them to Python, but maps are
dicts.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

LEAVES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal(4,2)": pa.decimal128(4, 2),
    "decimal(10,2)": pa.decimal128(10, 2),
    "decimal(10,4)": pa.decimal128(10, 4),
    "decimal(12,2)": pa.decimal128(12, 2),
    "decimal(20,0)": pa.decimal128(20, 0),
    "decimal(38,10)": pa.decimal128(38, 10),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}

INTEGERS = {"smallint", "int", "bigint", "double", "decimal(12,2)", "decimal(20,0)", "decimal(38,10)"}
ACCEPTED: dict[str, set[str]] = {
    "tinyint": INTEGERS,
    "smallint": INTEGERS - {"smallint"},
    "int": INTEGERS - {"smallint", "int"},
    "bigint": {"decimal(20,0)", "decimal(38,10)"},
    "float": {"double"},
    "decimal(4,2)": {"decimal(10,2)", "decimal(10,4)", "decimal(12,2)", "decimal(38,10)"},
    "decimal(10,2)": {"decimal(12,2)", "decimal(38,10)"},
    "decimal(10,4)": {"decimal(38,10)"},
    "decimal(12,2)": {"decimal(38,10)"},
    "decimal(20,0)": {"decimal(38,10)"},
    "date": {"timestamp_ntz"},
}
"""Other types of a table that accept rows of a type, because they can represent each of its values."""

SINGLE = 1.100000023841858
"""A float, converted to a double."""

VALUES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "tinyint": [0, 1, -128, 127],
    "smallint": [0, 1, -32768, 32767],
    "int": [0, 1, -(2**31), 2**31 - 1],
    "bigint": [0, 1, -(2**63), 2**63 - 1],
    "float": [0.0, -0.0, SINGLE, math.nan, math.inf],
    "double": [0.0, -0.0, 1.1, math.nan, -math.inf, 1e300],
    "decimal(4,2)": [Decimal("0.00"), Decimal("1.00"), Decimal("-99.99")],
    "decimal(10,2)": [Decimal("0.00"), Decimal("1.00"), Decimal("99999999.99")],
    "decimal(10,4)": [Decimal("0.0000"), Decimal("1.0001"), Decimal("999999.9999")],
    "decimal(12,2)": [Decimal("0.00"), Decimal("1.00"), Decimal("-9999999999.99")],
    "decimal(20,0)": [Decimal(0), Decimal(1), Decimal(10**20 - 1)],
    "decimal(38,10)": [Decimal(0), Decimal(1), Decimal("9999999999999999999999999999.0000000001")],
    "string": ["", "1", "01", "ü'`\\", "A", "a"],
    "binary": [b"", b"\x00\xff"],
    "date": [date(1900, 1, 1), date(2026, 3, 29), date(9999, 12, 31)],
    "timestamp": [datetime(1970, 1, 1, tzinfo=UTC), datetime(2026, 3, 29, 1, 30, 0, 123456, tzinfo=UTC)],
    "timestamp_ntz": [datetime(1970, 1, 1), datetime(2026, 3, 29, 2, 30, 0, 654321)],  # noqa: DTZ001 -- without a zone
}


@dataclass(frozen=True)
class Struct:
    """A struct with named fields."""

    fields: tuple[tuple[str, "Kind"], ...]


@dataclass(frozen=True)
class Array:
    """An array with elements of one kind."""

    element: "Kind"


@dataclass(frozen=True)
class Map:
    """A map with keys and values of one kind each."""

    key: str
    value: "Kind"


Kind = str | Struct | Array | Map


def arrow(kind: Kind) -> pa.DataType:
    match kind:
        case Struct():
            return pa.struct([pa.field(name, arrow(inner)) for name, inner in kind.fields])
        case Array():
            return pa.list_(arrow(kind.element))
        case Map():
            return pa.map_(LEAVES[kind.key], arrow(kind.value))
        case str():
            return LEAVES[kind]


def any_kind(draw: random.Random, depth: int = 0) -> Kind:
    chosen = draw.random() * (1 if depth < 2 else 0.4)
    if chosen < 0.4:
        return draw.choice([*LEAVES])
    if chosen < 0.7:
        names = draw.sample(["a", "b", "map", "d.e"], draw.randrange(1, 4))
        return Struct(tuple((name, any_kind(draw, depth + 1)) for name in names))
    if chosen < 0.85:
        return Array(any_kind(draw, depth + 1))
    return Map(draw.choice(["string", "int", "bigint"]), any_kind(draw, depth + 1))


def delivered(draw: random.Random, kind: Kind, *, evolve: bool) -> Kind:
    """Return a kind of rows for a table's column, with fields in any order and leaves of any type."""
    match kind:
        case Struct():
            fields = [(draw.choice([name, name.upper()]), delivered(draw, inner, evolve=evolve))
                      for name, inner in kind.fields]  # fmt: skip
            if evolve and draw.random() < 0.15:
                fields.append((f"new{draw.randrange(9)}", any_kind(draw, 2)))
            return Struct(tuple(draw.sample(fields, len(fields))))
        case Array():
            return Array(delivered(draw, kind.element, evolve=evolve))
        case Map():
            return Map(draw.choice(["int", kind.key]), delivered(draw, kind.value, evolve=evolve))
        case str():
            fitting = [leaf for leaf in LEAVES if leaf == kind or kind in ACCEPTED.get(leaf, ())]
            return draw.choice(fitting if draw.random() < 0.9 else [*LEAVES])


def refused(table: Kind, rows: Kind, path: str) -> Iterator[str]:
    """Yield a message for each leaf that would lose information."""
    match table, rows:
        case Struct(), Struct():
            table_fields = {name.lower(): (name, inner) for name, inner in table.fields}
            for name, inner in rows.fields:
                if name.lower() in table_fields:
                    own_fields, kind = table_fields[name.lower()]
                    yield from refused(kind, inner, f"{path}.{own_fields}")
        case Array(), Array():
            yield from refused(table.element, rows.element, f"{path}.element")
        case Map(), Map():
            yield from refused(table.key, rows.key, f"{path}.key")
            yield from refused(table.value, rows.value, f"{path}.value")
        case str(), str():
            if table != rows and table not in ACCEPTED.get(rows, ()):
                yield f"{path} is {table} in the table and {rows} in the rows"


def cast_to_table(table: Kind, rows: Kind) -> Kind:
    """Return the rows' kind after refused leaves are cast to the table's types."""
    match table, rows:
        case Struct(), Struct():
            table_fields = {name.lower(): inner for name, inner in table.fields}
            return Struct(
                tuple(
                    (name, cast_to_table(table_fields.get(name.lower(), inner), inner)) for name, inner in rows.fields
                )
            )
        case Array(), Array():
            return Array(cast_to_table(table.element, rows.element))
        case Map(), Map():
            return Map(str(cast_to_table(table.key, rows.key)), cast_to_table(table.value, rows.value))
        case _:
            return table if [*refused(table, rows, "")] else rows


def widened(table: Kind, rows: Kind) -> Kind:
    """Return the table's kind with the new fields of the rows at the end."""
    match table, rows:
        case Struct(), Struct():
            row_fields = {name.lower(): inner for name, inner in rows.fields}
            own_fields = [(name, widened(inner, row_fields.get(name.lower(), inner))) for name, inner in table.fields]
            known_names = {name.lower() for name, _ in own_fields}
            return Struct(
                (*own_fields, *((name, inner) for name, inner in rows.fields if name.lower() not in known_names))
            )
        case Array(), Array():
            return Array(widened(table.element, rows.element))
        case Map(), Map():
            return Map(table.key, widened(table.value, rows.value))
        case _:
            return table


def reordered(draw: random.Random, kind: Kind) -> Kind:
    """Return a kind with the same leaves and another order of fields."""
    match kind:
        case Struct():
            fields = [(name, reordered(draw, inner)) for name, inner in kind.fields]
            return Struct(tuple(draw.sample(fields, len(fields))))
        case Array():
            return Array(reordered(draw, kind.element))
        case Map():
            return Map(kind.key, reordered(draw, kind.value))
        case str():
            return kind


def value_of(draw: random.Random, kind: Kind) -> Any:
    if draw.random() < 0.1:
        return None
    match kind:
        case Struct():
            return {name: value_of(draw, inner) for name, inner in kind.fields}
        case Array():
            return [value_of(draw, kind.element) for _ in range(draw.randrange(3))]
        case Map():
            keys = draw.sample(VALUES[kind.key], draw.randrange(3))
            return {key: value_of(draw, kind.value) for key in keys}
        case str():
            return draw.choice(VALUES[kind])


def converted(value: Any, rows: Kind, table: Kind) -> Any:
    """Return a value of the rows in the types and field order of the table."""
    if value is None:
        return None
    match rows, table:
        case Struct(), Struct():
            row_fields = {name.lower(): (value[name], inner) for name, inner in rows.fields}
            return {
                name: converted(*row_fields[name.lower()], inner) if name.lower() in row_fields else None
                for name, inner in table.fields
            }
        case Array(), Array():
            return [converted(item, rows.element, table.element) for item in value]
        case Map(), Map():
            return {key: converted(item, rows.value, table.value) for key, item in value.items()}
        case _, "double":
            return float(value)
        case _, str() if table.startswith("decimal"):
            return Decimal(value)
        case "date", "timestamp_ntz":
            return datetime(value.year, value.month, value.day)  # noqa: DTZ001 -- without a zone
        case _:
            return value


def frozen(value: Any, *, signed: bool) -> Any:
    """Return a comparable value: NaN equals NaN; with `signed`, 0.0 differs from -0.0."""
    match value:
        case dict():
            return tuple(sorted(((key, frozen(item, signed=signed)) for key, item in value.items()), key=repr))
        case list():
            return tuple(frozen(item, signed=signed) for item in value)
        case float():
            return repr(value if signed or value else 0.0)
        case Decimal():
            return value.as_integer_ratio()
        case date():
            return str(value)
        case _:
            return value


def read_as(value: Any, kind: Kind) -> Any:
    """Return a value from Arrow, with maps as dicts."""
    if value is None:
        return None
    match kind:
        case Struct():
            return {name: read_as(value[name], inner) for name, inner in kind.fields}
        case Array():
            return [read_as(item, kind.element) for item in value]
        case Map():
            return {key: read_as(item, kind.value) for key, item in value}
        case _:
            return value
