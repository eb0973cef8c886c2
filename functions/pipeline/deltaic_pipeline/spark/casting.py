"""Build SQL that casts values to other types without loss, with fields matched by name, and compares values."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltaic_pipeline.spark.quoting import literal, quoted

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

DIGITS = {"tinyint": 10, "smallint": 10, "int": 10, "bigint": 20}
"""Digits before the decimal point that Delta's type widening requires for a change from integer to decimal."""

WIDER = {
    "tinyint": {"smallint", "int", "bigint", "double"},
    "smallint": {"int", "bigint", "double"},
    "int": {"bigint", "double"},
    "float": {"double"},
    "date": {"timestamp_ntz"},
}
"""Wider types of each type, except decimals, by Delta's type widening (Delta protocol, "Type Widening")."""


def is_lossless(source: "DataType", target: "DataType") -> bool:
    """Return whether type `target` can represent all values of type `source`; neither type is nested."""
    from pyspark.sql import types

    match source, target:
        case types.DecimalType(), types.DecimalType():
            return 0 <= target.scale - source.scale <= target.precision - source.precision
        case types.IntegralType(), types.DecimalType():
            return target.precision - target.scale >= DIGITS[source.simpleString()]
        case types.StringType(), types.CharType() | types.VarcharType():
            return True  # Delta refuses longer texts
        case _:
            return source == target or target.simpleString() in WIDER.get(source.simpleString(), ())


def merge_fields(table: "StructType", rows: "StructType", *, widen: bool) -> "StructType":
    """Return the table's fields with types merged by `merge_types`, followed by fields that only the rows have."""
    from pyspark.sql import types

    row_fields = {field.name.lower(): field for field in rows.fields}
    fields = []
    for field in table.fields:
        match = row_fields.pop(field.name.lower(), None)
        kind = merge_types(field.dataType, match.dataType, widen=widen) if match else field.dataType
        fields.append(types.StructField(field.name, kind))
    return types.StructType([*fields, *row_fields.values()])


def merge_types(table: "DataType", rows: "DataType", *, widen: bool) -> "DataType":
    """Return the table's type, with fields added that only the rows have; with `widen`, the wider type of both."""
    from pyspark.sql import types

    match table, rows:
        case types.StructType(), types.StructType():
            return merge_fields(table, rows, widen=widen)
        case types.ArrayType(), types.ArrayType():
            return types.ArrayType(merge_types(table.elementType, rows.elementType, widen=widen))
        case types.MapType(), types.MapType():
            key = merge_types(table.keyType, rows.keyType, widen=widen)
            return types.MapType(key, merge_types(table.valueType, rows.valueType, widen=widen))
        case _:
            return rows if widen and is_lossless(table, rows) else table


def cast(expression: str, source: "DataType", target: "DataType", depth: int = 0) -> str:
    """Return SQL that casts an expression to a type from `merge_types`; fields missing in `source` become null."""
    from pyspark.sql import types

    name = f"x{depth}"
    match source, target:
        case _ if source.simpleString() == target.simpleString():
            return expression
        case types.StructType(), types.StructType():
            source_fields = {field.name.lower(): field for field in source.fields}
            fields = []
            for field in target.fields:
                match = source_fields.get(field.name.lower())
                inner = f"{expression}.{quoted(match.name)}" if match else ""
                value = cast(inner, match.dataType, field.dataType, depth) if match else null(field.dataType)
                fields.append(f"{literal(field.name)}, {value}")
            return f"if({expression} IS NULL, NULL, named_struct({', '.join(fields)}))"
        case types.ArrayType(), types.ArrayType():
            return f"transform({expression}, {name} -> {cast(name, source.elementType, target.elementType, depth + 1)})"
        case types.MapType(), types.MapType():
            key = cast(f"{name}.key", source.keyType, target.keyType, depth + 1)
            value = cast(f"{name}.value", source.valueType, target.valueType, depth + 1)
            entry = f"named_struct('key', {key}, 'value', {value})"
            return f"map_from_entries(transform(map_entries({expression}), {name} -> {entry}))"
        case _, types.CharType():
            # Spark pads values that it reads from such a column with blanks, but not the other side of a MERGE.
            return f"if(length({expression}) < {target.length}, rpad({expression}, {target.length}, ' '), {expression})"
        case _, types.VarcharType():
            return expression
        case _:
            return f"CAST({expression} AS {target.simpleString()})"


def null(kind: "DataType") -> str:
    """Return SQL for a null value of a type."""
    return f"CAST(NULL AS {ddl(kind)})"


def ddl(kind: "DataType") -> str:
    """Return a type in SQL syntax, such as `ARRAY<INT>`."""
    from pyspark.sql import types

    return types.StructType([types.StructField("x", kind)]).toDDL().removeprefix("x ")


def comparable(expression: str, kind: "DataType", depth: int = 0) -> str:
    """Return SQL for a comparable form of a value: a map as sorted entries, a variant as a string."""
    from pyspark.sql import types

    if not any(isinstance(part, types.MapType | types.VariantType) for _, part in nested_types(kind)):
        return expression
    name = f"x{depth}"
    match kind:
        case types.MapType():
            entry = (
                f"named_struct('key', {comparable(f'{name}.key', kind.keyType, depth + 1)}, "
                f"'value', {comparable(f'{name}.value', kind.valueType, depth + 1)})"
            )
            return f"array_sort(transform(map_entries({expression}), {name} -> {entry}))"
        case types.ArrayType():
            return f"transform({expression}, {name} -> {comparable(name, kind.elementType, depth + 1)})"
        case types.StructType():
            fields = ", ".join(
                f"'{number}', {comparable(f'{expression}.{quoted(field.name)}', field.dataType, depth)}"
                for number, field in enumerate(kind.fields)
            )
            return f"if({expression} IS NULL, NULL, named_struct({fields}))"
        case _:
            return f"concat(schema_of_variant({expression}), ' ', to_json({expression}))"


def nested_types(kind: "DataType", path: str = "") -> "Iterator[tuple[str, DataType]]":
    """Yield a type and all types nested in it, each with its path, such as `address.city`."""
    from pyspark.sql import types

    yield path, kind
    match kind:
        case types.StructType():
            for field in kind.fields:
                yield from nested_types(field.dataType, f"{path}.{field.name}" if path else field.name)
        case types.ArrayType():
            yield from nested_types(kind.elementType, f"{path}.element")
        case types.MapType():
            yield from nested_types(kind.keyType, f"{path}.key")
            yield from nested_types(kind.valueType, f"{path}.value")
