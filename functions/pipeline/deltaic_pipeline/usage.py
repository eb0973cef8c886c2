"""The job that keeps the usage table: who asked for what, and what was fetched, from both access logs by merge."""

import argparse
import sys
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import timedelta
from functools import partial

from deltaic.errors import NotFound
from deltaic.settings import settings
from deltaic_terminal.progress import Progress, step

from deltaic_pipeline.arguments import parser
from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.job_command import Tell, conduct_command, going_on
from deltaic_pipeline.spark.session import session
from deltaic_pipeline.spark.storage_access import S3Access
from deltaic_pipeline.table.catalog_entry import Catalog, connect, entry_of
from deltaic_pipeline.table.location_checks import Places
from deltaic_pipeline.table.sources import catalog_location
from deltaic_pipeline.usage_log.collection import Job, Summary, catalog_facts, collect


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job that the command line describes and return the exit code."""
    line = parser("usage")
    options = line.parse_args(arguments)
    if not (options.requests and options.fetches and options.to):
        line.error("--requests, --fetches and --to say where the logs are and where the table is")
    run_id = options.run_id or uuid.uuid4().hex
    return conduct_command(options, partial(_run, options, run_id), going_on(run_id))


def _run(options: argparse.Namespace, run_id: str, progress: Progress, tell: Tell) -> None:
    catalog, target = connect(options.catalog), catalog_location(options.to)
    with step(progress, "Reading the catalog") as step_tell:
        facts = catalog_facts(catalog.admin)
        step_tell(f"{len(facts.recipients):,} recipients, {len(facts.tables):,} locations")
    if not target.startswith("s3://"):
        raise PipelineError(f"--to {options.to} is not a location in S3: write s3://bucket/folder.")
    signing = [settings().signing_role_arn, *(each.role_arn for each in catalog.admin.storages.list())]
    job = Job(
        requests=tuple(options.requests),
        fetches=tuple(options.fetches),
        target=target,
        run_id=run_id,
        entry=entry_of(options),
        roles=tuple(options.role or (arn.rpartition("/")[2] for arn in signing if arn)),
        wait=timedelta(seconds=options.wait),
    )
    _refuse_what_is_known(job, catalog, named_run=bool(options.run_id))
    with step(progress, "Starting Spark") as step_tell:
        spark = session(
            "deltaic usage", S3Access.from_environment(), brief=True, memory=options.memory, report=step_tell
        )
    summary = collect(spark, job, catalog, facts, progress)
    tell(list(_table(summary)), {"event": "done", **asdict(summary)})


def _refuse_what_is_known(job: Job, catalog: Catalog, *, named_run: bool) -> None:
    """Say before Spark starts what is not there, and who writes the table; a run with a name may be a repetition."""
    places = Places()
    told = [places.absent_bucket(job.target)]
    if not (named_run and places.absent_table(job.target) is None):
        told += map(places.absent_source, [*job.requests, *job.fetches])
    if missing := [message for message in told if message]:
        raise NotFound("; ".join(missing))
    if job.entry is not None:
        catalog.check(job.entry)
    catalog.require_free(job.target, job.wait)


def _table(summary: Summary) -> Iterator[str]:
    yield f"run          {summary.run_id}"
    yield f"table        {summary.location}"
    yield f"version      {summary.version}{' (repeated)' if summary.repeated else ''}"
    for name, lines in (("requests", summary.request_lines), ("fetches", summary.fetch_lines)):
        if lines is not None:
            yield f"{f'log of {name}':<12} {lines.understood:,} lines, {lines.others:,} of something else"
            if lines.malformed:
                yield f"             {lines.malformed:,} lines could not be read, as in {lines.malformed_in}"
    if not summary.repeated:
        yield f"requests     {summary.requests:,} of {summary.recipients:,} recipients"
        explained = f"{summary.explained:,} led back to one request, {summary.unexplained:,} to none"
        yield f"fetches      {summary.fetches:,}, {summary.bytes_sent:,} bytes; {explained}"
    yield f"time         {summary.seconds:.1f} s"


if __name__ == "__main__":
    sys.exit(main())
