"""Rows that delete their key: which of a source's rows do, and which of their columns say no more than that."""

from typing import TYPE_CHECKING, Any

from deltaic_pipeline.spark.quoting import quoted
from deltaic_pipeline.table.merging import DELETES
from deltaic_pipeline.table.sources import spark_path
from deltaic_pipeline.table.target import Target
from deltaic_pipeline.table.transactions import exists

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
