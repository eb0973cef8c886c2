"""Test that errors of a run begin with their position in the dataset file."""

from typing import TYPE_CHECKING, Any

import pytest
from datasets.databases import Database
from datasets.files import dataset, json_source, run_of
from deltaic.errors import DeltaicError
from deltaic_datasets.run.batch import build
from deltaic_pipeline.table.catalog_entry import JobCatalog
from deltaic_terminal.progress import silent
from pipeline.place import BUCKET, Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]

SCHEMA = "id INT, n INT, s STRUCT<a: INT, b: INT>"
MERGE = {"mode": "merge", "keys": ["id"]}
TABLE = f"s3a://{BUCKET}/places"


@pytest.fixture(scope="module")
def table(spark: "SparkSession", s3: Any) -> str:
    assert s3
    spark.sql(f"CREATE TABLE delta.`{TABLE}` ({SCHEMA}) USING delta")
    spark.sql(f"INSERT INTO delta.`{TABLE}` VALUES (1, 1, NULL), (2, 2, NULL), (3, 3, NULL), (3, 4, NULL)")  # noqa: S608
    spark.sql(f"ALTER TABLE delta.`{TABLE}` ADD CONSTRAINT small CHECK (n < 100)")
    return TABLE.replace("s3a", "s3")


def step(sql: str) -> dict[str, Any]:
    return {"steps": [{"view": "first", "sql": "SELECT * FROM s"}, {"view": "last", "sql": sql}]}


def rows(columns: str) -> dict[str, Any]:
    return step(f"SELECT {columns} FROM first")  # noqa: S608 -- a test's own


CASES: dict[str, tuple[dict[str, Any], str]] = {
    "a key twice": (step("SELECT * FROM first UNION ALL SELECT * FROM first"), "write: several rows to merge"),
    "a key that the table has twice": (rows("3 AS id, n, s"), "write: several rows of the table"),
    "no key": (rows("CAST(NULL AS INT) AS id, n, s"), "write: a row to merge has no key"),
    "a type to cut": (rows("id, CAST(n AS BIGINT) AS n, s"), "write: merge cannot convert types without loss"),
    "a field that is lacking": (
        {**rows("id, n, named_struct('a', 1) AS s"), "target": {"evolve_schema": True}},
        "write: the rows lack fields",
    ),
    "another column": (rows("id, n, s, 1 AS more"), "target: schema drift"),
    "no type": (rows("id, NULL AS n, s"), "write: Delta stores no column of type void"),
    "a step that fails": (rows("id, CAST(concat('x', n) AS INT) AS n, s"), "steps.1.sql: [CAST_INVALID_INPUT]"),
    "a constraint": ({**rows("id, 100 AS n, s"), "write": {"mode": "append"}}, "write: [DELTA_VIOLATE_CONSTRAINT"),
    "an expectation": (
        {"expectations": [{"expect": "row_count", "min": 1}, {"expect": "row_count", "name": "many", "min": 9}]},
        "expectations.1: expectations failed",
    ),
    "too many missing": ({"write": {**MERGE, "delete_missing": True}}, "write: nothing was written: "),
    "no partitions": (
        {"write": {"mode": "overwrite_partitions"}, "target": {"partition_by": ["n"]}},
        f"write: {TABLE.replace('s3a', 's3')} is not partitioned",
    ),
    "other partitions": ({"write": {"mode": "append"}, "target": {"partition_by": ["n"]}}, "write: "),
    "a value that does not fit": ({}, "sources.s: "),
    "a database that fails": ({}, "sources.s: the database returned an error with SQLSTATE 22012"),
}


COVERED = {"a key twice", "no key", "a field that is lacking", "a type to cut", "no type", "other partitions"}
"""Errors with the same field as others: CI does not run them."""


@pytest.mark.parametrize("case", [pytest.param(case, marks=[pytest.mark.long] * (case in COVERED)) for case in CASES])
def test_error_of_a_run_has_the_field_of_the_dataset_file(
    spark: "SparkSession", catalog: JobCatalog, place: Place, table: str, case: str
) -> None:
    parts, message = CASES[case]
    source = json_source(place.folder, "s", [{"id": 1, "n": 5, "s": None}], SCHEMA)
    if case == "a value that does not fit":
        parts = {
            "sources": {
                "s": json_source(
                    place.folder, "s", [{"id": 1, "n": 1000, "s": None}], SCHEMA.replace("n INT", "n TINYINT")
                )
            }
        }
    if case == "a database that fails":
        database = Database(spark, "places")
        database.run("CREATE TABLE t (id INT, n INT)")
        database.insert("t", "1, 0")
        failing_source = {**database.source("t"), "query": "SELECT id, 1 / n AS n FROM t"}
        del failing_source["table"]
        parts = {"sources": {"s": failing_source}, "write": {"mode": "append"}, "target": {"location": place.location}}
    content = {**dataset(table), "sources": {"s": source}, "write": MERGE}
    content |= {name: value for name, value in parts.items() if name != "target"}
    content["target"] = {**content["target"], **parts.get("target", {})}
    with pytest.raises(DeltaicError) as refusal:
        build(spark, run_of(content, case), catalog, silent)
    assert refusal.value.message.startswith(message)
