"""The job that makes a shared Delta table of files or tables: read, transform, write under the lease, then register."""

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
from deltaic_pipeline.job_command import Tell, conduct_command, going_on
from deltaic_pipeline.spark.ddl import WrongDdl, columns_of
from deltaic_pipeline.spark.options import refused_options, unknown_options, unknown_properties
from deltaic_pipeline.spark.session import session
from deltaic_pipeline.spark.sql_rules import answer
from deltaic_pipeline.spark.storage_access import S3Access
from deltaic_pipeline.spark.task_progress import tasks_shown
from deltaic_pipeline.table.catalog_entry import Catalog, Entry, connect, entry_of
from deltaic_pipeline.table.column_names import THE_TABLE, missing_in
from deltaic_pipeline.table.file_schemas import wrong_header
from deltaic_pipeline.table.leased_run import finish, leased_run
from deltaic_pipeline.table.location_checks import Places
from deltaic_pipeline.table.sources import Source, catalog_location, read, values_told
from deltaic_pipeline.table.target import Target
from deltaic_pipeline.table.transactions import Written
from deltaic_pipeline.table.writing import INSERTED, UPDATED, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VIEW = "source"

REMEDY = "put the files right, or say by --schema and --option what they hold"


@dataclass(frozen=True, slots=True)
class Job:
    """One publication."""

    source: Source
    target: Target
    sql: str | None = None
    entry: Entry | None = None
    """None: the table is not shared."""

    run_id: str = ""
    wait: timedelta = timedelta(0)


def transform(rows: "DataFrame", sql: str | None) -> "DataFrame":
    """Return the rows to publish: the answer of `sql` over the view `source`, or the rows themselves."""
    if not sql:
        return rows
    rows.createOrReplaceTempView(VIEW)
    return answer(rows.sparkSession, sql)


def publish(spark: "SparkSession", job: Job, catalog: Catalog, progress: Progress = silent) -> Written:
    """Publish: one new version of the table, acknowledged only while the lease was held, then the catalog entry.

    Properties that an existing table lacks are one version more, after the rows.

    Raises `Conflict` when another writer holds the table or another table has the name, `LeaseLost` when the lease was
    lost on the way (nothing is acknowledged), `PipelineError` when the rows cannot be read or written, all of which
    leave the catalog as it was; `Unfinished` when the rows are written, and properties or the entry are not.
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
            _refuse_misnamed(rows.columns, job.target)
        with (
            step(progress, f"Writing {location} ({job.target.mode})") as tell,
            values_told({"the source": reading}, REMEDY),
            attempt.refusals(),
        ):
            with tasks_shown(spark, attempt.group, tell):
                written = write(attempt.spark, rows, job.target, run_id)
            attempt.confirm()
            tell(described(written))
        finish(attempt, job.target, job.entry, catalog, written.version, progress)
    return written


def _refuse_misnamed(columns: Iterable[str], target: Target, owner: str = "the rows") -> None:
    for option, names in (("--key", target.keys), ("--partition-by", target.partition_by)):
        for name in names:
            if message := missing_in(name, columns, owner):
                raise PipelineError(f"{option}: {message}")


def described(written: Written) -> str:
    """Say in a few words what a run did."""
    if written.repeated:
        return f"version {written.version} has this run's rows already"
    counted = (INSERTED, UPDATED) if INSERTED in written.metrics else ("numOutputRows",)
    rows = sum(int(written.metrics.get(name, 0)) for name in counted)
    return f"version {written.version}{'' if written.committed else ' stays'}, {rows:,} rows"


def _refuse_what_is_known(job: Job, catalog: Catalog) -> None:
    places, target = Places(), job.target
    told = [places.absent_bucket(target.location)]
    repeated = job.run_id and places.absent_table(target.location) is None  # which needs no source any more
    if job.source.format != "table" and not repeated:
        told += map(places.absent_table if job.source.format == "delta" else places.absent_source, job.source.paths)
    if missing := [message for message in told if message]:
        raise NotFound("; ".join(missing))
    columns = [column.name for column in columns_of(job.source.schema)] if job.source.schema else []
    if columns and job.source.format == "csv" and not repeated:
        for file in filter(None, map(places.beginning, job.source.paths)):
            if message := wrong_header(*file, columns, job.source.options):
                raise PipelineError(message)
    if columns and not job.sql:
        _refuse_misnamed(columns, target)
    table = None if target.rewrites else places.columns(target.location)
    if table is not None:
        kept = replace(target, partition_by=()) if target.evolve_schema else target
        _refuse_misnamed(table, kept, "the table" if target.evolve_schema else THE_TABLE)
    if job.entry is not None:
        catalog.check(job.entry)
    catalog.require_free(target.location, job.wait)


def job_of(arguments: argparse.Namespace) -> Job:
    """Return the job that a command line describes; raises `DeltaicError` when its values contradict each other."""
    target = Target(
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
    _check_known(source, target)
    return Job(
        source=source,
        target=target,
        sql=arguments.sql,
        entry=entry_of(arguments, history=not arguments.no_history),
        run_id=arguments.run_id,
        wait=timedelta(seconds=arguments.wait),
    )


def _check_known(source: Source, target: Target) -> None:
    refused = refused_options(source.options) if source.format in {"csv", "json"} else ()
    for name, message in [*unknown_options(source.format, source.options), *refused]:
        raise PipelineError(f"--option {name} {message}.")
    for name, message in unknown_properties(target.properties):
        raise PipelineError(f"--property {name} {message}.")
    if source.schema:
        try:
            columns_of(source.schema)
        except WrongDdl as wrong:
            raise PipelineError(f"--schema {wrong.message}.") from None


def _pairs(given: Sequence[str]) -> dict[str, str]:
    pairs = dict(pair.partition("=")[::2] for pair in given)
    if "" in pairs or any("=" not in pair for pair in given):
        raise PipelineError("options and properties are written NAME=VALUE.")
    return pairs


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job that the command line describes and return the exit code."""
    options = parser("publish").parse_args(arguments)
    run_id = options.run_id or uuid.uuid4().hex
    return conduct_command(options, partial(_run, options, run_id), going_on(run_id))


def _run(options: argparse.Namespace, run_id: str, progress: Progress, tell: Tell) -> None:
    job = job_of(options)
    catalog = connect(options.catalog)
    _refuse_what_is_known(job, catalog)
    with step(progress, "Starting Spark") as said:
        spark = session("deltaic publish", S3Access.from_environment(), memory=options.memory, report=said)
    publish(spark, replace(job, run_id=run_id), catalog, progress)
    if job.entry is not None and (line := catalog.next_step(job.entry.name)):
        tell([line], {})


if __name__ == "__main__":
    sys.exit(main())
