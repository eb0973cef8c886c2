"""The job that keeps a table cheap to read: OPTIMIZE, a checkpoint, and the deletion of what nobody needs any more."""

import argparse
import sys
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import timedelta

from deltaic.catalog.admin import CatalogAdmin
from deltaic.catalog.dynamo import Dynamo
from deltaic.delta.segment import find_segment
from deltaic.settings import settings

from deltaic_pipeline.command import Tell, conduct, show_values_option
from deltaic_pipeline.failures import EXIT_CODES, PipelineError
from deltaic_pipeline.maintenance.job import CHECKPOINT_AFTER, Job, Means, Summary, counted, days, maintain, plan
from deltaic_pipeline.maintenance.optimize import has_v2_checkpoints
from deltaic_pipeline.maintenance.positions import position
from deltaic_pipeline.maintenance.retention import entries_of
from deltaic_pipeline.maintenance.sorted_checkpoint.making import LEAST_FILES
from deltaic_pipeline.spark.access import S3Access
from deltaic_pipeline.spark.progress import Progress, step
from deltaic_pipeline.spark.session import session
from deltaic_pipeline.table.catalog_entry import connect
from deltaic_pipeline.table.s3_folder import S3Folder
from deltaic_pipeline.table.sources import catalog_location

EXAMPLES = """examples:
  # what would be done, and what is kept for whom
  python -m deltaic_pipeline.maintain s3://bucket/vaccine/patients --dry-run

  # every day
  python -m deltaic_pipeline.maintain s3://bucket/vaccine/patients --run-id 2026-11-22 --wait 600

  # rows that are read together lie together; nothing is deleted
  python -m deltaic_pipeline.maintain s3://bucket/vaccine/patients --zorder-by patient_id --no-vacuum

  # many files: v2 checkpoints from now on, in order by partition and clustering
  python -m deltaic_pipeline.maintain s3://bucket/vaccine/patients --v2-checkpoints

A file is deleted when no version that somebody may read has it: not the latest one, not one that was the latest within
the window (delta.deletedFileRetentionDuration, and at least as long as page tokens and their URLs live), none of a
history that is shared, none that a stream named by --stream-checkpoint has yet to read. Commits are never deleted.
AWS is found through AWS_ENDPOINT_URL, AWS_PROFILE, AWS_REGION and keys, as by any AWS tool. A run that was killed is
started again, and goes on.
"""


def parser() -> argparse.ArgumentParser:
    """Return the command line of the job."""
    line = argparse.ArgumentParser(
        prog="python -m deltaic_pipeline.maintain",
        description="Keep a table cheap to read: join files, write a checkpoint, delete what nobody needs.",
        epilog=EXAMPLES + EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    line.add_argument("location", metavar="S3_URL", help="location of the Delta table")
    line.add_argument("--dry-run", action="store_true", help="show what would be done and what is kept; change nothing")
    line.add_argument("--no-optimize", action="store_true", help="join no files")
    line.add_argument(
        "--zorder-by", action="append", default=[], metavar="COLUMN", help="not for clustered tables, which say it"
    )
    line.add_argument("--no-checkpoint", action="store_true", help="write no checkpoint")
    line.add_argument(
        "--checkpoint-after", type=int, default=CHECKPOINT_AFTER, metavar="N", help="commits after the last one (10)"
    )
    line.add_argument("--no-sort", action="store_true", help="leave v2 checkpoints as Spark writes them")
    line.add_argument(
        "--v2-checkpoints", action="store_true", help="choose them for the table; old readers cannot read it any more"
    )
    line.add_argument("--no-vacuum", action="store_true", help="delete nothing")
    line.add_argument("--keep", type=float, metavar="DAYS", help="versions stay readable at least as long")
    line.add_argument(
        "--url-ttl", type=int, metavar="SECONDS", help="life of the server's URLs (default: URL_TTL_SECONDS, or 3600)"
    )
    line.add_argument(
        "--stream-checkpoint", action="append", default=[], metavar="PATH", help="of a stream that reads the table"
    )
    line.add_argument("--run-id", default="", help="name of this run: a repetition joins nothing twice")
    line.add_argument("--wait", type=float, default=0.0, metavar="SECONDS", help="wait for another writer of the table")
    line.add_argument("--catalog", metavar="NAME", help="DynamoDB table of the catalog (default: CATALOG_TABLE)")
    line.add_argument("--memory", default="", metavar="SIZE", help="Spark's heap on this machine, such as 4g (1g)")
    line.add_argument("--json", action="store_true", help="a JSON object a line on stdout instead of text")
    show_values_option(line)
    return line


def job_of(options: argparse.Namespace) -> Job:
    """Return the job that a command line describes."""
    if options.checkpoint_after < 1:
        raise PipelineError("--checkpoint-after is 1 or more; --no-checkpoint writes none.")
    return Job(
        location=catalog_location(options.location),
        run_id=options.run_id or uuid.uuid4().hex,
        checkpoint_after=None if options.no_checkpoint else options.checkpoint_after,
        sort_from=None if options.no_sort else LEAST_FILES,
        v2_checkpoints=options.v2_checkpoints,
        optimize=not options.no_optimize,
        zorder_by=tuple(options.zorder_by),
        vacuum=not options.no_vacuum,
        keep=None if options.keep is None else timedelta(days=options.keep),
        url_ttl=settings().url_ttl if options.url_ttl is None else timedelta(seconds=options.url_ttl),
        streams=tuple(options.stream_checkpoint),
        wait=timedelta(seconds=options.wait),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job that the command line describes and return the exit code."""
    options = parser().parse_args(arguments)
    return conduct(
        lambda progress, tell: _run(options, progress, tell),
        as_json=options.json,
        show_values=options.show_values,
        stopped="what was done stays done, and the same command goes on",
    )


def _run(options: argparse.Namespace, progress: Progress, tell: Tell) -> None:
    job, access = job_of(options), S3Access.from_environment()
    names, dynamo = (options.catalog or settings().catalog_table, settings().tokens_table), Dynamo()
    admin = CatalogAdmin(*names, dynamo)
    means = Means(
        lambda: entries_of(admin, job.location),
        S3Folder(job.location, access),
        lambda checkpoint, table_id: position(checkpoint, table_id, access),
    )
    if options.dry_run:
        with step(progress, "Reading the log, the catalog and the folder"):
            found = plan(job, means)
        tell(list(_planned(found, job)), {"event": "plan", **asdict(found)})
        return
    catalog = connect(*names, dynamo)
    catalog.require_free(job.location, job.wait)
    find_segment(means.folder.store)  # or there is no table, which needs no Spark to be told
    with step(progress, "Starting Spark") as said:
        spark = session("deltaic maintain", access, memory=options.memory, report=said)
    summary = maintain(spark, job, catalog, means, progress)
    tell(list(_table(summary)), {"event": "done", **asdict(summary)})


def _planned(summary: Summary, job: Job) -> Iterator[str]:
    """Say to people what would be done."""
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
    """Return the summary for people."""
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
