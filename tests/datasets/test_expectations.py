"""Test each expectation: failing rows, written rows and messages."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from datasets.files import dataset
from deltaic_datasets.file.file_checks import dataset_of
from deltaic_datasets.run.expectations import Expectations, refuse_failed
from deltaic_datasets.run.quality import measure
from deltaic_pipeline.failures import ExpectationFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

ROWS = """
SELECT * FROM VALUES
  (1, 'a', DATE'2026-01-01', 1.5D),
  (2, 'a', DATE'2026-01-02', 2.5D),
  (3, 'b', NULL, NULL),
  (4, NULL, DATE'2026-01-04', double('NaN')),
  (5, "it's", DATE'2026-01-05', -1.0D)
AS t(id, name, day, weight)
"""


def expectations_of(*expectations: dict[str, Any]) -> Expectations:
    content = dataset("s3://b/t", sources={"s": {"format": "csv", "paths": ["s3://b/s"]}}, expectations=[*expectations])
    return Expectations(dataset_of(yaml.safe_dump(content), "d.yaml")[0].expectations)


def ids(rows: "DataFrame") -> list[int]:
    return sorted(row["id"] for row in rows.select("id").collect())


@pytest.mark.parametrize(
    ("expectation", "failing"),
    [
        pytest.param({"expect": "not_null", "columns": ["id"]}, [], id="no null"),
        pytest.param({"expect": "not_null", "columns": ["name", "day"]}, [3, 4], id="null in one of two"),
        pytest.param({"expect": "range", "column": "id", "min": 2}, [1], id="minimum is allowed"),
        pytest.param({"expect": "range", "column": "id", "max": 4}, [5], id="maximum is allowed"),
        pytest.param({"expect": "range", "column": "id", "min": 2, "max": 3}, [1, 4, 5], id="both"),
        pytest.param({"expect": "range", "column": "weight", "max": 2.5}, [4], id="NaN is above all, null passes"),
        pytest.param(
            {"expect": "range", "column": "day", "min": datetime(2026, 1, 2, tzinfo=UTC).date()}, [1], id="dates"
        ),
        pytest.param(
            {"expect": "accepted_values", "column": "name", "values": ["a", "it's"]}, [3], id="texts, null passes"
        ),
        pytest.param({"expect": "accepted_values", "column": "id", "values": [1, 2, 3, 4]}, [5], id="numbers"),
        pytest.param({"expect": "unique", "columns": ["name"]}, [1, 2], id="all that share a value, nulls pass"),
        pytest.param({"expect": "unique", "columns": ["name", "id"]}, [], id="pairs"),
        pytest.param({"expect": "sql", "name": "x", "condition": "day > '2026-01-03'"}, [1, 2], id="null passes"),
        pytest.param(
            {"expect": "reference", "columns": ["name"], "to": "s", "to_columns": ["known"]},
            [5],
            id="reference, null passes",
        ),
    ],
)
def test_failing_rows_are_dropped_or_quarantined(
    spark: "SparkSession", expectation: dict[str, Any], failing: list[int]
) -> None:
    session = spark.newSession()
    session.sql("SELECT * FROM VALUES ('a'), ('b'), ('a'), (NULL) AS t(known)").createOrReplaceTempView("s")
    rows = session.sql(ROWS)
    for action in ("drop", "quarantine"):
        expectations = expectations_of({**expectation, "action": action})
        flagged = expectations.add_flags(rows)
        [verdict], counts = measure(flagged, expectations)
        aside, dropped = (len(failing), 0) if action == "quarantine" else (0, len(failing))
        assert verdict.failing == len(failing)
        assert (counts.rows, counts.passing, counts.quarantined) == (5, 5 - len(failing), aside)
        assert counts.dropped == dropped
        assert expectations.passing_rows(flagged).columns == rows.columns
        assert ids(expectations.passing_rows(flagged)) == [number for number in range(1, 6) if number not in failing]
    put_aside = expectations.quarantine_rows(flagged, "r1")
    assert ids(put_aside) == failing
    assert all(row["_reasons"] == [verdict.name] and row["_run"] == "r1" for row in put_aside.collect())
    warned = expectations_of({**expectation, "action": "warn"})
    warned_rows = warned.add_flags(rows)
    [warning], counts = measure(warned_rows, warned)
    assert (warning.failing, warning.refused, counts.passing) == (len(failing), False, 5)
    assert warned.passing_rows(warned_rows, stop_at_failure=True).count() == 5
    assert warned.passing_rows(warned_rows).columns == rows.columns
    fatal = expectations_of(expectation)
    verdicts, _ = measure(fatal.add_flags(rows), fatal)
    assert [verdict.failing for verdict in verdicts] == [len(failing)]
    if failing:
        with pytest.raises(ExpectationFailed, match=rf"{verdicts[0].name} \({len(failing)} of 5 rows\)"):
            refuse_failed(verdicts)
    else:
        refuse_failed(verdicts)


@pytest.mark.parametrize(
    ("expectation", "fails", "text"),
    [
        pytest.param({"expect": "row_count", "min": 5, "max": 5}, False, "5 rows, expected 5 to 5", id="enough"),
        pytest.param({"expect": "row_count", "min": 6}, True, "5 rows, expected 6 to any", id="too few"),
        pytest.param({"expect": "row_count", "max": 4}, True, "5 rows, expected any to 4", id="too many"),
        pytest.param(
            {"expect": "freshness", "column": "day", "within": "5 days"}, False, "2026-01-05T00:00:00Z", id="fresh"
        ),
        pytest.param(
            {"expect": "freshness", "column": "day", "within": "4 days"}, True, "2026-01-05T00:00:00Z", id="old"
        ),
    ],
)
def test_row_count_and_freshness_are_checked_over_all_rows(
    spark: "SparkSession", expectation: dict[str, Any], fails: bool, text: str
) -> None:
    expectations = expectations_of(expectation)
    first_row: Any = expectations.add_flags(spark.sql(ROWS)).agg(*expectations.aggregates()).first()
    now = datetime(2026, 1, 5, tzinfo=UTC) + timedelta(days=4, hours=12)
    [verdict] = expectations.verdicts(first_row.asDict(), now)
    assert verdict.refused == fails
    [warning] = expectations_of({**expectation, "action": "warn"}).verdicts(first_row.asDict(), now)
    assert (warning.refused, warning.failing) == (False, int(fails))
    assert text in verdict.message


LIMITS = ["0 %", "19.999999 %", "20 %", "20%", "100 %", "0 rows", "1 row", "2 rows"]


@pytest.mark.parametrize("action", ["fail", "drop", "quarantine"])
@pytest.mark.parametrize("expect", ["range", "unique"])
def test_expectation_above_its_limit_fails_the_run(spark: "SparkSession", action: str, expect: str) -> None:
    rules: dict[str, dict[str, Any]] = {
        "range": {"expect": "range", "column": "id", "min": 2},
        "unique": {"expect": "unique", "columns": ["name"]},
    }
    failing = {"range": 1, "unique": 2}[expect]
    expectations = expectations_of(
        *({**rules[expect], "name": f"limit{n}", "action": action, "at_most": limit} for n, limit in enumerate(LIMITS))
    )
    assert not expectations.fits_one_pass
    flagged = expectations.add_flags(spark.sql(ROWS))
    verdicts, _ = measure(flagged, expectations)
    for limit, verdict in zip(LIMITS, verdicts, strict=True):
        number = float(limit.rstrip("% rows"))
        assert verdict.refused == (failing > (number * 5 / 100 if "%" in limit else number)), limit
        assert verdict.message == f"{failing} of 5 rows, at most {limit}"
    passing = expectations.passing_rows(flagged, stop_at_failure=True)
    assert passing.count() == 5 - (failing if action != "fail" else 0)


def test_limit_of_zero_accepts_no_rows(spark: "SparkSession") -> None:
    expectations = expectations_of({"expect": "not_null", "columns": ["id"], "at_most": "0 %"})
    verdicts, _ = measure(expectations.add_flags(spark.sql(f"{ROWS} WHERE id > 9")), expectations)
    refuse_failed(verdicts)


def test_freshness_fails_without_rows(spark: "SparkSession") -> None:
    expectations = expectations_of(
        {"expect": "freshness", "column": "day", "within": "5 days"}, {"expect": "not_null", "columns": ["id"]}
    )
    verdicts, counts = measure(expectations.add_flags(spark.sql(f"{ROWS} WHERE id > 9")), expectations)
    assert counts.rows == 0
    assert [(verdict.refused, verdict.failing) for verdict in verdicts] == [(True, 1), (False, 0)]


def test_quarantined_row_has_all_its_reasons(spark: "SparkSession") -> None:
    expectations = expectations_of(
        {"expect": "range", "column": "id", "max": 3, "action": "quarantine"},
        {"expect": "not_null", "columns": ["name"], "action": "quarantine"},
        {"expect": "sql", "name": "even", "condition": "id % 2 = 0", "action": "drop"},
    )
    aside = expectations.quarantine_rows(expectations.add_flags(spark.sql(ROWS)), "r")
    assert {row["id"]: row["_reasons"] for row in aside.collect()} == {
        4: ["range_id", "not_null_name"],
        5: ["range_id"],
    }
