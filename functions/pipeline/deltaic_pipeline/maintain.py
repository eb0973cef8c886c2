"""The job that keeps a table cheap to read: OPTIMIZE, a checkpoint, and the deletion of what nobody needs any more."""

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
from deltaic_pipeline.job_command import Tell, conduct_command
from deltaic_pipeline.maintenance.maintenance_job import (
    CHECKPOINT_AFTER,
    Job,
    Means,
    Summary,
    counted,
    days,
    maintain,
    plan,
)
from deltaic_pipeline.maintenance.optimize import has_v2_checkpoints
from deltaic_pipeline.maintenance.retention import entries_of, position
from deltaic_pipeline.maintenance.sorted_checkpoint.checkpoint_writer import LEAST_FILES
from deltaic_pipeline.spark.session import session
from deltaic_pipeline.spark.storage_access import S3Access
from deltaic_pipeline.table.catalog_entry import connect
from deltaic_pipeline.table.s3_folder import S3Folder
from deltaic_pipeline.table.sources import catalog_location


def job_of(options: argparse.Namespace) -> Job:
    """Return the job that a command line describes."""
    after = CHECKPOINT_AFTER if options.checkpoint_after is None else options.checkpoint_after
    if after < 1:
        raise PipelineError("--checkpoint-after is 1 or more; --no-checkpoint writes none.")
    return Job(
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
    return conduct_command(options, partial(_run, options), "what was done stays done, and the same command goes on")


def _run(options: argparse.Namespace, progress: Progress, tell: Tell) -> None:
    job, access = job_of(options), S3Access.from_environment()
    catalog = connect(options.catalog)
    means = Means(
        lambda: entries_of(catalog.admin, job.location),
        S3Folder(job.location, access),
        lambda checkpoint, table_id: position(checkpoint, table_id, access),
    )
    if options.dry_run:
        with step(progress, "Reading the log, the catalog and the folder"):
            found = plan(job, means)
        tell(list(_planned(found, job)), {"event": "plan", **asdict(found)})
        return
    catalog.require_free(job.location, job.wait)
    find_segment(means.folder.store)  # or there is no table, which needs no Spark to be told
    with step(progress, "Starting Spark") as said:
        spark = session("deltaic maintain", access, memory=options.memory, report=said)
    summary = maintain(spark, job, catalog, means, progress)
    tell(list(_table(summary)), {"event": "done", **asdict(summary)})


def _planned(summary: Summary, job: Job) -> Iterator[str]:
    now = summary.before
    yield f"{summary.location}: version {now.version}, {counted(now.files)}"
    for name, value in summary.retention.protection.items():
        yield f"property: {name} = {value}, so that no writer deletes commits that are needed"
    if job.v2_checkpoints and not has_v2_checkpoints(now.configuration):
        yield "property: delta.checkpointPolicy = v2, which readers without v2 checkpoints cannot read"
    if job.optimize:
        if job.zorder_by or now.clustered:
            order = f"Z-order by {', '.join(job.zorder_by)}" if job.zorder_by else "the table's clustering"
            yield f"optimize: at most {counted(now.files)}, by {order}"
        else:
            yield f"optimize: at most {counted(now.small)}"
    if job.checkpoint_after is not None:
        last = "the log has none" if now.checkpoint is None else f"the last one is of version {now.checkpoint}"
        due = "written" if now.commits >= job.checkpoint_after else "not due"
        yield f"checkpoint: {due}, {last}, {now.commits:,} commits since"
    yield from _vacuumed(summary, "would be deleted")


def _table(summary: Summary) -> Iterator[str]:
    before, after = summary.before, summary.after
    yield f"run          {summary.run_id}"
    yield f"table        {summary.location}"
    yield f"version      {after.version} (was {before.version})"
    yield f"files        {counted(after.files)} (was {counted(before.files)})"
    yield f"log          {after.commits:,} commits after the checkpoint (was {before.commits:,})"
    listed = f"{after.log_objects:,} objects listed (was {before.requests:,}, {before.log_objects:,})"
    yield f"to read all  {after.requests:,} requests, {listed}"
    if summary.optimized is not None:
        done = summary.optimized
        yield f"optimize     {done.skipped or f'{done.removed:,} files became {done.added:,}'}"
    yield from _vacuumed(summary, "deleted")
    yield f"time         {summary.seconds:.1f} s"


def _vacuumed(summary: Summary, word: str) -> Iterator[str]:
    yield from summary.retention.lines()
    if summary.files is not None:
        yield f"{word}: {counted(summary.files.unneeded)}"
        yield f"kept for readers of older versions and changes: {counted(summary.files.kept)}"
        yield f"kept because they are younger than {days(summary.retention.window)}: {counted(summary.files.young)}"


if __name__ == "__main__":
    sys.exit(main())
