"""What Spark observes of a pass that writes: the counts of expectations, and the rows to put aside."""

import time
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.spark.jvm import as_java, java_class
from deltaic_pipeline.spark.quoting import quoted
from deltaic_pipeline.spark.spark_errors import spark_failures

from deltaic_datasets.run.expectations import ASIDE, Expectations

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

MOST_ROWS, MOST_CHARACTERS = 50_000, 500
"""Rows that are held in memory: so many of the first task, an nth of it of the nth, and none that is longer as JSON."""

NUMBER, HELD = "__number", "held"
SECONDS = 30.0
"""How long to wait for an observation, which Spark reports from another thread."""

_OF_TASK = 33
"""Bits of `monotonically_increasing_id` that count the rows of one task; above them is the task."""


class ObservedPass:
    """Flagged rows that are counted by whoever reads `rows`, once."""

    def __init__(self, flagged: "DataFrame", expectations: Expectations) -> None:
        from pyspark.sql import Observation, functions

        self._flagged, self._observation = flagged, Observation()
        measures = expectations.measures()
        if expectations.puts_aside:
            columns = ", ".join(map(quoted, flagged.columns))
            # A branch that is not taken does not count: only rows to put aside have a number.
            number = f"CASE WHEN {expectations.is_aside} THEN monotonically_increasing_id() END"
            few = f"{NUMBER} & {2**_OF_TASK - 1} < {MOST_ROWS} DIV (1 + shiftright({NUMBER}, {_OF_TASK}))"
            short = f"length(to_json(struct({columns}))) <= {MOST_CHARACTERS}"
            row = f"WHEN {few} AND {short} THEN struct({columns}, {NUMBER})"
            held = functions.expr(f"collect_list(CASE WHEN {NUMBER} IS NULL THEN NULL {row} END)")
            measures.append(held.alias(HELD))
            flagged = flagged.withColumn(NUMBER, functions.expr(number))
        self.rows = flagged.observe(self._observation, *measures).drop(NUMBER)

    def counts(self) -> dict[str, Any] | None:
        """Return what was counted; None if Spark's optimizer had left the counting out, which nobody would wait for."""
        found = observed(self._observation)
        return None if found is None else dict(as_java(found.removed(HELD)))

    def aside(self) -> "DataFrame | None":
        """Return the flagged rows to put aside; None if they are too many or too long to be held, or read twice."""
        from pyspark.sql import DataFrame

        found, spark = observed(self._observation), self._flagged.sparkSession
        if found is None or not found.contains(HELD):
            return None
        rows = as_java(found.apply(HELD))
        known = java_class("java.util.HashSet")(rows)
        if not rows.size() == known.size() == found.apply(ASIDE):
            return None
        schema = self._flagged._jdf.schema().add(NUMBER, "long")  # noqa: SLF001 -- Python would change values
        return DataFrame(spark._jsparkSession.createDataFrame(rows, schema), spark).drop(NUMBER)  # noqa: SLF001


def observed(observation: "Observation") -> Any:
    """Return the metrics by name, as a Scala map; None if the optimizer removed the observation."""
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
