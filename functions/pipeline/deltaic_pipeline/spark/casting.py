"""Casts of values to another type in SQL: fields go by their names, nothing is lost, and all can be compared."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltaic_pipeline.spark.quoting import literal, quoted

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

DIGITS = {"tinyint": 10, "smallint": 10, "int": 10, "bigint": 20}
"""The digits before the point that a decimal needs to be what Delta's type widening makes of an integer."""

WIDER = {
    "tinyint": {"smallint", "int", "bigint", "double"},
    "smallint": {"int", "bigint", "double"},
    "int": {"bigint", "double"},
    "float": {"double"},
    "date": {"timestamp_ntz"},
}
"""The other changes of Delta's type widening (Delta protocol, "Type Widening")."""


def lossless(source: "DataType", target: "DataType") -> bool:
    """Tell whether each value of a type without fields or elements is a value of the wanted type."""
    from pyspark.sql import types

    match source, target:
        case types.DecimalType(), types.DecimalType():
            return 0 <= target.scale - source.scale <= target.precision - source.precision
        case types.IntegralType(), types.DecimalType():
            return target.precision - target.scale >= DIGITS[source.simpleString()]
        case types.StringType(), types.CharType() | types.VarcharType():
            return True  # Delta refuses what is too long
        case _:
            return source == target or target.simpleString() in WIDER.get(source.simpleString(), ())


def joined_fields(table: "StructType", rows: "StructType", *, widen: bool) -> "StructType":
    """Return the table's fields in the types of `joined`, and behind them those that only the rows have."""
    from pyspark.sql import types

    left = {field.name.lower(): field for field in rows.fields}
    fields = []
    for field in table.fields:
        found = left.pop(field.name.lower(), None)
        kind = joined(field.dataType, found.dataType, widen=widen) if found else field.dataType
        fields.append(types.StructField(field.name, kind))
    return types.StructType([*fields, *left.values()])


def joined(table: "DataType", rows: "DataType", *, widen: bool) -> "DataType":
    """Return the table's type with all fields of the rows'; `widen`: the rows' where it holds every value of it."""
    from pyspark.sql import types

    match table, rows:
        case types.StructType(), types.StructType():
            return joined_fields(table, rows, widen=widen)
        case types.ArrayType(), types.ArrayType():
            return types.ArrayType(joined(table.elementType, rows.elementType, widen=widen))
        case types.MapType(), types.MapType():
            key = joined(table.keyType, rows.keyType, widen=widen)
            return types.MapType(key, joined(table.valueType, rows.valueType, widen=widen))
        case _:
            return rows if widen and lossless(table, rows) else table


def cast(expression: str, source: "DataType", target: "DataType", depth: int = 0) -> str:
    """Return an expression's value as one of the wanted type, which is `joined` of some; a field it lacks is null."""
    from pyspark.sql import types

    name = f"x{depth}"
    match source, target:
        case _ if source.simpleString() == target.simpleString():
            return expression
        case types.StructType(), types.StructType():
            known = {field.name.lower(): field for field in source.fields}
            fields = []
            for field in target.fields:
                of = known.get(field.name.lower())
                inner = f"{expression}.{quoted(of.name)}" if of else ""
                value = cast(inner, of.dataType, field.dataType, depth) if of else null(field.dataType)
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
            # Spark fills what it reads of such a column with blanks, and in a MERGE not what it is compared with.
            return f"if(length({expression}) < {target.length}, rpad({expression}, {target.length}, ' '), {expression})"
        case _, types.VarcharType():
            return expression
        case _:
            return f"CAST({expression} AS {target.simpleString()})"


def null(kind: "DataType") -> str:
    """Return the null of a type."""
    return f"CAST(NULL AS {ddl(kind)})"


def ddl(kind: "DataType") -> str:
    """Return a type as SQL writes it."""
    from pyspark.sql import types

    return types.StructType([types.StructField("x", kind)]).toDDL().removeprefix("x ")


def comparable(expression: str, kind: "DataType", depth: int = 0) -> str:
    """Return an expression that SQL can group and compare by: maps as their sorted entries, variants as text."""
    from pyspark.sql import types

    if not any(isinstance(each, types.MapType | types.VariantType) for _, each in within(kind)):
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


def within(kind: "DataType", path: str = "") -> "Iterator[tuple[str, DataType]]":
    """Yield a type and all types within it, each by its path: `address.city`, `doses.element.day`."""
    from pyspark.sql import types

    yield path, kind
    match kind:
        case types.StructType():
            for field in kind.fields:
                yield from within(field.dataType, f"{path}.{field.name}" if path else field.name)
        case types.ArrayType():
            yield from within(kind.elementType, f"{path}.element")
        case types.MapType():
            yield from within(kind.keyType, f"{path}.key")
            yield from within(kind.valueType, f"{path}.value")
