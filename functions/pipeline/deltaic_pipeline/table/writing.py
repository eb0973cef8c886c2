"""Writes rows into a Delta table as one version, at most once per run or batch."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from deltaic_pipeline.failures import ExpectationFailed, PipelineError
from deltaic_pipeline.spark.casting import within
from deltaic_pipeline.spark.quoting import quoted
from deltaic_pipeline.table.file_sizing import few_files, one_machine
from deltaic_pipeline.table.merging import Validity, changes_of, keep_states, merge, refuse_undecided, states
from deltaic_pipeline.table.missing_keys import missing_keys, with_missing
from deltaic_pipeline.table.schema_diff import conformed, differences, grows, refuse_drift, remaining, with_deletes
from deltaic_pipeline.table.sources import spark_path
from deltaic_pipeline.table.table_properties import check_new_properties, check_properties, latest, pending
from deltaic_pipeline.table.target import Target
from deltaic_pipeline.table.transactions import Transaction, Written, exists, find, marked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

INSERTED, UPDATED = "numTargetRowsInserted", "numTargetRowsUpdated"
"""Delta's metrics of a MERGE; its `numOutputRows` counts the rows that were copied too."""

NOTHING: Mapping[str, str] = {INSERTED: "0", UPDATED: "0"}
"""Those of rows that the table has as they are: there is no commit."""


def write(  # noqa: PLR0913 -- what is written, and what is known of it
    spark: "SparkSession",
    rows: "DataFrame",
    target: Target,
    run: str | Transaction,
    given: "DataFrame | None" = None,
    *,
    keys_apart: bool = False,
) -> Written:
    """Write the rows as one version of the table and return what was committed, read back from the log.

    A second call with the same run commits nothing, nor do rows by key that say what the table says. The caller holds
    the table's lease, and calls `describe` afterwards: a new table is made with its properties, an existing one takes
    none in the transaction that writes rows. They are checked here, so whatever is refused, rows or properties, is
    refused before the log has anything of this run. Keys that are among the `given` rows are not missing, whether these
    are written or not; `keys_apart` says that no key is given twice. Raises `PipelineError` if the commit is not in the
    log afterwards.
    """
    target.check()
    transaction = Transaction.of_run(run) if isinstance(run, str) else run
    refuse_void_columns(rows)
    location = spark_path(target.location)
    present = exists(spark, target)
    partitions = _partitions(spark, location) if present else []
    unchanged, known = find(spark, target, transaction) if present else (-1, None)
    if known is not None:
        return known
    if present:
        if not target.evolve_schema and not pending(spark, target):  # new columns come without their comments
            transaction = replace(transaction, described=target.description_digest)
        check_properties(spark, target)
        _check_partitions(target, partitions)
    else:
        check_new_properties(spark, target)
    if target.keys:
        rows = _keyed(spark, rows, target, exists=present, apart=keys_apart)
    deleted: int | None = 0
    missing = 0
    if present and target.missing_at_most is not None:
        lacking = missing_keys(spark, current_rows(spark, target), rows if given is None else given, rows, target)
        if lacking.refusal:
            raise ExpectationFailed(f"nothing was written: {lacking.refusal}.")
        rows, missing = with_missing(rows, lacking, target), lacking.count
    here = not partitions and not target.partition_by and one_machine(spark)
    with marked(spark, transaction, spread=not here):
        if target.keys and present:
            deleted = _merge(spark, rows, target, always=transaction.moves)
        else:
            rows = remaining(rows)
            _save(few_files(rows) if here else rows, target, location, exists=present)
    if deleted is None:
        return Written(unchanged, repeated=False, metrics=NOTHING, committed=False)
    version, made = find(spark, target, transaction)
    if made is None:
        return _repeated(version, unchanged, target, transaction)
    return replace(made, repeated=False, deleted=deleted - missing, missing=missing)


def _repeated(version: int, unchanged: int, target: Target, transaction: Transaction) -> Written:
    """Return that Delta refused a transaction which it knows; raises `PipelineError` where its commit is lost."""
    if version == unchanged:
        # The log's `txn` action says that the run has committed, longer ago than the latest commits.
        return Written(version, repeated=True, metrics={})
    raise PipelineError(
        f"the commit of {transaction} is not in the log of {target.location}: "
        "another writer that does not take the table's lease has overwritten it. Run the job again."
    )


def _save(rows: "DataFrame", target: Target, location: str, *, exists: bool) -> None:
    adds = target.mode == "append" or (target.mode == "scd2" and not exists)
    writer = rows.write.format("delta").mode("append" if adds else "overwrite")
    if target.partition_by and (not exists or target.evolve_schema):
        writer = writer.partitionBy(*target.partition_by)
    if not exists:
        writer = writer.options(**target.wanted_properties)
    if target.mode == "overwrite_partitions" and exists:
        whole = {"replaceWhere": target.where} if target.where else {"partitionOverwriteMode": "dynamic"}
        writer = writer.options(**whole)
    if target.evolve_schema:
        writer = writer.option("overwriteSchema" if target.mode == "overwrite" else "mergeSchema", "true")
    writer.save(location)


def _keyed(spark: "SparkSession", rows: "DataFrame", target: Target, *, exists: bool, apart: bool) -> "DataFrame":
    if exists:
        refuse_drift(differences(spark, rows, target), target)
    rows = merged_rows(spark, rows, target, exists=exists)
    if not exists:
        # Else they are looked at when they are compared, in the table's types: keys may be alike that were not.
        refuse_undecided(rows, target.keys, apart=apart)
    return rows


def merged_rows(spark: "SparkSession", rows: "DataFrame", target: Target, *, exists: bool) -> "DataFrame":
    """Return the rows as they are merged: with the mark and the times of the target, in an existing table's types."""
    rows = with_deletes(spark, rows, target)
    if target.mode == "scd2":
        rows = states(rows, target.validity or Validity())
    return conformed(spark, rows, target) if exists else rows


def current_rows(spark: "SparkSession", target: Target) -> "DataFrame":
    """Return the rows of an existing table, of states those that hold."""
    table = spark.read.format("delta").load(spark_path(target.location))
    return table.where(quoted(target.validity.current)) if target.validity else table


def _merge(spark: "SparkSession", rows: "DataFrame", target: Target, *, always: bool) -> int | None:
    """Merge rows that say something new, and return how many delete their key; None: there was nothing to commit.

    New columns are something; `always`: so is the transaction by itself.
    """
    location, keys, evolve = spark_path(target.location), target.keys, target.evolve_schema
    table, validity = current_rows(spark, target), target.validity
    ignored = [*validity.columns, *([validity.at] if validity.at else [])] if validity else []

    def merged(new: "DataFrame") -> None:
        if validity:
            keep_states(spark, new, keys, validity, location, evolve=evolve)
        else:
            merge(spark, new, keys, location, evolve=evolve)

    wider = grows(table, rows)
    with changes_of(rows, table, keys, ignored) as changes:
        some = always or wider or changes.count > 0
        if some and not wider:
            merged(changes.rows)
    if wider:
        # Delta gives a table no other type while rows are kept that were compared with it as it was.
        merged(rows)
    return changes.deletes if some else None


def _partitions(spark: "SparkSession", location: str) -> list[str]:
    columns = latest(spark, location).metadata().partitionColumns()
    return [str(columns.apply(number)) for number in range(columns.size())]


def _check_partitions(target: Target, partitions: Sequence[str]) -> None:
    """Refuse what Delta would take for something else: other partitions than the table's, or none to overwrite."""
    if not target.partition_by and target.mode != "overwrite_partitions":
        return
    if target.mode == "overwrite_partitions" and not target.where and not partitions:
        # Delta would overwrite the whole table.
        raise PipelineError(f"{target.location} is not partitioned: say with `where` which rows are overwritten.")
    rewritten = target.mode == "overwrite" and target.evolve_schema
    if target.partition_by and not rewritten and list(partitions) != list(target.partition_by):
        raise PipelineError(
            f"{target.location} is partitioned by {', '.join(partitions) or 'nothing'}, and not by "
            f"{', '.join(target.partition_by)}: overwrite it with another schema allowed, or give what it has."
        )


def refuse_void_columns(rows: "DataFrame") -> None:
    """Refuse columns of Spark's type void (`SELECT NULL AS x`): Delta leaves them out of its files without a word."""
    from pyspark.sql import types

    names = [path for path, kind in within(rows.schema) if isinstance(kind, types.NullType)]
    if names:
        raise PipelineError(
            f"Delta stores no column of type void, which these are: {', '.join(names)}. Give each a type in the SQL, "
            "such as CAST(NULL AS STRING), or leave it out."
        )
