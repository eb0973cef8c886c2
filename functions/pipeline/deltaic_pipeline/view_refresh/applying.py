"""Changes on their way into a view's table: one commit, by which the change feed shows what changed and no more."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from deltaic_pipeline.spark.errors import raised
from deltaic_pipeline.spark.quoting import literal, quoted
from deltaic_pipeline.table.merging import refuse_undecided
from deltaic_pipeline.table.sources import spark_path
from deltaic_pipeline.table.writing import Transaction, marked
from deltaic_pipeline.view_refresh.changes import (
    DELETE,
    INSERT,
    OPERATION,
    ROW,
    UPDATE,
    compared_in_merge,
)
from deltaic_pipeline.view_refresh.definition import POLICY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

PROPERTIES: Mapping[str, str] = {
    "delta.enableChangeDataFeed": "true",
    # Every client and both formats read the table.
    "delta.enableDeletionVectors": "false",
    # A path is part of a signed URL: the policy does not stand in it, neither of data nor of changes.
    "delta.randomizeFilePrefixes": "true",
    "delta.checkpoint.writeStatsAsStruct": "true",
}

MOST_POLICIES = 200
"""Policies that stand in a merge's condition, by which Delta leaves out the other partitions' files."""


def create(spark: "SparkSession", rows: "DataFrame", location: str, key: Sequence[str], writer: Transaction) -> None:
    """Make the view's table of its first rows; raises `PipelineError` for a key that is null or given twice."""
    from pyspark import StorageLevel

    kept = rows.persist(StorageLevel.DISK_ONLY) if key else rows
    try:
        if key:
            refuse_undecided(kept, [POLICY, *key])
        with marked(spark, writer, spread=True):
            kept.write.format("delta").partitionBy(POLICY).options(**PROPERTIES).save(spark_path(location))
    finally:
        if key:
            kept.unpersist()


def append(spark: "SparkSession", staged: "DataFrame", location: str, writer: Transaction) -> None:
    """Add staged rows that are all new, and columns that the table lacks."""
    rows = staged.selectExpr(POLICY, f"{ROW}.*")
    with marked(spark, writer, spread=True):
        rows.write.format("delta").mode("append").option("mergeSchema", "true").save(spark_path(location))


def merge(  # noqa: PLR0913, PLR0917 -- which rows go where, found by what, and who writes
    spark: "SparkSession",
    staged: "DataFrame",
    location: str,
    key: Sequence[str],
    policies: Sequence[str],
    writer: Transaction,
) -> None:
    """Apply staged operations by MERGE: by key, or by whole rows where there is none.

    A row is matched within its policy only, so no update crosses partitions.
    """
    from delta.tables import DeltaTable

    table = DeltaTable.forPath(spark, spark_path(location))
    known = frozenset(name.lower() for name in table.toDF().columns)
    rows = staged.selectExpr(POLICY, f"{ROW}.*", OPERATION)
    columns = [name for name in rows.columns if name != OPERATION]
    conditions = [f"old.{POLICY} = new.{POLICY}"]
    if len(policies) <= MOST_POLICIES:
        conditions.insert(0, f"old.{POLICY} IN ({', '.join(map(literal, policies))})")
    operation = f"new.{OPERATION}"
    if key:
        conditions += [f"old.{quoted(name)} = new.{quoted(name)}" for name in key]
    else:
        same = compared_in_merge(rows.drop(OPERATION).schema, known)
        conditions += [f"{operation} = '{DELETE}'", *([same] if same else [])]
    values: dict[str, str | Column] = {quoted(name): f"new.{quoted(name)}" for name in columns}
    merging = table.alias("old").merge(rows.alias("new"), " AND ".join(conditions))
    if any(name.lower() not in known for name in columns):
        merging = merging.withSchemaEvolution()
    merging = merging.whenMatchedDelete(f"{operation} = '{DELETE}'")
    if key:
        fixed = {POLICY, *(name.lower() for name in key)}
        updated = {quoted(name): values[quoted(name)] for name in columns if name.lower() not in fixed}
        twice = raised("a new row of the view has the key of another: reduce them to one in the SQL")
        # A condition is asked of rows that an earlier clause has taken, and of rows that match none.
        found = f"{operation} = '{INSERT}' AND old.{POLICY} IS NOT NULL AND new.{POLICY} IS NOT NULL"
        condition = f"CASE WHEN {operation} = '{UPDATE}' THEN true WHEN {found} THEN {twice} ELSE false END"
        merging = merging.whenMatchedUpdate(condition=condition, set=updated) if updated else merging
    merging = merging.whenNotMatchedInsert(f"{operation} <> '{DELETE}'", values=values)
    with marked(spark, writer, spread=True):
        merging.execute()
