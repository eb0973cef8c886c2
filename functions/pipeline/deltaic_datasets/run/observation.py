"""Observe the pass that writes rows: count failing rows and collect the rows to quarantine."""

import time
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.spark.jvm import as_java, java_class
from deltaic_pipeline.spark.quoting import quoted
from deltaic_pipeline.spark.spark_errors import spark_failures

from deltaic_datasets.run.expectations import QUARANTINED, Expectations

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

MOST_ROWS, MOST_CHARACTERS = 50_000, 500
"""Maximum number of rows collected from the first Spark task (from task n: 1/n of it), and of characters per row."""

NUMBER, COLLECTED = "__number", "held"
SECONDS = 30.0
"""Timeout in seconds for the metrics of an observation, which Spark reports from another thread."""

_OF_TASK = 33
"""Number of low bits in `monotonically_increasing_id` that number the rows of a task; the high bits are the task."""


class ObservedPass:
    """Counts and collects flagged rows while Spark reads `rows`, which must happen exactly once."""

    def __init__(self, flagged: "DataFrame", expectations: Expectations) -> None:
        from pyspark.sql import Observation, functions

        self._flagged, self._observation = flagged, Observation()
        aggregates = expectations.aggregates()
        if expectations.quarantines:
            columns = ", ".join(map(quoted, flagged.columns))
            # Spark numbers rows only in the branch that it takes, so only rows to quarantine have a number.
            number = f"CASE WHEN {expectations.quarantine_condition} THEN monotonically_increasing_id() END"
            within_limit = f"{NUMBER} & {2**_OF_TASK - 1} < {MOST_ROWS} DIV (1 + shiftright({NUMBER}, {_OF_TASK}))"
            is_short = f"length(to_json(struct({columns}))) <= {MOST_CHARACTERS}"
            row = f"WHEN {within_limit} AND {is_short} THEN struct({columns}, {NUMBER})"
            collected = functions.expr(f"collect_list(CASE WHEN {NUMBER} IS NULL THEN NULL {row} END)")
            aggregates.append(collected.alias(COLLECTED))
            flagged = flagged.withColumn(NUMBER, functions.expr(number))
        self.rows = flagged.observe(self._observation, *aggregates).drop(NUMBER)

    def counts(self) -> dict[str, Any] | None:
        """Wait for the values of `Expectations.aggregates`; None if Spark's optimizer removed the observation."""
        metrics = wait_for_metrics(self._observation)
        return None if metrics is None else dict(as_java(metrics.removed(COLLECTED)))

    def quarantined_rows(self) -> "DataFrame | None":
        """Return the collected rows to quarantine; None if they exceed the limits or a Spark task was repeated."""
        from pyspark.sql import DataFrame

        metrics, spark = wait_for_metrics(self._observation), self._flagged.sparkSession
        if metrics is None or not metrics.contains(COLLECTED):
            return None
        rows = as_java(metrics.apply(COLLECTED))
        distinct = java_class("java.util.HashSet")(rows)
        if not rows.size() == distinct.size() == metrics.apply(QUARANTINED):
            return None
        schema = self._flagged._jdf.schema().add(NUMBER, "long")  # noqa: SLF001 -- Python would change values
        return DataFrame(spark._jsparkSession.createDataFrame(rows, schema), spark).drop(NUMBER)  # noqa: SLF001


def wait_for_metrics(observation: "Observation") -> Any:
    """Return an observation's metrics as a Scala map; None if Spark removed the observation or SECONDS passed."""
    deadline = time.monotonic() + SECONDS
    java: Any = observation._jo  # noqa: SLF001 -- the public `get` waits for ever
    while java is not None and time.monotonic() < deadline:
        try:
            metrics = java.getOrEmpty()
        except spark_failures():  # Spark reports a removed observation as a row without a schema, and fails over it
            return None
        if not metrics.isEmpty():
            return metrics
        time.sleep(0.01)
    return None
