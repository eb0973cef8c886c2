"""The dry run of a dataset: rows are counted, columns compared, and nothing is written."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.spark.spark_errors import refusals
from deltaic_pipeline.spark.sql_rules import drop_reaching
from deltaic_pipeline.table.merging import keyed
from deltaic_pipeline.table.missing_keys import missing_keys
from deltaic_pipeline.table.schema_diff import Difference, differences, entering
from deltaic_pipeline.table.sources import read
from deltaic_pipeline.table.table_properties import pending
from deltaic_pipeline.table.target import Target
from deltaic_pipeline.table.transactions import exists
from deltaic_pipeline.table.writing import current_rows, merged_rows
from deltaic_terminal.progress import Progress, silent, step

from deltaic_datasets.file import dataset_model
from deltaic_datasets.run.expectations import Expectations, Verdict
from deltaic_datasets.run.file_log import unread
from deltaic_datasets.run.quality import left_out, measured
from deltaic_datasets.run.run_state import Run, target_of
from deltaic_datasets.run.sql_steps import answer_of, file_source, said_of_values, said_where
from deltaic_datasets.run.target_checks import refuse_unfit
from deltaic_datasets.run.watermark import advances, next_advance

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run would do now."""

    location: str
    mode: str
    new: bool
    columns: Sequence[str]
    differences: Sequence[Difference]
    pending: Sequence[str]
    rows: int
    written: int
    """Rows that neither a source nor an expectation leaves out."""

    quarantined: int
    dropped: int

    verdicts: Sequence[Verdict]
    effect: dict[str, int]
    """For merge and scd2: keys that are new, changed, deleted and as they are, and missing ones, which go too."""

    refused: str
    """Why so many missing keys would not be deleted, and nothing written; empty: they would be."""

    spark_plan: str
    windows: Sequence[str] = ()

    def lines(self) -> Iterator[str]:
        """Say it to people."""
        yield f"{self.mode} {self.location}" + (" (a new table)" if self.new else "")
        yield from (f"reads {one}" for one in self.windows)
        yield "columns: " + ", ".join(self.columns)
        yield from (f"schema: {one}" for one in self.differences)
        yield from (f"afterwards: {one}" for one in self.pending)
        aside = f", {self.quarantined:,} quarantined, {self.dropped:,} dropped" if self.rows > self.written else ""
        yield f"rows: {self.rows:,}, of which {self.written:,} would be written{aside}"
        if self.effect:
            yield "keys: " + ", ".join(f"{count:,} {name}" for name, count in self.effect.items())
        if self.refused:
            yield f"FAILS: {self.refused}"
        for verdict in self.verdicts:
            yield f"expectation {verdict.name} ({verdict.action}): {verdict.said}" + (
                " FAILS" if verdict.refused else ""
            )
        yield from self.spark_plan.splitlines()

    def event(self) -> dict[str, Any]:
        """Say it to programs."""
        return {"event": "plan", **asdict(self)}


def plan(spark: "SparkSession", run: Run, progress: Progress = silent) -> Plan:
    """Return what a run would do; raises `PipelineError` for what would keep it from starting."""
    from pyspark import StorageLevel

    target = target_of(run.dataset)
    own = spark.newSession()
    drop_reaching(own)
    with step(progress, f"Reading {', '.join(run.dataset.sources)}"):
        windows = (
            next_advance(own, run, next(reversed(advances(own, run, target)), None)).windows
            if run.dataset.marked
            else {}
        )
        answer = answer_of(own, run, _unread(own, run), windows)
        rows = answer.rows
    with step(progress, f"Looking at {target.location}"):
        refuse_unfit(own, rows, run, target)
        present = exists(own, target)
        changes, entered = differences(own, rows, target) or (), entering(own, rows, target)
        afterwards = pending(own, target) if present else ()
    java: Any = rows._jdf  # noqa: SLF001 -- the public `explain` only prints
    expectations = Expectations(run.dataset.expectations)
    flagged = expectations.flagged(rows).persist(StorageLevel.DISK_ONLY)
    try:
        with step(progress, "Counting rows"), said_of_values(run, answer.sources), refusals():
            verdicts, counts = measured(flagged, expectations)
            misfits, apart = left_out(answer.sources)
        effect, refused = dict[str, int](), ""
        if present and target.keys:
            with step(progress, "Comparing keys"), refusals():
                effect, refused = _effect(own, expectations.kept(flagged), flagged, target)
        return Plan(
            location=target.location,
            mode=target.mode if run.dataset.stream is None else f"stream, {target.mode}",
            new=not present,
            columns=[f"{field.name} {field.dataType.simpleString()}" for field in entered.schema.fields],
            differences=changes,
            pending=afterwards,
            rows=counts.rows + apart.rows,
            written=counts.kept,
            quarantined=counts.quarantined + apart.quarantined,
            dropped=counts.dropped + apart.dropped,
            verdicts=[*misfits, *verdicts],
            effect=effect,
            refused=refused,
            spark_plan=str(java.queryExecution().executedPlan().toString()).strip(),
            windows=[f"{name}: {window}" for name, window in windows.items()],
        )
    finally:
        flagged.unpersist()


def _unread(spark: "SparkSession", run: Run) -> "DataFrame | None":
    stream = run.dataset.stream
    source = run.dataset.sources[stream.source] if stream else None
    if stream is None or not isinstance(source, dataset_model.FileSource):
        return None
    with said_where(run, ("sources", stream.source)):
        return unread(spark, stream.checkpoint, read(spark, file_source(source)).flagged)


def _effect(spark: "SparkSession", rows: "DataFrame", given: "DataFrame", target: Target) -> tuple[dict[str, int], str]:
    table, rows = current_rows(spark, target), merged_rows(spark, rows, target, exists=True)
    times = (*target.validity.columns, target.validity.at or "") if target.validity else ()
    effect = keyed(rows, table, target.keys, times)
    if target.missing_at_most is None:
        return effect, ""
    missing = missing_keys(spark, table, given, rows, target)
    return {**effect, "missing": missing.count}, missing.refusal
