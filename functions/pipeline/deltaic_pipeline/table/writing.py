"""Write rows into a Delta table as one version, at most once for each run or batch."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from deltaic_pipeline.failures import ExpectationFailed, PipelineError
from deltaic_pipeline.spark.casting import nested_types
from deltaic_pipeline.spark.quoting import quoted
from deltaic_pipeline.table.file_sizing import few_files, runs_on_one_machine
from deltaic_pipeline.table.merging import Validity, check_keys, find_changes, merge, merge_states, with_validity
from deltaic_pipeline.table.missing_keys import add_missing_keys, missing_keys
from deltaic_pipeline.table.schema_diff import conform, differences, drop_deletes, extends, mark_deletes, refuse_drift
from deltaic_pipeline.table.sources import spark_path
from deltaic_pipeline.table.table_properties import check_new_properties, check_properties, latest_snapshot, pending_sql
from deltaic_pipeline.table.target import DeltaTarget
from deltaic_pipeline.table.transactions import Transaction, WriteResult, exists, find, mark_commits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

INSERTED, UPDATED = "numTargetRowsInserted", "numTargetRowsUpdated"
"""Names of Delta's metrics of a MERGE, whose `numOutputRows` also counts copied rows."""

NOTHING: Mapping[str, str] = {INSERTED: "0", UPDATED: "0"}
"""Metrics of a run that commits nothing, because the table contains all rows already."""


def write(  # noqa: PLR0913 -- the rows, their table, and two facts about the keys
    spark: "SparkSession",
    rows: "DataFrame",
    target: DeltaTarget,
    run: str | Transaction,
    extract: "DataFrame | None" = None,
    *,
    unique_keys: bool = False,
) -> WriteResult:
    """Write the rows as one version of the table and return the commit, read back from the log.

    Commits nothing if the log has this run already, or if keyed rows all equal the table's rows. The caller
    holds the table's lease, and calls `describe` afterwards: the commit of the rows sets properties of a new table
    only. Rows and properties are checked first, so an error leaves nothing of this run in the log. With
    `target.missing_at_most`, keys that `extract` (by default `rows`) lacks are deleted; `unique_keys` states that no
    key is in several rows. Raises `PipelineError` if the commit is not in the log afterwards.
    """
    target.check()
    transaction = Transaction.of_run(run) if isinstance(run, str) else run
    refuse_void_columns(rows)
    location = spark_path(target.location)
    present = exists(spark, target)
    partitions = _partitions(spark, location) if present else []
    unchanged, earlier = find(spark, target, transaction) if present else (-1, None)
    if earlier is not None:
        return earlier
    if present:
        # New columns come without their comments, so a later check is due then.
        if not target.evolve_schema and not pending_sql(spark, target):
            transaction = replace(transaction, described=target.description_digest)
        check_properties(spark, target)
        _check_partitions(target, partitions)
    else:
        check_new_properties(spark, target)
    if target.keys:
        rows = _prepare(spark, rows, target, exists=present, unique=unique_keys)
    deleted: int | None = 0
    missing_count = 0
    if present and target.missing_at_most is not None:
        keys = missing_keys(spark, current_rows(spark, target), rows if extract is None else extract, rows, target)
        if keys.refusal:
            raise ExpectationFailed(f"nothing was written: {keys.refusal}.")
        rows, missing_count = add_missing_keys(rows, keys, target), keys.count
    on_one_machine = not partitions and not target.partition_by and runs_on_one_machine(spark)
    with mark_commits(spark, transaction, spread=not on_one_machine):
        if target.keys and present:
            deleted = _merge(spark, rows, target, always=transaction.moves)
        else:
            rows = drop_deletes(rows)
            _save(few_files(rows) if on_one_machine else rows, target, location, exists=present)
    if deleted is None:
        return WriteResult(unchanged, repeated=False, metrics=NOTHING, committed=False)
    version, commit = find(spark, target, transaction)
    if commit is None:
        return _repeated(version, unchanged, target, transaction)
    return replace(commit, repeated=False, deleted=deleted - missing_count, missing=missing_count)


def _repeated(version: int, unchanged: int, target: DeltaTarget, transaction: Transaction) -> WriteResult:
    """Return the result of a repeated run; raises `PipelineError` if another writer has overwritten its commit."""
    if version == unchanged:
        # The log's `txn` action shows that the run has committed, before the latest commits.
        return WriteResult(version, repeated=True, metrics={})
    raise PipelineError(
        f"the commit of {transaction} is not in the log of {target.location}: "
        "another writer, which does not acquire the table's lease, has overwritten it. Run the job again."
    )


def _save(rows: "DataFrame", target: DeltaTarget, location: str, *, exists: bool) -> None:
    adds = target.mode == "append" or (target.mode == "scd2" and not exists)
    writer = rows.write.format("delta").mode("append" if adds else "overwrite")
    if target.partition_by and (not exists or target.evolve_schema):
        writer = writer.partitionBy(*target.partition_by)
    if not exists:
        writer = writer.options(**target.required_properties)
    if target.mode == "overwrite_partitions" and exists:
        scope = {"replaceWhere": target.where} if target.where else {"partitionOverwriteMode": "dynamic"}
        writer = writer.options(**scope)
    if target.evolve_schema:
        writer = writer.option("overwriteSchema" if target.mode == "overwrite" else "mergeSchema", "true")
    writer.save(location)


def _prepare(
    spark: "SparkSession", rows: "DataFrame", target: DeltaTarget, *, exists: bool, unique: bool
) -> "DataFrame":
    if exists:
        refuse_drift(differences(spark, rows, target), target)
    rows = rows_to_merge(spark, rows, target, exists=exists)
    if not exists:
        # Keys for an existing table are checked during the comparison: in its types, different keys can become equal.
        check_keys(rows, target.keys, unique=unique)
    return rows


def rows_to_merge(spark: "SparkSession", rows: "DataFrame", target: DeltaTarget, *, exists: bool) -> "DataFrame":
    """Return the rows to merge: with column `DELETES`, validity columns for scd2, and an existing table's types."""
    rows = mark_deletes(spark, rows, target)
    if target.mode == "scd2":
        rows = with_validity(rows, target.validity or Validity())
    return conform(spark, rows, target) if exists else rows


def current_rows(spark: "SparkSession", target: DeltaTarget) -> "DataFrame":
    """Return the rows of an existing table; for scd2, only the current states."""
    table = spark.read.format("delta").load(spark_path(target.location))
    return table.where(quoted(target.validity.current)) if target.validity else table


def _merge(spark: "SparkSession", rows: "DataFrame", target: DeltaTarget, *, always: bool) -> int | None:
    """Merge the changed rows, and return how many delete their key; None if nothing was committed.

    New columns are always committed; with `always`, a commit is made even if no row has changed.
    """
    location, keys, evolve = spark_path(target.location), target.keys, target.evolve_schema
    table, validity = current_rows(spark, target), target.validity
    ignored = [*validity.columns, *([validity.at] if validity.at else [])] if validity else []

    def merge_rows(new: "DataFrame") -> None:
        if validity:
            merge_states(spark, new, keys, validity, location, evolve=evolve)
        else:
            merge(spark, new, keys, location, evolve=evolve)

    wider = extends(table, rows)
    with find_changes(rows, table, keys, ignored) as changes:
        has_changes = always or wider or changes.count > 0
        if has_changes and not wider:
            merge_rows(changes.rows)
    if wider:
        # Delta changes no type of a table while rows are persisted that were compared with its old types.
        merge_rows(rows)
    return changes.deletes if has_changes else None


def _partitions(spark: "SparkSession", location: str) -> list[str]:
    columns = latest_snapshot(spark, location).metadata().partitionColumns()
    return [str(columns.apply(number)) for number in range(columns.size())]


def _check_partitions(target: DeltaTarget, partitions: Sequence[str]) -> None:
    """Raise `PipelineError` for other partition columns than the table's, or for `overwrite_partitions` without any."""
    if not target.partition_by and target.mode != "overwrite_partitions":
        return
    if target.mode == "overwrite_partitions" and not target.where and not partitions:
        # Delta would overwrite the whole table.
        raise PipelineError(f"{target.location} is not partitioned. Select the rows to overwrite with `where`.")
    rewritten = target.mode == "overwrite" and target.evolve_schema
    if target.partition_by and not rewritten and list(partitions) != list(target.partition_by):
        raise PipelineError(
            f"{target.location} is partitioned by {', '.join(partitions) or 'nothing'}, and not by "
            f"{', '.join(target.partition_by)}. Overwrite it with evolve_schema, or use its partition columns."
        )


def refuse_void_columns(rows: "DataFrame") -> None:
    """Raise `PipelineError` for columns of type void (`SELECT NULL AS x`), which Delta silently drops."""
    from pyspark.sql import types

    names = [path for path, kind in nested_types(rows.schema) if isinstance(kind, types.NullType)]
    if names:
        raise PipelineError(
            f"Delta stores no column of type void: {', '.join(names)}. Give each a type in the SQL, such as "
            "CAST(NULL AS STRING), or remove it."
        )
