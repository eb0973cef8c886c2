"""Job that maintains a Delta table: runs OPTIMIZE, writes a checkpoint, and deletes files that no reader needs."""

import argparse
import sys
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import timedelta
from functools import partial

from deltaic.delta.segment import find_segment
from deltaic.settings import settings
from deltaic_terminal.progress import Progress, step

from deltaic_pipeline.arguments import parser
from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.job_command import Report, run_command
from deltaic_pipeline.maintenance.maintenance_job import (
    CHECKPOINT_AFTER,
    MaintenanceContext,
    MaintenanceJob,
    MaintenanceSummary,
    days_text,
    files_text,
    maintain,
    plan,
)
from deltaic_pipeline.maintenance.optimize import missing_v2_properties
from deltaic_pipeline.maintenance.retention import find_entries, stream_position
from deltaic_pipeline.maintenance.sorted_checkpoint.checkpoint_writer import LEAST_FILES
from deltaic_pipeline.spark.session import session
from deltaic_pipeline.spark.storage_access import S3Access
from deltaic_pipeline.table.catalog_entry import connect
from deltaic_pipeline.table.s3_folder import S3Folder
from deltaic_pipeline.table.sources import catalog_location


def job_from(options: argparse.Namespace) -> MaintenanceJob:
    """Return the maintenance job for the options of a command line."""
    after = CHECKPOINT_AFTER if options.checkpoint_after is None else options.checkpoint_after
    if after < 1:
        raise PipelineError(f"--checkpoint-after is {after}, but must be at least 1. Use --no-checkpoint for none.")
    return MaintenanceJob(
        location=catalog_location(options.location),
        run_id=options.run_id or uuid.uuid4().hex,
        checkpoint_after=after if options.checkpoint else None,
        sort_from=LEAST_FILES if options.sort else None,
        v2_checkpoints=options.v2_checkpoints,
        optimize=options.optimize,
        zorder_by=tuple(options.zorder_by),
        vacuum=options.vacuum,
        keep=None if options.keep is None else timedelta(days=options.keep),
        url_ttl=settings().url_ttl if options.url_ttl is None else timedelta(seconds=options.url_ttl),
        streams=tuple(options.stream_checkpoint),
        wait=timedelta(seconds=options.wait),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job that the command line describes and return the exit code."""
    options = parser("maintain").parse_args(arguments)
    return run_command(options, partial(_run, options), "completed steps stay; run the same command to continue")


def _run(options: argparse.Namespace, progress: Progress, report: Report) -> None:
    job, access = job_from(options), S3Access.from_environment()
    catalog = connect(options.catalog)
    context = MaintenanceContext(
        lambda: find_entries(catalog.admin, job.location),
        S3Folder(job.location, access),
        lambda checkpoint, table_id: stream_position(checkpoint, table_id, access),
    )
    if options.dry_run:
        with step(progress, "Reading the log, the catalog and the folder"):
            summary = plan(job, context)
        report(list(_plan_lines(summary, job)), {"event": "plan", **asdict(summary)})
        return
    catalog.require_free(job.location, job.wait)
    find_segment(context.folder.store)  # raises before Spark starts if there is no table
    with step(progress, "Starting Spark") as report_progress:
        spark = session("deltaic maintain", access, memory=options.memory, report=report_progress)
    summary = maintain(spark, job, catalog, context, progress)
    report(list(_summary_lines(summary)), {"event": "done", **asdict(summary)})


def _plan_lines(summary: MaintenanceSummary, job: MaintenanceJob) -> Iterator[str]:
    now = summary.before
    yield f"{summary.location}: version {now.version}, {files_text(now.files)}"
    for name, value in summary.retention.protection.items():
        yield f"property: {name} = {value}, so that no writer deletes commits that readers need"
    for name, value in missing_v2_properties(now.configuration).items() if job.v2_checkpoints else ():
        yield f"property: {name} = {value}, for v2 checkpoints, which old readers cannot read"
    if job.optimize:
        if job.zorder_by or now.clustered:
            order = f"Z-order by {', '.join(job.zorder_by)}" if job.zorder_by else "the table's clustering"
            yield f"optimize: at most {files_text(now.files)}, by {order}"
        else:
            yield f"optimize: at most {files_text(now.small)}"
    if job.checkpoint_after is not None:
        last = "the log has none" if now.checkpoint is None else f"the last one is of version {now.checkpoint}"
        due = "written" if now.commits >= job.checkpoint_after else "not due"
        yield f"checkpoint: {due}, {last}, {now.commits:,} commits since"
    yield from _vacuum_lines(summary, "would be deleted")


def _summary_lines(summary: MaintenanceSummary) -> Iterator[str]:
    before, after = summary.before, summary.after
    yield f"run          {summary.run_id}"
    yield f"table        {summary.location}"
    yield f"version      {after.version} (was {before.version})"
    yield f"files        {files_text(after.files)} (was {files_text(before.files)})"
    yield f"log          {after.commits:,} commits after the checkpoint (was {before.commits:,})"
    listed = f"{after.log_objects:,} objects listed (was {before.requests:,}, {before.log_objects:,})"
    yield f"to read all  {after.requests:,} requests, {listed}"
    if summary.optimized is not None:
        done = summary.optimized
        yield f"optimize     {done.skipped or f'{done.removed:,} files became {done.added:,}'}"
    yield from _vacuum_lines(summary, "deleted")
    yield f"time         {summary.seconds:.1f} s"


def _vacuum_lines(summary: MaintenanceSummary, verb: str) -> Iterator[str]:
    yield from summary.retention.lines()
    if summary.files is not None:
        yield f"{verb}: {files_text(summary.files.unneeded)}"
        yield f"kept for readers of older versions and changes: {files_text(summary.files.kept)}"
        window = days_text(summary.retention.window)
        yield f"kept because they are younger than {window}: {files_text(summary.files.young)}"


if __name__ == "__main__":
    sys.exit(main())
