"""Job that publishes files or tables as a shared Delta table: reads, transforms, writes, adds a catalog entry."""

import argparse
import sys
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from deltaic.errors import NotFound
from deltaic_terminal.progress import Progress, silent, step

from deltaic_pipeline.arguments import parser
from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.job_command import Report, resume_hint, run_command
from deltaic_pipeline.spark.ddl import WrongDdl, columns_of
from deltaic_pipeline.spark.options import refused_options, unknown_options
from deltaic_pipeline.spark.session import session
from deltaic_pipeline.spark.sql_rules import query_rows
from deltaic_pipeline.spark.storage_access import S3Access
from deltaic_pipeline.spark.task_progress import show_tasks
from deltaic_pipeline.table.catalog_entry import CatalogEntry, JobCatalog, connect, entry_from
from deltaic_pipeline.table.column_names import THE_TABLE, missing_column
from deltaic_pipeline.table.leased_run import finish, leased_run
from deltaic_pipeline.table.location_checks import LocationChecks
from deltaic_pipeline.table.sources import Source, catalog_location, explain_misfits, read
from deltaic_pipeline.table.target import DeltaTarget
from deltaic_pipeline.table.transactions import WriteResult
from deltaic_pipeline.table.writing import INSERTED, UPDATED, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VIEW = "source"

REMEDY = "correct the files, or describe their content with --schema and --option"


@dataclass(frozen=True, slots=True)
class PublishJob:
    """Options of one run of the publish job."""

    source: Source
    target: DeltaTarget
    sql: str | None = None
    entry: CatalogEntry | None = None
    """Catalog entry to create; None: the table is not shared."""

    run_id: str = ""
    wait: timedelta = timedelta(0)


def transform(rows: "DataFrame", sql: str | None) -> "DataFrame":
    """Return the rows to publish: the result of `sql` over the view `source`, or all rows without `sql`."""
    if not sql:
        return rows
    rows.createOrReplaceTempView(VIEW)
    return query_rows(rows.sparkSession, sql)


def publish(spark: "SparkSession", job: PublishJob, catalog: JobCatalog, progress: Progress = silent) -> WriteResult:
    """Write one new version of the table under its writer lease, then create the catalog entry.

    Properties that an existing table lacks are set in one more version after the rows. These errors leave the catalog
    unchanged: `Conflict` if another writer holds the lease or another table has the name, `LeaseLost`, and
    `PipelineError` if the rows cannot be read or written. `Unfinished` means that the rows are written, but properties
    or the entry are not.
    """
    job.target.check()
    run_id = job.run_id or uuid.uuid4().hex
    location = catalog_location(job.target.location)
    if job.entry is not None:
        catalog.check(job.entry)
    with leased_run(spark, catalog, [location], run_id, progress, wait=job.wait) as attempt:
        with step(progress, f"Reading {job.source.format} {', '.join(job.source.paths)}"), attempt.refusals():
            reading = read(attempt.spark, job.source)
            rows = transform(reading.rows, job.sql)
            _check_columns(rows.columns, job.target)
        with (
            step(progress, f"Writing {location} ({job.target.mode})") as report,
            explain_misfits({"the source": reading}, REMEDY),
            attempt.refusals(),
        ):
            with show_tasks(spark, attempt.group, report):
                written = write(attempt.spark, rows, job.target, run_id)
            attempt.confirm()
            report(result_text(written))
        finish(attempt, job.target, job.entry, catalog, written.version, progress)
    return written


def _check_columns(columns: Iterable[str], target: DeltaTarget, owner: str = "the rows") -> None:
    for option, names in (("--key", target.keys), ("--partition-by", target.partition_by)):
        for name in names:
            if message := missing_column(name, columns, owner):
                raise PipelineError(f"{option}: {message}")


def result_text(written: WriteResult) -> str:
    """Describe the result of a write, such as `version 3, 1,000 rows`."""
    if written.repeated:
        return f"version {written.version} has this run's rows already"
    metrics = (INSERTED, UPDATED) if INSERTED in written.metrics else ("numOutputRows",)
    rows = sum(int(written.metrics.get(name, 0)) for name in metrics)
    return f"version {written.version}{'' if written.committed else ' stays'}, {rows:,} rows"


def _check_before_spark(job: PublishJob, catalog: JobCatalog) -> None:
    checks, target = LocationChecks(), job.target
    messages = [checks.missing_bucket(target.location)]
    repeated = job.run_id and checks.missing_table(target.location) is None  # a repetition needs no source
    if job.source.format != "table" and not repeated:
        messages += map(
            checks.missing_table if job.source.format == "delta" else checks.missing_source, job.source.paths
        )
    if missing := [message for message in messages if message]:
        raise NotFound("; ".join(missing))
    columns = [column.name for column in columns_of(job.source.schema)] if job.source.schema else []
    if columns and not job.sql:
        _check_columns(columns, target)
    table = None if target.rewrites else checks.columns(target.location)
    if table is not None:
        checked = replace(target, partition_by=()) if target.evolve_schema else target
        _check_columns(table, checked, "the table" if target.evolve_schema else THE_TABLE)
    if job.entry is not None:
        catalog.check(job.entry)
    catalog.require_free(target.location, job.wait)


def job_from(arguments: argparse.Namespace) -> PublishJob:
    """Return the job that a command line describes; raises `DeltaicError` if its options are inconsistent."""
    target = DeltaTarget(
        location=arguments.to,
        mode=arguments.mode,
        partition_by=tuple(arguments.partition_by),
        keys=tuple(arguments.key),
        change_data_feed=not arguments.no_change_data_feed,
        properties=_pairs(arguments.property),
        evolve_schema=arguments.evolve_schema,
    )
    target.check()
    options, evolves = _pairs(arguments.option), arguments.evolve_schema
    source = Source(arguments.format, tuple(arguments.paths), options, arguments.schema, evolves=evolves)
    _check_options(source)
    return PublishJob(
        source=source,
        target=target,
        sql=arguments.sql,
        entry=entry_from(arguments, history=not arguments.no_history),
        run_id=arguments.run_id,
        wait=timedelta(seconds=arguments.wait),
    )


def _check_options(source: Source) -> None:
    refused = refused_options(source.options) if source.format in {"csv", "json"} else ()
    for name, message in [*unknown_options(source.format, source.options), *refused]:
        raise PipelineError(f"--option {name} {message}.")
    if source.schema:
        try:
            columns_of(source.schema)
        except WrongDdl as wrong:
            raise PipelineError(f"--schema {wrong.message}.") from None


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    pairs = dict(pair.partition("=")[::2] for pair in texts)
    if "" in pairs or any("=" not in pair for pair in texts):
        raise PipelineError("--option and --property need NAME=VALUE, such as sep=;")
    return pairs


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job that the command line describes and return the exit code."""
    options = parser("publish").parse_args(arguments)
    run_id = options.run_id or uuid.uuid4().hex
    return run_command(options, partial(_run, options, run_id), resume_hint(run_id))


def _run(options: argparse.Namespace, run_id: str, progress: Progress, report: Report) -> None:
    job = job_from(options)
    catalog = connect(options.catalog)
    _check_before_spark(job, catalog)
    with step(progress, "Starting Spark") as report_progress:
        spark = session("deltaic publish", S3Access.from_environment(), memory=options.memory, report=report_progress)
    publish(spark, replace(job, run_id=run_id), catalog, progress)
    if job.entry is not None and (line := catalog.next_step(job.entry.name)):
        report([line], {})


if __name__ == "__main__":
    sys.exit(main())
