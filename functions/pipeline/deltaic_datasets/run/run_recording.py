"""Records a run of a dataset: what came of it, as a row of the runs table, whether it was written or refused."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from deltaic.errors import DeltaicError
from deltaic_pipeline.failures import ExpectationFailed, PipelineError, Unfinished, exit_code
from deltaic_pipeline.spark.spark_errors import refusals
from deltaic_pipeline.spark.storage_access import S3Access
from deltaic_pipeline.table.catalog_entry import Catalog
from deltaic_pipeline.table.location_checks import Places
from deltaic_pipeline.table.run_log import append, has, transaction_of
from deltaic_pipeline.table.sources import spark_path
from deltaic_pipeline.table.table_properties import latest
from deltaic_pipeline.table.transactions import Written
from deltaic_pipeline.table.writing import UPDATED
from deltaic_terminal.progress import Progress, Step, step

from deltaic_datasets.run.expectations import Verdict
from deltaic_datasets.run.run_state import Run, Summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Recording:
    """What is known of a run so far."""

    run: Run
    location: str
    show: Progress
    spark: "SparkSession | None" = None
    summary: Summary | None = None
    phases: dict[str, float] = field(default_factory=dict)

    def progress(self, now: Step) -> None:
        """Show a step, and add its seconds to those of its phase, which its first word names."""
        if now.seconds is not None:
            phase = now.text.partition(" ")[0].lower()
            self.phases[phase] = self.phases.get(phase, 0.0) + now.seconds
        self.show(now)


@contextmanager
def recorded(run: Run, location: str, catalog: Catalog, progress: Progress) -> Iterator[Recording]:
    """Run a block and append a row of what came of it; one that is interrupted has none.

    A row that cannot be written is a step that failed, with the reason, and changes nothing else; but where it alone
    tells a later attempt that the run is done, `Unfinished` is raised.
    """
    recording = Recording(run, location, progress)
    began, started = datetime.now(UTC), time.monotonic()
    before = Places().version(run.dataset.target.location)
    failure: DeltaicError | None = None
    try:
        yield recording
    except DeltaicError as refusal:
        failure = refusal
        raise
    finally:
        if failure is not None or recording.summary is not None:
            row = _row(recording, failure, before) | {"began": began, "seconds": time.monotonic() - started}
            _append(recording, row, catalog, progress)


def found_unchanged(spark: "SparkSession", run: Run) -> Written | None:
    """Return that an earlier attempt of a run was done, and had nothing to commit, if the runs table says so.

    Raises `PipelineError` where that cannot be read: nobody would know whether the rows may still be written.
    """
    table = latest(spark, spark_path(run.dataset.target.location))
    if not run.runs or not hasattr(run.dataset.write, "keys") or int(table.version()) < 0:
        return None
    dataset, unchanged = run.dataset, str(table.metadata().id())
    mark = transaction_of(dataset.name, dataset.target.location, run.run_id, done=True, unchanged=unchanged)
    try:
        with refusals():
            found = has(spark, run.runs, mark)
    except PipelineError as refusal:
        raise PipelineError(f"the table of runs {run.runs} cannot be read: {refusal.message}") from refusal
    return Written(int(table.version()), repeated=True, metrics={}, committed=False) if found else None


def _append(recording: Recording, row: dict[str, Any], catalog: Catalog, progress: Progress) -> None:
    run, spark, summary = recording.run, recording.spark, recording.summary
    alone = summary is not None and bool(run.runs) and not summary.committed
    try:
        with step(progress, f"Recording the run in {recording.location}") as tell, refusals():
            try:
                unchanged = ""
                if spark is not None and alone:
                    unchanged = str(latest(spark, spark_path(run.dataset.target.location)).metadata().id())
                append(recording.location, row, catalog.leases, S3Access.from_environment(), spark, unchanged)
            except DeltaicError as refusal:
                tell(f"not done: {refusal.message}")
                raise
    except DeltaicError as refusal:
        if summary is not None and alone:
            missing = f"the run's row in {recording.location} ({refusal.message.rstrip('.')})"
            raise Unfinished(summary.version, [missing], f"run it again with --run-id {run.run_id}") from refusal


def _row(recording: Recording, failure: DeltaicError | None, before: int | None) -> dict[str, Any]:
    run, summary = recording.run, recording.summary
    done = summary or Summary(run.run_id, run.dataset.target.location, None, repeated=False, rows=0, seconds=0.0)
    verdicts = failure.verdicts if isinstance(failure, ExpectationFailed) else done.verdicts
    after = failure.version if isinstance(failure, Unfinished) else done.version
    counts = {"read": done.rows, "written": done.written, "changed": done.metrics.get(UPDATED, 0), **done.apart}
    known = summary is not None and not summary.repeated
    return {
        "dataset": run.dataset.name,
        "run": run.run_id,
        "location": run.dataset.target.location,
        "exit": exit_code(failure) if failure else 0,
        "message": failure.message if failure else None,
        "repeated": done.repeated,
        "version_before": before,
        "version_after": before if after is None else after,
        **{f"rows_{name}": count if known else None for name, count in counts.items()},
        "expectations": _expectations(verdicts),
        "phases": [{"phase": phase, "seconds": seconds} for phase, seconds in recording.phases.items()],
    }


def _expectations(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    return [
        {
            "name": one.name,
            "action": one.action,
            "at_most": one.at_most,
            "failing": one.failing,
            "met": not one.failing,
        }
        for one in verdicts
    ]
