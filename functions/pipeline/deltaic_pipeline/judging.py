"""Rows on their way past what is expected of them: written, left out, put aside, or the reason to write none."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.attempt import said_by_spark
from deltaic_pipeline.expectations import BROKEN, Expectations, Verdict, refuse_failed
from deltaic_pipeline.runs import Run, Summary
from deltaic_pipeline.target import Target
from deltaic_pipeline.writing import Transaction, Written, committed, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession

OBSERVED_SECONDS = 30.0
"""How long to wait for the counts of a pass that has ended; Spark tells them on a thread of its own."""


def write_part(spark: "SparkSession", rows: "DataFrame", run: Run, target: Target, transaction: Transaction) -> Summary:
    """Judge the rows, write those that may be and put aside those that must not be (decision 54).

    Raises `ExpectationFailed` before anything is committed.
    """
    from pyspark import StorageLevel

    expectations = Expectations(run.dataset.expectations)
    flagged = expectations.flagged(rows)
    if expectations.only_of_rows and not target.keys:
        written, verdicts, count = _observed(spark, flagged, expectations, target, transaction)
        quarantined = _put_aside(spark, flagged, expectations, run, transaction, written, verdicts)
    else:
        # Read once, kept on disk, measured, and written from there.
        kept = flagged.persist(StorageLevel.DISK_ONLY)
        try:
            verdicts, count = measured(kept, expectations)
            # A run that had committed when it was killed was judged then: what is missing is its side table.
            if not run.dataset.quarantines or committed(spark, target, transaction) is None:
                refuse_failed(verdicts)
            written = write(spark, expectations.kept(kept), target, transaction)
            quarantined = _put_aside(spark, kept, expectations, run, transaction, written, verdicts)
        finally:
            kept.unpersist()
    return Summary(
        run.run_id,
        target.location,
        written.version,
        written.repeated,
        0 if written.repeated else count,
        0.0,
        verdicts=verdicts,
        quarantined=quarantined,
        metrics={name: int(value) for name, value in written.metrics.items() if value.isdigit()},
    )


def _observed(
    spark: "SparkSession", flagged: "DataFrame", expectations: Expectations, target: Target, transaction: Transaction
) -> tuple[Written, list[Verdict], int]:
    """Write in one pass that counts; a row that fails the run ends the pass before it commits."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException
    from pyspark.sql import Observation

    observation = Observation()
    watched = flagged.observe(observation, *expectations.measures())
    try:
        written = write(spark, expectations.kept(watched, breaking=True), target, transaction)
    except (PySparkException, Py4JJavaError) as failure:
        if BROKEN in said_by_spark(failure):
            refuse_failed(measured(flagged, expectations)[0])
        raise
    found = None if written.repeated else _arrived(observation)
    judged = (expectations.verdicts(found), int(found["rows"])) if found else measured(flagged, expectations)
    return written, *judged


def measured(flagged: "DataFrame", expectations: Expectations) -> tuple[list[Verdict], int]:
    """Return the verdicts on flagged rows and how many rows there are, by reading them."""
    found: Any = flagged.agg(*expectations.measures()).first()
    counts = {**found.asDict(), **expectations.repeated(flagged)}
    return expectations.verdicts(counts), int(counts["rows"])


def _arrived(observation: "Observation") -> dict[str, Any] | None:
    """Return what was observed; None if Spark's optimizer had left the counting out, which `get` would wait for."""
    deadline = time.monotonic() + OBSERVED_SECONDS
    java: Any = observation._jo  # noqa: SLF001 -- the public `get` waits for ever
    while time.monotonic() < deadline:
        if java is not None and not java.getOrEmpty().isEmpty():
            return dict(observation.get)
        time.sleep(0.01)
    return None


def _put_aside(  # noqa: PLR0913, PLR0917 -- whose rows, of what, whereto
    spark: "SparkSession",
    flagged: "DataFrame",
    expectations: Expectations,
    run: Run,
    transaction: Transaction,
    written: Written,
    verdicts: Sequence[Verdict],
) -> int:
    """Append the quarantined rows to the side table, once a run; after the rows, so that a refused run leaves none."""
    some = any(verdict.action == "quarantine" and verdict.failing for verdict in verdicts)
    if not some or (written.repeated and put_aside_already(spark, run, transaction)):
        return 0
    aside = write(spark, expectations.quarantined(flagged, run.run_id), _quarantine(run), transaction)
    return int(aside.metrics.get("numOutputRows", 0))


def _quarantine(run: Run) -> Target:
    return Target(run.dataset.quarantine_location, "append", change_data_feed=False, evolve_schema=True)


def put_aside_already(spark: "SparkSession", run: Run, transaction: Transaction) -> bool:
    """Tell whether the side table has this run's rows."""
    return committed(spark, _quarantine(run), transaction) is not None
