"""Maintain one table under its writer lease: run each step, keep files for readers, and report the results."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from deltaic.delta.log import DeltaLog
from deltaic.delta.segment import find_segment
from deltaic.storage.locations import TableLocations
from deltaic_terminal.progress import Progress, step

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.maintenance import optimize
from deltaic_pipeline.maintenance.optimize import OptimizeResult
from deltaic_pipeline.maintenance.retention import LocationEntries, Reader, StreamPosition, readers, window
from deltaic_pipeline.maintenance.sorted_checkpoint.checkpoint_writer import (
    LEAST_FILES,
    NotSorted,
    has_manifest,
    sort_checkpoint,
)
from deltaic_pipeline.maintenance.table_stats import TableStats, read_table_stats
from deltaic_pipeline.maintenance.vacuum import Count, FileCounts, find_needed, list_unneeded
from deltaic_pipeline.spark.task_progress import show_tasks
from deltaic_pipeline.table.catalog_entry import JobCatalog
from deltaic_pipeline.table.leased_run import Attempt, leased_run
from deltaic_pipeline.table.s3_folder import S3Folder
from deltaic_pipeline.table.table_properties import set_properties

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHECKPOINT_AFTER = 10
"""Number of commits between checkpoints, the same as Delta's default."""


@dataclass(frozen=True, slots=True)
class MaintenanceJob:
    """Options for the maintenance of one table."""

    location: str
    run_id: str
    """Id of the run; OPTIMIZE runs only once for an id."""

    checkpoint_after: int | None = CHECKPOINT_AFTER
    """Minimum number of commits since the latest checkpoint for writing a new one; None: never."""

    sort_from: int | None = LEAST_FILES
    """Minimum number of files for sorting a v2 checkpoint by partition and clustering columns; None: never."""

    v2_checkpoints: bool = False
    """Enable v2 checkpoints for the table; readers without support for them can no longer read it."""

    optimize: bool = True
    zorder_by: Sequence[str] = ()
    vacuum: bool = True
    keep: timedelta | None = None
    url_ttl: timedelta = timedelta(hours=1)
    streams: Sequence[str] = ()
    wait: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class MaintenanceContext:
    """Clients and functions by which the job reads the table, the catalog and checkpoints of streams."""

    entries: Callable[[], LocationEntries]
    folder: S3Folder
    position: Callable[[str, str], StreamPosition]
    """Function that returns the position of a stream, given its checkpoint folder and the table's id."""

    clock: Callable[[], float] = time.time


@dataclass(frozen=True, slots=True)
class Retention:
    """Readers of a table, and how long files and commits are kept for them (`window`)."""

    window: timedelta
    because: str
    older_than: int
    """Start of the retention window, in milliseconds since the epoch."""

    readers: Sequence[Reader]
    clones: Sequence[str]
    """Names of other tables that can read files in this table's folder, so that no file is deleted."""

    protection: dict[str, str]

    def lines(self) -> Iterator[str]:
        """Yield the retention as lines of text for the terminal."""
        yield f"window: {days_text(self.window)} ({self.because})"
        yield from (f"kept: {reader.why}" for reader in self.readers)
        yield from (f"nothing is deleted: {name} can read files of this folder" for name in self.clones)


@dataclass(slots=True)
class MaintenanceSummary:
    """Result of a maintenance run, or plan of a dry run."""

    run_id: str
    location: str
    before: TableStats
    after: TableStats
    retention: Retention
    files: FileCounts | None = None
    """Counts of files by whether they are needed; None if the run did not list the folder."""

    optimized: OptimizeResult | None = None
    checkpointed: bool = False
    seconds: float = 0.0


def maintain(
    spark: "SparkSession", job: MaintenanceJob, catalog: JobCatalog, context: MaintenanceContext, progress: Progress
) -> MaintenanceSummary:
    """Maintain one table, under its writer lease from the first read to the last deletion.

    Safe to repeat after any failure. Raises `Conflict` if another writer holds the lease, `LeaseLost`, `PipelineError`
    for errors of Spark or S3, and other `DeltaicError`s for an unreadable log, before anything is deleted.
    """
    began, store = time.monotonic(), context.folder.store
    with leased_run(spark, catalog, [job.location], job.run_id, progress, wait=job.wait) as attempt:
        with step(progress, "Reading the log") as report:
            before = read_table_stats(store)
            retention = _retention(job, context, before)
            report(f"version {before.version}, {files_text(before.files)}")
        summary = MaintenanceSummary(job.run_id, job.location, before, before, retention)
        if retention.protection:
            with step(progress, "Protecting the log for its readers") as report, attempt.refusals():
                _set(retention.protection, job, attempt, report)
        if job.v2_checkpoints and (missing := optimize.missing_v2_properties(before.configuration)):
            with step(progress, "Enabling v2 checkpoints") as report, attempt.refusals():
                _set(missing, job, attempt, report)
        if job.optimize:
            summary.optimized = _optimize(job, attempt, progress)
        summary.checkpointed = _checkpoint(job, context, attempt, progress)
        if job.sort_from is not None and job.checkpoint_after is not None:
            _sort(job, context, attempt, progress, job.sort_from)
        if job.vacuum:
            summary.retention, summary.files = vacuum(job, context, progress, attempt.confirm)
        summary.after = read_table_stats(store)
    summary.seconds = time.monotonic() - began
    return summary


def vacuum(
    job: MaintenanceJob, context: MaintenanceContext, progress: Progress, confirm: Callable[[], None]
) -> tuple[Retention, FileCounts | None]:
    """Delete the files that no reader needs, by the current log and catalog; return the retention and the counts.

    The counts are None if another table can read files in this folder: nothing is deleted then. `confirm` is called
    before each request that deletes; an exception from it stops the deletion. A repetition deletes the remaining files.
    """
    with step(progress, "Looking for files that no reader needs") as report:
        retention = _retention(job, context, read_table_stats(context.folder.store))
        if retention.clones:
            report("none is deleted")
            return retention, None
        needed_files = find_needed(context.folder.store, TableLocations.parse(job.location), retention.readers)
    with (
        step(progress, "Deleting files that no reader needs") as report,
        list_unneeded(context.folder, needed_files, retention.older_than) as (files, names),
    ):
        deleted = 0
        for batch in names:
            confirm()
            report(f"{deleted:,} of {files.unneeded.files:,} files")
            context.folder.delete(batch)
            deleted += len(batch)
        confirm()
        report(f"{deleted:,} of {files.unneeded.files:,} files")
    return retention, files


def plan(job: MaintenanceJob, context: MaintenanceContext) -> MaintenanceSummary:
    """Return a plan of what `maintain` would do now; needs no Spark and no lease, and changes nothing."""
    began, store = time.monotonic(), context.folder.store
    stats = read_table_stats(store)
    summary = MaintenanceSummary(job.run_id, job.location, stats, stats, _retention(job, context, stats))
    if job.vacuum and not summary.retention.clones:
        needed_files = find_needed(store, TableLocations.parse(job.location), summary.retention.readers)
        with list_unneeded(context.folder, needed_files, summary.retention.older_than) as (summary.files, _):
            pass
    summary.seconds = time.monotonic() - began
    return summary


def _retention(job: MaintenanceJob, context: MaintenanceContext, stats: TableStats) -> Retention:
    now_ms = int(context.clock() * 1000)
    window_length, because = window(job.url_ttl, stats.configuration, job.keep)
    older_than = now_ms - window_length // timedelta(milliseconds=1)
    entries = context.entries()
    streams = [context.position(checkpoint, stats.table_id) for checkpoint in job.streams]
    table_readers = list(readers(DeltaLog(context.folder.store), entries, streams, older_than, now_ms))
    clones = [table.title for table in entries.clones]
    return Retention(
        window_length,
        because,
        older_than,
        table_readers,
        clones,
        optimize.protection(stats.configuration, table_readers, window_length),
    )


def _optimize(job: MaintenanceJob, attempt: Attempt, progress: Progress) -> OptimizeResult:
    with step(progress, "Compacting small files") as report, attempt.refusals():
        with show_tasks(attempt.spark, attempt.group, report):
            result = optimize.optimize(attempt.spark, job.location, job.zorder_by, job.run_id)
        attempt.confirm()
        report(result.skipped or f"{result.removed:,} files became {result.added:,}")
    return result


def _set(properties: dict[str, str], job: MaintenanceJob, attempt: Attempt, report: Callable[[str], None]) -> None:
    with optimize.mark_commits(attempt.spark, job.run_id):
        set_properties(attempt.spark, job.location, properties)
    attempt.confirm()
    report(", ".join(f"{name} = {value}" for name, value in properties.items()))


def _checkpoint(job: MaintenanceJob, context: MaintenanceContext, attempt: Attempt, progress: Progress) -> bool:
    stats = read_table_stats(context.folder.store)
    if job.checkpoint_after is None or stats.commits < job.checkpoint_after:
        return False
    with step(progress, "Writing a checkpoint") as report, attempt.refusals():
        optimize.checkpoint(attempt.spark, job.location, v2=optimize.has_v2_checkpoints(stats.configuration))
        attempt.confirm()
        if read_table_stats(context.folder.store).checkpoint != stats.version:
            raise PipelineError(f"Spark wrote no checkpoint of version {stats.version}. See its output above.")
        report(f"version {stats.version}, {stats.commits:,} commits after the last one")
    return True


def _sort(
    job: MaintenanceJob, context: MaintenanceContext, attempt: Attempt, progress: Progress, least_files: int
) -> None:
    """Sort the latest checkpoint of any writer; only report failures, because an unsorted checkpoint is correct too."""
    store = context.folder.store
    checkpoint = find_segment(store).checkpoint
    if checkpoint is None or not has_manifest(checkpoint):
        return
    with step(progress, "Sorting the checkpoint") as report:
        try:
            result = sort_checkpoint(
                store, context.folder.writer, checkpoint, job.zorder_by, attempt.confirm, least_files=least_files
            )
        except NotSorted as reason:
            report(reason.message)
        else:
            report(f"{result.num_adds:,} files in {result.sidecars:,} sidecars" if result else "not needed")


def files_text(count: Count) -> str:
    """Format a count, such as `3 files (1,024 bytes)`."""
    return f"{count.files:,} files ({count.bytes:,} bytes)"


def days_text(duration: timedelta) -> str:
    """Format a duration, such as `1.5 days`."""
    return f"{duration / timedelta(days=1):.3g} days"
