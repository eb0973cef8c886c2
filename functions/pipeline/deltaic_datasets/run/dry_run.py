"""Dry run of a dataset: count its rows and compare columns and keys with the table, without writing."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.spark.spark_errors import refusals
from deltaic_pipeline.spark.sql_rules import drop_external_functions
from deltaic_pipeline.table.merging import count_key_changes
from deltaic_pipeline.table.missing_keys import missing_keys
from deltaic_pipeline.table.schema_diff import SchemaDifference, differences, rows_to_write
from deltaic_pipeline.table.sources import read
from deltaic_pipeline.table.table_properties import pending_sql
from deltaic_pipeline.table.target import DeltaTarget
from deltaic_pipeline.table.transactions import exists
from deltaic_pipeline.table.writing import current_rows, rows_to_merge
from deltaic_terminal.progress import Progress, silent, step

from deltaic_datasets.file import dataset_model
from deltaic_datasets.run.expectations import Expectations, ExpectationVerdict
from deltaic_datasets.run.file_log import unread_rows
from deltaic_datasets.run.quality import count_malformed, measure
from deltaic_datasets.run.run_state import Run, target_of
from deltaic_datasets.run.sql_steps import file_source, locate_errors_at, locate_values, read_dataset
from deltaic_datasets.run.target_checks import check_target
from deltaic_datasets.run.watermark import advances, next_advance

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class DryRun:
    """Report of what a run of the dataset would do now."""

    location: str
    mode: str
    new: bool
    columns: Sequence[str]
    differences: Sequence[SchemaDifference]
    pending: Sequence[str]
    rows: int
    written: int
    """Number of rows to write, without those that sources or expectations leave out."""

    quarantined: int
    dropped: int

    verdicts: Sequence[ExpectationVerdict]
    effect: dict[str, int]
    """For merge and scd2, numbers of new, changed, unchanged and deleted keys, and of missing keys to delete."""

    refused: str
    """Reason why the run would fail instead of deleting the missing keys; empty if it would delete them."""

    spark_plan: str
    windows: Sequence[str] = ()

    def lines(self) -> Iterator[str]:
        """Return the lines of the report for a terminal."""
        yield f"{self.mode} {self.location}" + (" (a new table)" if self.new else "")
        yield from (f"reads {line}" for line in self.windows)
        yield "columns: " + ", ".join(self.columns)
        yield from (f"schema: {line}" for line in self.differences)
        yield from (f"afterwards: {line}" for line in self.pending)
        suffix = f", {self.quarantined:,} quarantined, {self.dropped:,} dropped" if self.rows > self.written else ""
        yield f"rows: {self.rows:,}, of which {self.written:,} would be written{suffix}"
        if self.effect:
            yield "keys: " + ", ".join(f"{count:,} {name}" for name, count in self.effect.items())
        if self.refused:
            yield f"FAILS: {self.refused}"
        for verdict in self.verdicts:
            yield f"expectation {verdict.name} ({verdict.action}): {verdict.message}" + (
                " FAILS" if verdict.refused else ""
            )
        yield from self.spark_plan.splitlines()

    def event(self) -> dict[str, Any]:
        """Return the report as a JSON object for --json."""
        return {"event": "plan", **asdict(self)}


def plan_run(spark: "SparkSession", run: Run, progress: Progress = silent) -> DryRun:
    """Return a report of what a run would do; raises `PipelineError` if the run could not start."""
    from pyspark import StorageLevel

    target = target_of(run.dataset)
    session = spark.newSession()
    drop_external_functions(session)
    with step(progress, f"Reading {', '.join(run.dataset.sources)}"):
        windows = (
            next_advance(session, run, next(reversed(advances(session, run, target)), None)).windows
            if run.dataset.has_watermark
            else {}
        )
        answer = read_dataset(session, run, _unread_source_rows(session, run), windows)
        rows = answer.rows
    with step(progress, f"Checking {target.location}"):
        check_target(session, rows, run, target)
        present = exists(session, target)
        changes, new_rows = differences(session, rows, target) or (), rows_to_write(session, rows, target)
        afterwards = pending_sql(session, target) if present else ()
    java: Any = rows._jdf  # noqa: SLF001 -- the public `explain` only prints
    expectations = Expectations(run.dataset.expectations)
    flagged = expectations.add_flags(rows).persist(StorageLevel.DISK_ONLY)
    try:
        with step(progress, "Counting rows"), locate_values(run, answer.sources), refusals():
            verdicts, counts = measure(flagged, expectations)
            malformed, malformed_counts = count_malformed(answer.sources)
        effect, refused = dict[str, int](), ""
        if present and target.keys:
            with step(progress, "Comparing keys"), refusals():
                effect, refused = _compare(session, expectations.passing_rows(flagged), flagged, target)
        return DryRun(
            location=target.location,
            mode=target.mode if run.dataset.stream is None else f"stream, {target.mode}",
            new=not present,
            columns=[f"{field.name} {field.dataType.simpleString()}" for field in new_rows.schema.fields],
            differences=changes,
            pending=afterwards,
            rows=counts.rows + malformed_counts.rows,
            written=counts.passing,
            quarantined=counts.quarantined + malformed_counts.quarantined,
            dropped=counts.dropped + malformed_counts.dropped,
            verdicts=[*malformed, *verdicts],
            effect=effect,
            refused=refused,
            spark_plan=str(java.queryExecution().executedPlan().toString()).strip(),
            windows=[f"{name}: {window}" for name, window in windows.items()],
        )
    finally:
        flagged.unpersist()


def _unread_source_rows(spark: "SparkSession", run: Run) -> "DataFrame | None":
    stream = run.dataset.stream
    source = run.dataset.sources[stream.source] if stream else None
    if stream is None or not isinstance(source, dataset_model.FileSource):
        return None
    with locate_errors_at(run, ("sources", stream.source)):
        return unread_rows(spark, stream.checkpoint, read(spark, file_source(source)).flagged)


def _compare(
    spark: "SparkSession", rows: "DataFrame", full: "DataFrame", target: DeltaTarget
) -> tuple[dict[str, int], str]:
    table, rows = current_rows(spark, target), rows_to_merge(spark, rows, target, exists=True)
    times = (*target.validity.columns, target.validity.at or "") if target.validity else ()
    effect = count_key_changes(rows, table, target.keys, times)
    if target.missing_at_most is None:
        return effect, ""
    missing = missing_keys(spark, table, full, rows, target)
    return {**effect, "missing": missing.count}, missing.refusal
