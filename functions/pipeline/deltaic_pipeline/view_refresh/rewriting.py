"""Rewrite the files of a view that contain changed rows, with one range of keys in each file (decision 203).

Delta's MERGE is not used, because it writes rows in the order of its join, by a hash of the key. After one change to
rows of all keys, every file would contain keys of the whole range, and each later change would rewrite all files.
"""

import json
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltaic.partition_filters.audiences import AUDIENCE_COLUMN

from deltaic_pipeline.spark.casting import comparable, null
from deltaic_pipeline.spark.jvm import java_class, no_option, scala_seq
from deltaic_pipeline.spark.quoting import literal, quoted
from deltaic_pipeline.spark.spark_errors import raise_sql
from deltaic_pipeline.table.file_sizing import few_files, sort_into_ranges
from deltaic_pipeline.table.sources import spark_path
from deltaic_pipeline.table.table_properties import activate, propose_metadata
from deltaic_pipeline.table.transactions import Transaction
from deltaic_pipeline.view_refresh.row_changes import (
    COUNT,
    DELETE,
    INSERT,
    OPERATION,
    ROW,
    UPDATE,
    ChangeCounts,
    key_ranges,
    new_rows,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField

CHANGE_TYPE = "_change_type"
"""Delta's column with the type of a change in the change data feed; null in unchanged rows."""

FILE = "_deltaic_file"
DUPLICATE = "two rows of the view have the same key: reduce them to one in the SQL"
MOST_AUDIENCES = 200
"""Maximum number of audiences (partitions of a view) in the condition by which Delta skips other partitions' files."""


def rewrite(  # noqa: PLR0913, PLR0917 -- the changes, how they are matched, and the layout
    spark: "SparkSession",
    staged: "DataFrame",
    location: str,
    key: Sequence[str],
    layout: Sequence[str],
    counts: Mapping[str, ChangeCounts],
    transaction: Transaction,
) -> None:
    """Commit `staged` operations (insert, update or delete of a row), matched by key or by all columns.

    The change feed gets exactly these changes, and each file one range of `layout` values. Call `mark_commits` before.
    """
    from pyspark import StorageLevel
    from pyspark.sql import functions

    old = spark.read.format("delta").load(spark_path(location))
    rows = staged.selectExpr(AUDIENCE_COLUMN, f"{ROW}.*", OPERATION, COUNT)
    fields = rows.drop(OPERATION, COUNT).schema.fields
    old_names = {name.lower() for name in old.columns}
    new_fields = [field for field in fields if field.name.lower() not in old_names]
    compared = [] if key else [field for field in fields[1:] if field.name.lower() in old_names]
    marks = (rows if key else rows.where(f"{OPERATION} = '{DELETE}'")).alias("new")
    same = [f"old.{quoted(name)} = new.{quoted(name)}" for name in (AUDIENCE_COLUMN, *key)]
    same += [f"{_comparable('old', field)} <=> {_comparable('new', field)}" for field in compared]
    matched = functions.expr(" AND ".join(same))
    files = _affected_files(old.alias("old").where(_file_filter(fields, key, counts)), marks, matched)

    merged_schema = {"type": "struct", "fields": [field.jsonValue() for field in [*old.schema.fields, *new_fields]]}
    delta_transaction, metadata = propose_metadata(
        spark, spark_path(location), {}, json.dumps(merged_schema) if new_fields else ""
    )
    if new_fields:
        delta_transaction.updateMetadata(metadata, False)  # noqa: FBT003 -- Scala's, by position
    delta_transaction.readWholeTable()
    replaced_files, file_rows = _files_to_replace(spark, delta_transaction, files)
    columns = [f"old.{quoted(name)}" for name in old.columns]
    columns += [f"{null(field.dataType)} AS {quoted(field.name)}" for field in new_fields]
    persisted = file_rows.alias("old").join(marks, matched, "left")
    persisted = persisted.selectExpr(*columns, f"{_change_of_old(compared, key)} AS {CHANGE_TYPE}")
    persisted = persisted.persist(StorageLevel.DISK_ONLY)
    try:
        persisted.count()  # otherwise Spark would overestimate the size of the join, and write too many files
        kind = f"if({OPERATION} = '{UPDATE}', 'update_postimage', '{INSERT}') AS {CHANGE_TYPE}"
        added = new_rows(staged).selectExpr(*map(quoted, persisted.columns[:-1]), kind)
        table = persisted.where(f"{CHANGE_TYPE} IS NULL").union(added).drop(CHANGE_TYPE)
        feed = persisted.where(f"{CHANGE_TYPE} IS NOT NULL").union(added)
        written = [sort_into_ranges(table, layout) if layout else table, few_files(feed)]
        _commit(spark, delta_transaction, replaced_files, written, transaction)
    finally:
        persisted.unpersist()


def _files_to_replace(spark: "SparkSession", delta_transaction: Any, files: set[str]) -> "tuple[list[Any], DataFrame]":
    from pyspark.sql import DataFrame

    replaced = [
        file for file in delta_transaction.snapshot().allFiles().collect() if file.path().rpartition("/")[2] in files
    ]
    actions, nothing = scala_seq(replaced), no_option()
    rows = delta_transaction.deltaLog().createDataFrame(delta_transaction.snapshot(), actions, False, nothing)  # noqa: FBT003 -- Scala's
    return replaced, DataFrame(rows, spark)


def _commit(
    spark: "SparkSession",
    delta_transaction: Any,
    replaced: Sequence[Any],
    written: "Sequence[DataFrame]",
    transaction: Transaction,
) -> None:
    now = round(time.time() * 1000)
    actions = [file.removeWithTimestamp(now, True) for file in replaced]  # noqa: FBT003 -- Scala's, by position
    for rows in written:
        added = delta_transaction.writeFiles(rows._jdf)  # noqa: SLF001 -- Delta has no public way to write chosen files
        actions += map(added.apply, range(added.size()))
    last_update = java_class("scala.Option").apply(now)
    set_transaction = java_class("org.apache.spark.sql.delta.actions.SetTransaction")
    actions.append(set_transaction(transaction.application, transaction.version, last_update))
    operation = getattr(java_class("org.apache.spark.sql.delta.DeltaOperations$ManualUpdate$"), "MODULE$")
    activate(spark)  # so that Delta writes its marks
    delta_transaction.commit(scala_seq(actions), operation)


def _affected_files(old: "DataFrame", marks: "DataFrame", matched: Any) -> set[str]:
    file_rows = old.select("old.*", "_metadata.file_name").withColumnRenamed("file_name", FILE).alias("old")
    names: list[Any] = file_rows.join(marks, matched, "left_semi").select(FILE).distinct().collect()
    return {row[0] for row in names}


def _file_filter(fields: "Sequence[StructField]", key: Sequence[str], counts: Mapping[str, ChangeCounts]) -> str:
    """Return a SQL condition for the table rows that can match changes, by which Delta skips files."""
    if len(counts) > MOST_AUDIENCES:
        return "true"
    in_audiences = f"old.{AUDIENCE_COLUMN} IN ({', '.join(map(literal, sorted(counts)))})"
    first = next((field for field in fields if key and field.name.lower() == key[0].lower()), None)
    ranges = key_ranges(counts.values(), first.name, first.dataType.simpleString()) if first else ""
    return f"{in_audiences} AND {ranges}" if ranges else in_audiences


def _change_of_old(compared: "Sequence[StructField]", key: Sequence[str]) -> str:
    if key:
        kinds = f"WHEN '{UPDATE}' THEN 'update_preimage' WHEN '{DELETE}' THEN '{DELETE}'"
        return f"CASE new.{OPERATION} {kinds} WHEN '{INSERT}' THEN {raise_sql(DUPLICATE)} END"
    copies = ", ".join([f"old.{AUDIENCE_COLUMN}", *(_comparable("old", field) for field in compared)])
    number = f"row_number() OVER (PARTITION BY {copies} ORDER BY old.{AUDIENCE_COLUMN})"
    return f"CASE WHEN {number} <= new.{COUNT} THEN '{DELETE}' END"


def _comparable(relation: str, field: "StructField") -> str:
    return comparable(f"{relation}.{quoted(field.name)}", field.dataType)
