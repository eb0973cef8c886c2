"""Test that quarantined rows are those of the counting pass, within the memory limit."""

from typing import TYPE_CHECKING

import pytest
from datasets.test_expectations import expectations_of
from deltaic_datasets.run.observation import MOST_CHARACTERS, MOST_ROWS, ObservedPass, wait_for_metrics
from deltaic_pipeline.spark.jvm import java_class

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

KINDS = """
SELECT id, id % 3 AS grade, CAST(id AS DECIMAL(38, 18)) / 7 AS exact, double('NaN') AS nan, -0.0D AS zero,
  date_add(DATE'1582-10-01', CAST(id AS INT)) AS day, timestamp_seconds(id * 86400 - 12219379200) AS moment,
  TIMESTAMP_NTZ'9999-12-31 23:59:59.999999' AS late, X'00FF' AS bytes, CAST(NULL AS STRING) AS nothing,
  map('b', 1, 'a', 2) AS counts,
  array(named_struct('x', id)) AS pairs, parse_json('{"a": [1, null]}') AS any
FROM range(20)
"""


def test_quarantined_rows_are_those_that_were_read(spark: "SparkSession", tmp_path: "Path") -> None:
    expectations = expectations_of({"expect": "range", "column": "grade", "max": 1, "action": "quarantine"})
    flagged = expectations.add_flags(spark.sql(KINDS).repartition(3, "id"))
    watched = ObservedPass(flagged, expectations)
    expectations.passing_rows(watched.rows).write.format("delta").save(str(tmp_path / "kept"))
    counts, aside = watched.counts(), watched.quarantined_rows()
    assert counts is not None
    assert (counts["rows"], counts["kept"], counts["aside"]) == (20, 14, 6)
    assert aside is not None
    assert [(field.name, field.dataType) for field in aside.schema] == [
        (field.name, field.dataType) for field in flagged.schema
    ]

    def texts(rows: "object") -> list[str]:
        return sorted(row.said for row in rows.selectExpr("CAST(struct(*) AS STRING) AS said").collect())  # type: ignore[attr-defined]

    assert texts(aside) == texts(flagged.where("grade > 1"))


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        pytest.param(MOST_ROWS + 1, "'x'", id="too many"),
        pytest.param(2, f"repeat('x', {MOST_CHARACTERS})", id="too long"),
    ],
)
def test_rows_above_the_memory_limit_are_read_again(spark: "SparkSession", rows: int, text: str) -> None:
    expectations = expectations_of({"expect": "sql", "condition": "id < 0", "action": "quarantine"})
    flagged = expectations.add_flags(spark.range(rows, numPartitions=1).selectExpr("id", f"{text} AS text"))
    watched = ObservedPass(flagged, expectations)
    assert watched.rows.selectExpr("count(*)").collect()
    assert (watched.counts() or {})["aside"] == rows
    assert watched.quarantined_rows() is None


def test_removed_observation_has_no_counts(spark: "SparkSession") -> None:
    from pyspark.sql import Observation, functions

    observation = Observation()
    spark.range(1).observe(observation, functions.count("*").alias("rows"))
    observation._jo.setMetricsAndNotify(java_class("org.apache.spark.sql.Row").empty())  # type: ignore[union-attr]
    assert wait_for_metrics(observation) is None
