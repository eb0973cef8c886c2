"""Rewrites the files of a view that hold changed rows, so that each file keeps a range of keys (decision 203).

Delta's MERGE writes rows in the order of its join, by a hash of the key. After one change to rows across all keys,
every file holds keys of the whole range, and each later change rewrites all files.
"""

import json
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltaic.partition_filters.audiences import AUDIENCE_COLUMN

from deltaic_pipeline.spark.casting import comparable, null
from deltaic_pipeline.spark.jvm import java_class, no_option, scala_seq
from deltaic_pipeline.spark.quoting import literal, quoted
from deltaic_pipeline.spark.spark_errors import raised
from deltaic_pipeline.table.file_sizing import few_files, in_ranges
from deltaic_pipeline.table.sources import spark_path
from deltaic_pipeline.table.table_properties import activate, proposed
from deltaic_pipeline.table.transactions import Transaction
from deltaic_pipeline.view_refresh.row_changes import (
    COUNT,
    DELETE,
    INSERT,
    OPERATION,
    ROW,
    UPDATE,
    Counts,
    in_ranges_of,
    new_rows,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField

CHANGE_TYPE = "_change_type"
"""Delta's name for the kind of a row in the change data feed; a row of the table itself has none."""

FILE = "_deltaic_file"
TWICE = "a new row of the view has the key of another: reduce them to one in the SQL"
MOST_AUDIENCES = 200
"""Audiences that are named in the condition by which Delta leaves out the other partitions' files."""


def rewrite(  # noqa: PLR0913, PLR0917 -- what changes, how it is matched, and how it lies
    spark: "SparkSession",
    staged: "DataFrame",
    location: str,
    key: Sequence[str],
    layout: Sequence[str],
    counts: Mapping[str, Counts],
    transaction: Transaction,
) -> None:
    """Commit staged operations, matched by key or by whole rows, with exactly these changes in the change feed.

    Files are written in ranges of `layout`. The caller has `marked` the session.
    """
    from pyspark import StorageLevel
    from pyspark.sql import functions

    old = spark.read.format("delta").load(spark_path(location))
    rows = staged.selectExpr(AUDIENCE_COLUMN, f"{ROW}.*", OPERATION, COUNT)
    fields = rows.drop(OPERATION, COUNT).schema.fields
    known = {name.lower() for name in old.columns}
    coming = [field for field in fields if field.name.lower() not in known]
    compared = [] if key else [field for field in fields[1:] if field.name.lower() in known]
    marks = (rows if key else rows.where(f"{OPERATION} = '{DELETE}'")).alias("new")
    same = [f"old.{quoted(name)} = new.{quoted(name)}" for name in (AUDIENCE_COLUMN, *key)]
    same += [f"{_by('old', field)} <=> {_by('new', field)}" for field in compared]
    matched = functions.expr(" AND ".join(same))
    files = _files(old.alias("old").where(_within(fields, key, counts)), marks, matched)

    grown = {"type": "struct", "fields": [field.jsonValue() for field in [*old.schema.fields, *coming]]}
    begun, metadata = proposed(spark, spark_path(location), {}, json.dumps(grown) if coming else "")
    if coming:
        begun.updateMetadata(metadata, False)  # noqa: FBT003 -- Scala's, by position
    begun.readWholeTable()
    replaced, held = _held(spark, begun, files)
    columns = [f"old.{quoted(name)}" for name in old.columns]
    columns += [f"{null(field.dataType)} AS {quoted(field.name)}" for field in coming]
    kept = held.alias("old").join(marks, matched, "left")
    kept = kept.selectExpr(*columns, f"{_change_of_old(compared, key)} AS {CHANGE_TYPE}")
    kept = kept.persist(StorageLevel.DISK_ONLY)
    try:
        kept.count()  # or Spark would estimate the join by the product of both sides, and make too many files
        kind = f"if({OPERATION} = '{UPDATE}', 'update_postimage', '{INSERT}') AS {CHANGE_TYPE}"
        added = new_rows(staged).selectExpr(*map(quoted, kept.columns[:-1]), kind)
        table = kept.where(f"{CHANGE_TYPE} IS NULL").union(added).drop(CHANGE_TYPE)
        feed = kept.where(f"{CHANGE_TYPE} IS NOT NULL").union(added)
        written = [in_ranges(table, layout) if layout else table, few_files(feed)]
        _commit(spark, begun, replaced, written, transaction)
    finally:
        kept.unpersist()


def _held(spark: "SparkSession", begun: Any, files: set[str]) -> "tuple[list[Any], DataFrame]":
    from pyspark.sql import DataFrame

    added = [each for each in begun.snapshot().allFiles().collect() if each.path().rpartition("/")[2] in files]
    actions, nothing = scala_seq(added), no_option()
    rows = begun.deltaLog().createDataFrame(begun.snapshot(), actions, False, nothing)  # noqa: FBT003 -- Scala's
    return added, DataFrame(rows, spark)


def _commit(
    spark: "SparkSession", begun: Any, replaced: Sequence[Any], written: "Sequence[DataFrame]", transaction: Transaction
) -> None:
    moment = round(time.time() * 1000)
    actions = [each.removeWithTimestamp(moment, True) for each in replaced]  # noqa: FBT003 -- Scala's, by position
    for rows in written:
        made = begun.writeFiles(rows._jdf)  # noqa: SLF001 -- Delta has no public way to write chosen files
        actions += map(made.apply, range(made.size()))
    last_update = java_class("scala.Option").apply(moment)
    set_transaction = java_class("org.apache.spark.sql.delta.actions.SetTransaction")
    actions.append(set_transaction(transaction.application, transaction.version, last_update))
    operation = getattr(java_class("org.apache.spark.sql.delta.DeltaOperations$ManualUpdate$"), "MODULE$")
    activate(spark)  # whose marks count
    begun.commit(scala_seq(actions), operation)


def _files(old: "DataFrame", marks: "DataFrame", matched: Any) -> set[str]:
    held = old.select("old.*", "_metadata.file_name").withColumnRenamed("file_name", FILE).alias("old")
    found: list[Any] = held.join(marks, matched, "left_semi").select(FILE).distinct().collect()
    return {row[0] for row in found}


def _within(fields: "Sequence[StructField]", key: Sequence[str], counts: Mapping[str, Counts]) -> str:
    """Return a condition for rows that can be matched, by which Delta leaves out files."""
    if len(counts) > MOST_AUDIENCES:
        return "true"
    within = f"old.{AUDIENCE_COLUMN} IN ({', '.join(map(literal, sorted(counts)))})"
    first = next((field for field in fields if key and field.name.lower() == key[0].lower()), None)
    ranges = in_ranges_of(counts.values(), first.name, first.dataType.simpleString()) if first else ""
    return f"{within} AND {ranges}" if ranges else within


def _change_of_old(compared: "Sequence[StructField]", key: Sequence[str]) -> str:
    if key:
        kinds = f"WHEN '{UPDATE}' THEN 'update_preimage' WHEN '{DELETE}' THEN '{DELETE}'"
        return f"CASE new.{OPERATION} {kinds} WHEN '{INSERT}' THEN {raised(TWICE)} END"
    copies = ", ".join([f"old.{AUDIENCE_COLUMN}", *(_by("old", field) for field in compared)])
    number = f"row_number() OVER (PARTITION BY {copies} ORDER BY old.{AUDIENCE_COLUMN})"
    return f"CASE WHEN {number} <= new.{COUNT} THEN '{DELETE}' END"


def _by(relation: str, field: "StructField") -> str:
    return comparable(f"{relation}.{quoted(field.name)}", field.dataType)
