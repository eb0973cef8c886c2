"""Job that merges requests (logs of the functions) and downloads (S3 access logs) into the usage table."""

import argparse
import sys
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from importlib.util import find_spec

from deltaic.errors import NotFound
from deltaic.settings import settings
from deltaic_terminal.progress import Progress, step

from deltaic_pipeline.arguments import parser
from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.job_command import Report, resume_hint, run_command
from deltaic_pipeline.spark.session import session
from deltaic_pipeline.spark.storage_access import S3Access
from deltaic_pipeline.table.catalog_entry import JobCatalog, connect, entry_from
from deltaic_pipeline.table.location_checks import LocationChecks
from deltaic_pipeline.table.sources import catalog_location
from deltaic_pipeline.usage_log.collection import UsageJob, UsageSummary, catalog_facts, collect
from deltaic_pipeline.usage_log.local_collection import collect_locally

MOST_LINES = 10_000_000
"""Number of lines of one run up to which this machine alone, without Spark, is fast enough."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job that the command line describes and return the exit code."""
    line = parser("usage")
    options = line.parse_args(arguments)
    if not (options.requests and options.fetches and options.to):
        line.error("--requests, --fetches and --to are required: the locations of the logs and of the table")
    run_id = options.run_id or uuid.uuid4().hex
    return run_command(options, partial(_run, options, run_id), resume_hint(run_id))


def _run(options: argparse.Namespace, run_id: str, progress: Progress, report: Report) -> None:
    catalog, target = connect(options.catalog), catalog_location(options.to)
    with step(progress, "Reading the catalog") as report_progress:
        facts = catalog_facts(catalog.admin)
        report_progress(f"{len(facts.recipients):,} recipients, {len(facts.tables):,} locations")
    if not target.startswith("s3://"):
        raise PipelineError(f"--to {options.to} is not a location in S3. Write it as s3://bucket/folder.")
    signing = [settings().signing_role_arn, *(storage.role_arn for storage in catalog.admin.storages.list())]
    job = UsageJob(
        requests=tuple(options.requests),
        fetches=tuple(options.fetches),
        target=target,
        run_id=run_id,
        entry=entry_from(options),
        roles=tuple(options.role or (arn.rpartition("/")[2] for arn in signing if arn)),
        wait=timedelta(seconds=options.wait),
    )
    _check_before_start(job, catalog, has_run_id=bool(options.run_id))
    if options.spark or find_spec("duckdb") is None:  # the package for clusters does not contain it
        with step(progress, "Starting Spark") as report_progress:
            spark = session(
                "deltaic usage", S3Access.from_environment(), brief=True, memory=options.memory, report=report_progress
            )
        summary = collect(spark, job, catalog, facts, progress)
    else:
        summary = collect_locally(job, catalog, facts, progress)
    report(list(_summary_lines(summary)), {"event": "done", **asdict(summary)})


def _check_before_start(job: UsageJob, catalog: JobCatalog, *, has_run_id: bool) -> None:
    """Check locations and lease before the logs are read; a repeated run id does not need the logs any more."""
    checks = LocationChecks()
    messages = [checks.missing_bucket(job.target)]
    if not (has_run_id and checks.missing_table(job.target) is None):
        messages += map(checks.missing_source, [*job.requests, *job.fetches])
    if missing := [message for message in messages if message]:
        raise NotFound("; ".join(missing))
    if job.entry is not None:
        catalog.check(job.entry)
    catalog.require_free(job.target, job.wait)


def _summary_lines(summary: UsageSummary) -> Iterator[str]:
    yield f"run          {summary.run_id}"
    yield f"table        {summary.location}"
    yield f"version      {summary.version}{' (repeated)' if summary.repeated else ''}"
    for name, lines in (("requests", summary.request_lines), ("fetches", summary.fetch_lines)):
        if lines is not None:
            yield f"{f'log of {name}':<12} {lines.understood:,} lines, {lines.others:,} other lines"
            if lines.malformed:
                yield f"             {lines.malformed:,} malformed lines, for example in {lines.malformed_in}"
    if not summary.repeated:
        yield f"requests     {summary.requests:,} of {summary.recipients:,} recipients"
        explained = f"{summary.explained:,} attributed to one request, {summary.unexplained:,} to none"
        yield f"fetches      {summary.fetches:,}, {summary.bytes_sent:,} bytes; {explained}"
    yield f"time         {summary.seconds:.1f} s"
    logs = [lines for lines in (summary.request_lines, summary.fetch_lines) if lines is not None]
    total = sum(lines.understood + lines.malformed + lines.others for lines in logs)
    if summary.engine == "local" and total > MOST_LINES:
        yield f"next         the logs have more than {MOST_LINES:,} lines: use --spark, or --on emr"


if __name__ == "__main__":
    sys.exit(main())
