"""Record each run of a dataset, successful or failed, as a row of the runs table."""

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
from deltaic_pipeline.table.catalog_entry import JobCatalog
from deltaic_pipeline.table.location_checks import LocationChecks
from deltaic_pipeline.table.run_log import append, has_row, transaction_of
from deltaic_pipeline.table.sources import spark_path
from deltaic_pipeline.table.table_properties import latest_snapshot
from deltaic_pipeline.table.transactions import WriteResult
from deltaic_pipeline.table.writing import UPDATED
from deltaic_terminal.progress import Progress, Step, step

from deltaic_datasets.run.expectations import ExpectationVerdict
from deltaic_datasets.run.run_state import Run, RunSummary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Recording:
    """State of a run while the run is in progress, for its row in the runs table."""

    run: Run
    location: str
    show: Progress
    spark: "SparkSession | None" = None
    summary: RunSummary | None = None
    phases: dict[str, float] = field(default_factory=dict)

    def progress(self, now: Step) -> None:
        """Show a step, and add its seconds to those of its phase, the first word of the step's text."""
        if now.seconds is not None:
            phase = now.text.partition(" ")[0].lower()
            self.phases[phase] = self.phases.get(phase, 0.0) + now.seconds
        self.show(now)


@contextmanager
def record_run(run: Run, location: str, catalog: JobCatalog, progress: Progress) -> Iterator[Recording]:
    """Run a block, then append a row with its result to the runs table; an interrupted run gets no row.

    If the row cannot be written, the reason is shown and the run still succeeds. But raises `Unfinished` if the run
    had nothing to commit, because only the row would show a later attempt that the run is done.
    """
    recording = Recording(run, location, progress)
    began, started = datetime.now(UTC), time.monotonic()
    before = LocationChecks().version(run.dataset.target.location)
    failure: DeltaicError | None = None
    try:
        yield recording
    except DeltaicError as error:
        failure = error
        raise
    finally:
        if failure is not None or recording.summary is not None:
            row = _row(recording, failure, before) | {"began": began, "seconds": time.monotonic() - started}
            _append(recording, row, catalog, progress)


def unchanged_before(spark: "SparkSession", run: Run) -> WriteResult | None:
    """Return the table's version if an earlier attempt succeeded without a commit, according to the runs table.

    Raises `PipelineError` if the runs table cannot be read, because the run might then write rows a second time.
    """
    table = latest_snapshot(spark, spark_path(run.dataset.target.location))
    if not run.runs or not hasattr(run.dataset.write, "keys") or int(table.version()) < 0:
        return None
    dataset, unchanged = run.dataset, str(table.metadata().id())
    mark = transaction_of(dataset.name, dataset.target.location, run.run_id, done=True, unchanged=unchanged)
    try:
        with refusals():
            unchanged_found = has_row(spark, run.runs, mark)
    except PipelineError as refusal:
        raise PipelineError(f"the runs table {run.runs} cannot be read: {refusal.message}") from refusal
    return WriteResult(int(table.version()), repeated=True, metrics={}, committed=False) if unchanged_found else None


def _append(recording: Recording, row: dict[str, Any], catalog: JobCatalog, progress: Progress) -> None:
    run, spark, summary = recording.run, recording.spark, recording.summary
    needs_row = summary is not None and bool(run.runs) and not summary.committed
    try:
        with step(progress, f"Recording the run in {recording.location}") as report, refusals():
            try:
                unchanged = ""
                if spark is not None and needs_row:
                    unchanged = str(latest_snapshot(spark, spark_path(run.dataset.target.location)).metadata().id())
                append(recording.location, row, catalog.leases, S3Access.from_environment(), spark, unchanged)
            except DeltaicError as refusal:
                report(f"not done: {refusal.message}")
                raise
    except DeltaicError as refusal:
        if summary is not None and needs_row:
            missing = f"the run's row in {recording.location} ({refusal.message.rstrip('.')})"
            raise Unfinished(summary.version, [missing], f"run it again with --run-id {run.run_id}") from refusal


def _row(recording: Recording, failure: DeltaicError | None, before: int | None) -> dict[str, Any]:
    run, recorded = recording.run, recording.summary
    summary = recorded or RunSummary(run.run_id, run.dataset.target.location, None, repeated=False, rows=0, seconds=0.0)
    verdicts = failure.verdicts if isinstance(failure, ExpectationFailed) else summary.verdicts
    after = failure.version if isinstance(failure, Unfinished) else summary.version
    changed = summary.metrics.get(UPDATED, 0)
    counts = {"read": summary.rows, "written": summary.written, "changed": changed} | summary.other_counts
    counted = recorded is not None and not recorded.repeated
    return {
        "dataset": run.dataset.name,
        "run": run.run_id,
        "location": run.dataset.target.location,
        "exit": exit_code(failure) if failure else 0,
        "message": failure.message if failure else None,
        "repeated": summary.repeated,
        "version_before": before,
        "version_after": before if after is None else after,
        **{f"rows_{name}": count if counted else None for name, count in counts.items()},
        "expectations": _expectations(verdicts),
        "phases": [{"phase": phase, "seconds": seconds} for phase, seconds in recording.phases.items()],
    }


def _expectations(verdicts: Sequence[ExpectationVerdict]) -> list[dict[str, Any]]:
    return [
        {
            "name": verdict.name,
            "action": verdict.action,
            "at_most": verdict.at_most,
            "failing": verdict.failing,
            "met": not verdict.failing,
        }
        for verdict in verdicts
    ]
