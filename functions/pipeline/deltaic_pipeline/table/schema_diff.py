"""The differences between rows and the table that they are to enter, and the rows in the table's columns.

A row may delete its key: which rows do, and which of their columns say no more than that, is decided here too.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.spark.casting import cast, joined_fields, lossless
from deltaic_pipeline.spark.quoting import quoted
from deltaic_pipeline.table.merging import DELETES
from deltaic_pipeline.table.sources import spark_path
from deltaic_pipeline.table.table_properties import latest, properties_of
from deltaic_pipeline.table.target import Target
from deltaic_pipeline.table.transactions import exists

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

GENERATED = re.compile(r"delta\.(identity\.|generationExpression$)")
"""Where Delta keeps that it makes a column's values: an identity, or an expression over others."""

BLANKS = "__CHAR_VARCHAR_TYPE_STRING"
"""Where Spark keeps the type of a column that is or has a CHAR or VARCHAR, which its schema calls STRING."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A column or a field that is not the same on both sides; None: it is not there."""

    column: str
    """By dots where it is within another: `address.city`, `doses.element.day`."""

    table: str | None
    rows: str | None

    def __str__(self) -> str:
        if self.table is None:
            return f"{self.column} ({self.rows}) is not in the table"
        if self.rows is None:
            return f"{self.column} ({self.table}) is missing in the rows"
        return f"{self.column} is {self.table} in the table and {self.rows} in the rows"


def entering(spark: "SparkSession", rows: "DataFrame", target: Target) -> "DataFrame":
    """Return the rows in the columns with which they enter the table.

    A column that `delete_when` names stays out, unless the table has it or the target names it elsewhere.
    """
    if target.delete_when is None:
        return rows
    there = spark.read.format("delta").load(spark_path(target.location)).columns if exists(spark, target) else []
    since = [target.validity.at] if target.validity and target.validity.at else []
    named = [*target.keys, *since, *target.partition_by, *target.cluster_by, *target.column_comments]
    kept = {name.lower() for name in [*there, *named]}
    asked = rows.selectExpr(f"({target.delete_when})")
    analyzed: Any = asked._jdf.queryExecution().analyzed()  # noqa: SLF001 -- pyspark has no way to the plan
    columns = analyzed.references().toSeq()
    names = {str(columns.apply(number).name()) for number in range(columns.size())}
    return rows.drop(*(name for name in names if name.lower() not in kept))


def with_deletes(spark: "SparkSession", rows: "DataFrame", target: Target) -> "DataFrame":
    """Return `entering` rows with a mark on those that delete their key; a condition that is null deletes nothing."""
    if not target.deletes:
        return rows
    names = map(quoted, entering(spark, rows, target).columns)
    return rows.selectExpr(*names, f"coalesce(({target.delete_when or 'false'}), false) AS {DELETES}")


def remaining(rows: "DataFrame") -> "DataFrame":
    """Return the marked rows that delete nothing, without the mark."""
    return rows.where(f"NOT {DELETES}").drop(DELETES) if DELETES in rows.columns else rows


def differences(spark: "SparkSession", rows: "DataFrame", target: Target) -> list[Difference] | None:
    """Return the differences in the order of the columns; None where there is no table yet.

    Fields in another order, or with other capitals, are none: they go by their names. Columns that only say which rows
    delete do not count, and rows may lack columns that Delta generates.
    """
    from pyspark.sql import types

    location = spark_path(target.location)
    if not exists(spark, target):
        return None
    own = {name.lower() for name in target.validity.columns} if target.validity else set()
    fields = spark.read.format("delta").load(location).schema.fields
    table = types.StructType([field for field in fields if field.name.lower() not in own])
    stored = json.loads(str(latest(spark, location).metadata().schemaString()))["fields"]
    generated = {field["name"] for field in stored if any(map(GENERATED.match, field["metadata"]))}
    return [
        Difference(path, before.simpleString() if before else None, after.simpleString() if after else None)
        for path, before, after in _different(table, entering(spark, rows, target).schema)
        if after is not None or path not in generated
    ]


def refuse_drift(found: list[Difference] | None, target: Target) -> None:
    """Raise `PipelineError` for columns and fields that are new or missing, unless the target's schema may change.

    Delta would fill what is missing with nulls. Other types are left to it, or to `conformed`.
    """
    drift = [str(one) for one in found or () if one.table is None or one.rows is None]
    if drift and not target.evolve_schema:
        raise PipelineError(
            f"schema drift: {'; '.join(drift)}. Put it right in a step, or allow it with target.evolve_schema."
        )


def conformed(spark: "SparkSession", rows: "DataFrame", target: Target) -> "DataFrame":
    """Return the rows in the types of an existing table, field by field by their names, to be compared with its rows.

    Fields that the table lacks follow its own. Raises `PipelineError` for fields within a column that the rows lack,
    and for a type of which the table's cannot hold every value: Delta would cast it, and lose some.
    """
    location = spark_path(target.location)
    table = _with_lengths(spark.read.format("delta").load(location).schema)
    widens = properties_of(spark, location).get("delta.enableTypeWidening") == "true"
    schema = joined_fields(table, rows.schema, widen=target.evolve_schema and widens)
    lossy = [
        f"{path} is {before.simpleString()} in the table and {after.simpleString()} in the rows"
        for path, before, after in _different(schema, rows.schema)
        if before is not None and after is not None and not lossless(after, before)
    ]
    if lossy:
        raise PipelineError(
            f"types that {target.mode} would have to cut: {'; '.join(lossy)}. Declare the source's schema, or cast the "
            "rows to the table's types in a step."
        )
    lost = [path for path, _, after in _different(table, rows.schema) if after is None and path not in table.names]
    if lost:
        raise PipelineError(
            f"the rows lack fields that the table has: {', '.join(lost)}. {target.mode} replaces whole columns, and "
            "would make them NULL. Declare them in the source's schema, or add them in a step."
        )
    there = {field.name.lower(): field for field in schema.fields}
    taken = ((field, there[field.name.lower()]) for field in rows.schema.fields)
    columns = (f"{cast(quoted(field.name), field.dataType, to.dataType)} AS {quoted(to.name)}" for field, to in taken)
    return rows.selectExpr(*columns)


def grows(table: "DataFrame", rows: "DataFrame") -> bool:
    """Tell whether rows, which are `conformed`, bring a table columns, fields or wider types."""
    return any(after is not None for _, _, after in _different(table.schema, rows.drop(DELETES).schema))


def _different(
    table: "DataType", rows: "DataType", path: str = ""
) -> Iterator[tuple[str, "DataType | None", "DataType | None"]]:
    from pyspark.sql import types

    match table, rows:
        case types.StructType(), types.StructType():
            found = {field.name.lower(): field for field in rows.fields}
            there = {field.name.lower(): field for field in table.fields}
            for name in dict.fromkeys([*there, *found]):
                before, after = there.get(name), found.get(name)
                inner = ".".join(filter(None, (path, (before or found[name]).name)))
                if before is None or after is None:
                    yield inner, before and before.dataType, after and after.dataType
                else:
                    yield from _different(before.dataType, after.dataType, inner)
        case types.ArrayType(), types.ArrayType():
            yield from _different(table.elementType, rows.elementType, f"{path}.element")
        case types.MapType(), types.MapType():
            yield from _different(table.keyType, rows.keyType, f"{path}.key")
            yield from _different(table.valueType, rows.valueType, f"{path}.value")
        case _ if table != rows:
            yield path, table, rows


def _with_lengths(schema: "StructType") -> "StructType":
    from pyspark.sql import types

    return types.StructType([
        types.StructField(
            field.name,
            types.DataType.fromDDL(field.metadata[BLANKS]) if BLANKS in (field.metadata or {}) else field.dataType,
        )
        for field in schema.fields
    ])  # fmt: skip
