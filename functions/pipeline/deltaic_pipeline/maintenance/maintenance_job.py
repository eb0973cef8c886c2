"""One table's maintenance: leases and steps, what is kept for whom, and what came of it."""

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
from deltaic_pipeline.maintenance.optimize import Optimized
from deltaic_pipeline.maintenance.retention import Entries, Reader, StreamPosition, readers, window
from deltaic_pipeline.maintenance.sorted_checkpoint.checkpoint_writer import (
    LEAST_FILES,
    NotSorted,
    has_manifest,
    sort_checkpoint,
)
from deltaic_pipeline.maintenance.table_stats import Survey, survey
from deltaic_pipeline.maintenance.vacuum import Count, Sorted, needed, unneeded
from deltaic_pipeline.spark.task_progress import tasks_shown
from deltaic_pipeline.table.catalog_entry import Catalog
from deltaic_pipeline.table.leased_run import Attempt, leased_run
from deltaic_pipeline.table.s3_folder import S3Folder
from deltaic_pipeline.table.table_properties import set_properties

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHECKPOINT_AFTER = 10
"""Commits; Delta's own interval."""


@dataclass(frozen=True, slots=True)
class Job:
    """One maintenance of one table."""

    location: str
    run_id: str
    """Names this run: repeated with the same one, OPTIMIZE writes nothing twice."""

    checkpoint_after: int | None = CHECKPOINT_AFTER
    """A checkpoint is written when as many commits came after the last one; None: never."""

    sort_from: int | None = LEAST_FILES
    """A v2 checkpoint of as many files is put in order by partition and clustering; None: never."""

    v2_checkpoints: bool = False
    """The table gets v2 checkpoints from now on, if it has not: readers that do not know them can read it no more."""

    optimize: bool = True
    zorder_by: Sequence[str] = ()
    vacuum: bool = True
    keep: timedelta | None = None
    url_ttl: timedelta = timedelta(hours=1)
    streams: Sequence[str] = ()
    wait: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class Means:
    """What a job looks at a table with."""

    entries: Callable[[], Entries]
    folder: S3Folder
    position: Callable[[str, str], StreamPosition]
    """From a stream's checkpoint folder and the table's id to where the stream is."""

    clock: Callable[[], float] = time.time


@dataclass(frozen=True, slots=True)
class Retention:
    """For whom what is kept."""

    window: timedelta
    because: str
    older_than: int
    """The window's beginning, in milliseconds since the epoch."""

    readers: Sequence[Reader]
    clones: Sequence[str]
    """Tables that may read files of this one's folder, so that none is deleted."""

    protection: dict[str, str]

    def lines(self) -> Iterator[str]:
        """Say it to people."""
        yield f"window: {days(self.window)} ({self.because})"
        yield from (f"kept: {reader.why}" for reader in self.readers)
        yield from (f"nothing is deleted: {name} may read files of this folder" for name in self.clones)


@dataclass(slots=True)
class Summary:
    """What a run did, or would do."""

    run_id: str
    location: str
    before: Survey
    after: Survey
    retention: Retention
    files: Sorted | None = None
    """None: nothing was looked for."""

    optimized: Optimized | None = None
    checkpointed: bool = False
    seconds: float = 0.0


def maintain(spark: "SparkSession", job: Job, catalog: Catalog, means: Means, progress: Progress) -> Summary:
    """Maintain one table, under its lease from the first look to the last deletion.

    Safe to repeat at any point. Raises `Conflict` when another writer holds the table, `LeaseLost` when the lease was
    lost on the way, `PipelineError` for what Spark or the store refuses, other `DeltaicError`s for a log that cannot
    be read: then nothing is deleted.
    """
    began, store = time.monotonic(), means.folder.store
    with leased_run(spark, catalog, [job.location], job.run_id, progress, wait=job.wait) as attempt:
        with step(progress, "Reading the log") as tell:
            before = survey(store)
            retention = _retention(job, means, before)
            tell(f"version {before.version}, {counted(before.files)}")
        summary = Summary(job.run_id, job.location, before, before, retention)
        if retention.protection:
            with step(progress, "Keeping the log for its readers") as tell, attempt.refusals():
                _set(retention.protection, job, attempt, tell)
        if job.v2_checkpoints and not optimize.has_v2_checkpoints(before.configuration):
            with step(progress, "Choosing v2 checkpoints") as tell, attempt.refusals():
                _set(optimize.V2_CHECKPOINTS, job, attempt, tell)
        if job.optimize:
            summary.optimized = _optimize(job, attempt, progress)
        summary.checkpointed = _checkpoint(job, means, attempt, progress)
        if job.sort_from is not None and job.checkpoint_after is not None:
            _sort(job, means, attempt, progress, job.sort_from)
        if job.vacuum:
            summary.retention, summary.files = vacuum(job, means, progress, attempt.confirm)
        summary.after = survey(store)
    summary.seconds = time.monotonic() - began
    return summary


def vacuum(job: Job, means: Means, progress: Progress, confirm: Callable[[], None]) -> tuple[Retention, Sorted | None]:
    """Delete what nobody needs by the log and the catalog as they are now; return for whom what was kept.

    None: nothing was looked for, because another table may read files here. `confirm` is called before each request
    that deletes, and raises to end it. What was deleted before stays deleted: a repetition deletes the rest.
    """
    with step(progress, "Looking for files that nobody needs") as tell:
        retention = _retention(job, means, survey(means.folder.store))
        if retention.clones:
            tell("none is deleted")
            return retention, None
        stays = needed(means.folder.store, TableLocations.parse(job.location), retention.readers)
    with (
        step(progress, "Deleting files that nobody needs") as tell,
        unneeded(means.folder, stays, retention.older_than) as (files, names),
    ):
        done = 0
        for batch in names:
            confirm()
            tell(f"{done:,} of {files.unneeded.files:,} files")
            means.folder.delete(batch)
            done += len(batch)
        confirm()
        tell(f"{done:,} of {files.unneeded.files:,} files")
    return retention, files


def plan(job: Job, means: Means) -> Summary:
    """Return what `maintain` would do now, without Spark, without the lease, and without a change."""
    began, store = time.monotonic(), means.folder.store
    now = survey(store)
    summary = Summary(job.run_id, job.location, now, now, _retention(job, means, now))
    if job.vacuum and not summary.retention.clones:
        stays = needed(store, TableLocations.parse(job.location), summary.retention.readers)
        with unneeded(means.folder, stays, summary.retention.older_than) as (summary.files, _):
            pass
    summary.seconds = time.monotonic() - began
    return summary


def _retention(job: Job, means: Means, now: Survey) -> Retention:
    moment = int(means.clock() * 1000)
    length, because = window(job.url_ttl, now.configuration, job.keep)
    older_than = moment - length // timedelta(milliseconds=1)
    entries = means.entries()
    streams = [means.position(checkpoint, now.table_id) for checkpoint in job.streams]
    wanted = list(readers(DeltaLog(means.folder.store), entries, streams, older_than, moment))
    clones = [table.title for table in entries.clones]
    return Retention(
        length, because, older_than, wanted, clones, optimize.protection(now.configuration, wanted, length)
    )


def _optimize(job: Job, attempt: Attempt, progress: Progress) -> Optimized:
    with step(progress, "Joining small files") as tell, attempt.refusals():
        with tasks_shown(attempt.spark, attempt.group, tell):
            done = optimize.optimize(attempt.spark, job.location, job.zorder_by, job.run_id)
        attempt.confirm()
        tell(done.skipped or f"{done.removed:,} files became {done.added:,}")
    return done


def _set(properties: dict[str, str], job: Job, attempt: Attempt, tell: Callable[[str], None]) -> None:
    with optimize.marked(attempt.spark, job.run_id):
        set_properties(attempt.spark, job.location, properties)
    attempt.confirm()
    tell(", ".join(f"{name} = {value}" for name, value in properties.items()))


def _checkpoint(job: Job, means: Means, attempt: Attempt, progress: Progress) -> bool:
    now = survey(means.folder.store)
    if job.checkpoint_after is None or now.commits < job.checkpoint_after:
        return False
    with step(progress, "Writing a checkpoint") as tell, attempt.refusals():
        optimize.checkpoint(attempt.spark, job.location, v2=optimize.has_v2_checkpoints(now.configuration))
        attempt.confirm()
        if survey(means.folder.store).checkpoint != now.version:
            raise PipelineError(f"Spark left no checkpoint of version {now.version}; what it printed may say why.")
        tell(f"version {now.version}, {now.commits:,} commits after the last one")
    return True


def _sort(job: Job, means: Means, attempt: Attempt, progress: Progress, least_files: int) -> None:
    """Put the latest checkpoint in order, whoever wrote it: Spark does at every tenth version by itself.

    It stays as it is where there is nothing to win, and where it cannot be sorted: it is right all the same.
    """
    store = means.folder.store
    checkpoint = find_segment(store).checkpoint
    if checkpoint is None or not has_manifest(checkpoint):
        return
    with step(progress, "Sorting the checkpoint") as tell:
        try:
            done = sort_checkpoint(
                store, means.folder.writer, checkpoint, job.zorder_by, attempt.confirm, least_files=least_files
            )
        except NotSorted as reason:
            tell(reason.message)
        else:
            tell(f"{done.num_adds:,} files in {done.sidecars:,} sidecars" if done else "nothing to win")


def counted(count: Count) -> str:
    """Say how many files, and how large."""
    return f"{count.files:,} files ({count.bytes:,} bytes)"


def days(duration: timedelta) -> str:
    """Say a duration in days."""
    return f"{duration / timedelta(days=1):.3g} days"
