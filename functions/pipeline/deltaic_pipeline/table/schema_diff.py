"""Compare the columns of rows with the table's columns, and convert the rows to the table's types.

Also marks the rows that delete their key, and drops columns that are used only to select these rows.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.spark.casting import cast, is_lossless, merge_fields
from deltaic_pipeline.spark.quoting import quoted
from deltaic_pipeline.table.merging import DELETES
from deltaic_pipeline.table.sources import spark_path
from deltaic_pipeline.table.table_properties import latest_snapshot, properties_of
from deltaic_pipeline.table.target import DeltaTarget
from deltaic_pipeline.table.transactions import exists

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

GENERATED = re.compile(r"delta\.(identity\.|generationExpression$)")
"""Metadata keys of columns whose values Delta generates: identity columns, and expressions over other columns."""

CHAR_KEY = "__CHAR_VARCHAR_TYPE_STRING"
"""Metadata key with the declared type of a CHAR or VARCHAR column; in the schema, its type is STRING."""


@dataclass(frozen=True, slots=True)
class SchemaDifference:
    """Column or field whose types in table and rows differ; type None: table or rows lack it."""

    column: str
    """Path of the field with dots, such as `address.city` or `doses.element.day`."""

    table: str | None
    rows: str | None

    def __str__(self) -> str:
        if self.table is None:
            return f"{self.column} ({self.rows}) is not in the table"
        if self.rows is None:
            return f"{self.column} ({self.table}) is missing in the rows"
        return f"{self.column} is {self.table} in the table and {self.rows} in the rows"


def rows_to_write(spark: "SparkSession", rows: "DataFrame", target: DeltaTarget) -> "DataFrame":
    """Return the rows with only the columns that will be written.

    Drops columns that only the condition `delete_when` uses: neither the table nor another option needs them.
    """
    if target.delete_when is None:
        return rows
    existing = spark.read.format("delta").load(spark_path(target.location)).columns if exists(spark, target) else []
    since = [target.validity.at] if target.validity and target.validity.at else []
    target_columns = [*target.keys, *since, *target.partition_by, *target.cluster_by, *target.column_comments]
    written = {name.lower() for name in [*existing, *target_columns]}
    condition = rows.selectExpr(f"({target.delete_when})")
    analyzed: Any = condition._jdf.queryExecution().analyzed()  # noqa: SLF001 -- pyspark has no way to the plan
    columns = analyzed.references().toSeq()
    names = {str(columns.apply(number).name()) for number in range(columns.size())}
    return rows.drop(*(name for name in names if name.lower() not in written))


def mark_deletes(spark: "SparkSession", rows: "DataFrame", target: DeltaTarget) -> "DataFrame":
    """Add the column `DELETES`, true where the condition `delete_when` is true (not null), to the rows to write."""
    if not target.deletes:
        return rows
    names = map(quoted, rows_to_write(spark, rows, target).columns)
    return rows.selectExpr(*names, f"coalesce(({target.delete_when or 'false'}), false) AS {DELETES}")


def drop_deletes(rows: "DataFrame") -> "DataFrame":
    """Remove the rows that delete their key, and the column that marks them."""
    return rows.where(f"NOT {DELETES}").drop(DELETES) if DELETES in rows.columns else rows


def differences(spark: "SparkSession", rows: "DataFrame", target: DeltaTarget) -> list[SchemaDifference] | None:
    """Return the schema differences of rows and table in column order; None if the table does not exist yet.

    Fields are compared by name, ignoring order and case. Columns that only `delete_when` uses do not count, and rows
    can lack columns that Delta generates.
    """
    from pyspark.sql import types

    location = spark_path(target.location)
    if not exists(spark, target):
        return None
    validity_columns = {name.lower() for name in target.validity.columns} if target.validity else set()
    fields = spark.read.format("delta").load(location).schema.fields
    table = types.StructType([field for field in fields if field.name.lower() not in validity_columns])
    stored = json.loads(str(latest_snapshot(spark, location).metadata().schemaString()))["fields"]
    generated = {field["name"] for field in stored if any(map(GENERATED.match, field["metadata"]))}
    return [
        SchemaDifference(path, before.simpleString() if before else None, after.simpleString() if after else None)
        for path, before, after in _different(table, rows_to_write(spark, rows, target).schema)
        if after is not None or path not in generated
    ]


def refuse_drift(columns: list[SchemaDifference] | None, target: DeltaTarget) -> None:
    """Raise `PipelineError` for new or missing columns and fields, unless the target has `evolve_schema`.

    Delta would fill missing columns with nulls. Types are checked by Delta, or by `conform`.
    """
    drift = [str(item) for item in columns or () if item.table is None or item.rows is None]
    if drift and not target.evolve_schema:
        raise PipelineError(
            f"schema drift: {'; '.join(drift)}. Correct it in a step, or allow it with target.evolve_schema."
        )


def conform(spark: "SparkSession", rows: "DataFrame", target: DeltaTarget) -> "DataFrame":
    """Cast the rows to the types of an existing table, with fields matched by name.

    New fields come last. Raises `PipelineError` for nested fields that the rows lack, and for types whose values the
    table's type cannot all represent: Delta would change such values.
    """
    location = spark_path(target.location)
    table = _with_lengths(spark.read.format("delta").load(location).schema)
    widens = properties_of(spark, location).get("delta.enableTypeWidening") == "true"
    schema = merge_fields(table, rows.schema, widen=target.evolve_schema and widens)
    lossy = [
        f"{path} is {before.simpleString()} in the table and {after.simpleString()} in the rows"
        for path, before, after in _different(schema, rows.schema)
        if before is not None and after is not None and not is_lossless(after, before)
    ]
    if lossy:
        raise PipelineError(
            f"{target.mode} cannot convert types without loss: {'; '.join(lossy)}. Declare the source's schema, or "
            "cast the rows to the table's types in a step."
        )
    lost = [path for path, _, after in _different(table, rows.schema) if after is None and path not in table.names]
    if lost:
        raise PipelineError(
            f"the rows lack fields that the table has: {', '.join(lost)}. {target.mode} replaces complete columns, so "
            "they would become NULL. Declare them in the source's schema, or add them in a step."
        )
    fields = {field.name.lower(): field for field in schema.fields}
    pairs = ((field, fields[field.name.lower()]) for field in rows.schema.fields)
    columns = (f"{cast(quoted(field.name), field.dataType, to.dataType)} AS {quoted(to.name)}" for field, to in pairs)
    return rows.selectExpr(*columns)


def extends(table: "DataFrame", rows: "DataFrame") -> bool:
    """Return whether rows, cast by `conform`, add columns, fields or wider types to the table."""
    return any(after is not None for _, _, after in _different(table.schema, rows.drop(DELETES).schema))


def _different(
    table: "DataType", rows: "DataType", path: str = ""
) -> Iterator[tuple[str, "DataType | None", "DataType | None"]]:
    from pyspark.sql import types

    match table, rows:
        case types.StructType(), types.StructType():
            row_fields = {field.name.lower(): field for field in rows.fields}
            table_fields = {field.name.lower(): field for field in table.fields}
            for name in dict.fromkeys([*table_fields, *row_fields]):
                before, after = table_fields.get(name), row_fields.get(name)
                inner = ".".join(filter(None, (path, (before or row_fields[name]).name)))
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
            types.DataType.fromDDL(field.metadata[CHAR_KEY]) if CHAR_KEY in (field.metadata or {}) else field.dataType,
        )
        for field in schema.fields
    ])  # fmt: skip
