"""What a run would do, found out without doing it: rows are counted, columns compared, and nothing is written."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.datasets import model
from deltaic_pipeline.describing import pending
from deltaic_pipeline.differences import Difference, differences
from deltaic_pipeline.expectations import Expectations, Verdict
from deltaic_pipeline.judging import measured
from deltaic_pipeline.merging import keyed
from deltaic_pipeline.runs import Run, target_of
from deltaic_pipeline.sources import spark_path
from deltaic_pipeline.step_views import rows_of
from deltaic_pipeline.target import Target
from deltaic_pipeline.writing import exists

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run would do now."""

    location: str
    mode: str
    new: bool
    """There is no table yet."""

    columns: Sequence[str]
    """What the rows have, with types."""

    differences: Sequence[Difference]
    """What is different in the table that is there."""

    pending: Sequence[str]
    """Properties, comments and clustering that would be set after the rows."""

    rows: int
    written: int
    """Rows that no expectation leaves out."""

    verdicts: Sequence[Verdict]
    effect: dict[str, int]
    """For merge and scd2: keys that are new, changed and as they are."""

    spark_plan: str

    def lines(self) -> Iterator[str]:
        """Say it to people."""
        yield f"{self.mode} {self.location}" + (" (a new table)" if self.new else "")
        yield "columns: " + ", ".join(self.columns)
        yield from (f"schema: {one}" for one in self.differences)
        yield from (f"afterwards: {one}" for one in self.pending)
        yield f"rows: {self.rows:,}, of which {self.written:,} would be written"
        if self.effect:
            yield "keys: " + ", ".join(f"{count:,} {name}" for name, count in self.effect.items())
        for verdict in self.verdicts:
            yield f"expectation {verdict.name} ({verdict.action}): {verdict.said}" + (
                " FAILS" if verdict.failed else ""
            )
        yield self.spark_plan

    def event(self) -> dict[str, Any]:
        """Say it to programs."""
        return {"event": "plan", **asdict(self)}


def plan(spark: "SparkSession", run: Run) -> Plan:
    """Return what a run would do; raises `PipelineError` for what would keep it from starting."""
    from pyspark import StorageLevel

    target = target_of(run.dataset)
    own = spark.newSession()
    rows = rows_of(own, run)
    there = exists(own, target)
    expectations = Expectations(run.dataset.expectations)
    flagged = expectations.flagged(rows).persist(StorageLevel.DISK_ONLY)
    try:
        verdicts, count = measured(flagged, expectations)
        kept = expectations.kept(flagged)
        left_out = any(verdict.action != "fail" and verdict.failing for verdict in verdicts)
        return Plan(
            location=target.location,
            mode=target.mode if run.dataset.stream is None else f"stream, {target.mode}",
            new=not there,
            columns=[f"{field.name} {field.dataType.simpleString()}" for field in rows.schema.fields],
            differences=differences(own, rows, target) or (),
            pending=pending(own, target) if there else (),
            rows=count,
            written=kept.count() if left_out else count,
            verdicts=verdicts,
            effect=_effect(own, kept, run.dataset, target) if there and target.keys else {},
            spark_plan=_explained(rows),
        )
    finally:
        flagged.unpersist()


def _effect(spark: "SparkSession", rows: "DataFrame", dataset: model.Dataset, target: Target) -> dict[str, int]:
    table = spark.read.format("delta").load(spark_path(target.location))
    ignored: tuple[str, ...] = ()
    if isinstance(dataset.write, model.Scd2):
        table = table.where(f"`{dataset.write.current}`")
        ignored = (dataset.write.at,) if dataset.write.at else ()
    return keyed(rows, table, target.keys, ignored)


def _explained(rows: "DataFrame") -> str:
    java: Any = rows._jdf  # noqa: SLF001 -- the public `explain` only prints
    return str(java.queryExecution().executedPlan().toString()).strip()
