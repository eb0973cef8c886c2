"""Runs of datasets in the console: by the console's own table or another, and of one dataset or those that failed."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from console.conftest import HOSTILE, Visitor, command, visitor
from deltaic_ops.local.resources import DATA_BUCKET
from deltaic_pipeline.spark.storage_access import S3Access
from deltaic_pipeline.table import run_log
from deltalake import write_deltalake
from filled_server import FilledServer

pytestmark = pytest.mark.slow

RUNS = f"s3://{DATA_BUCKET}/console-runs"


@pytest.fixture(scope="module")
def seen(server: FilledServer) -> Iterator[Visitor]:
    """Return a visitor of a console that knows a table with two runs, one of which failed."""

    def row(dataset: str, **more: Any) -> dict[str, Any]:
        unmet = {"name": "has a day", "action": "warn", "at_most": "", "failing": 3, "met": False}
        began = datetime(2026, 11, 25, 6, 0, tzinfo=UTC)
        known = {"began": began, "seconds": 12.5, "exit": 0, "rows_read": 1234, "expectations": [unmet]}
        return {"dataset": dataset, "run": dataset, **known, **more}

    made = [row("patients"), row("visits", exit=1, message=HOSTILE, expectations=None, rows_read=None)]
    access = S3Access.from_environment(server.environment)
    write_deltalake(RUNS, pa.Table.from_pylist(made, run_log.schema()), storage_options=access.deltalake())
    with command(server.environment, "--runs", RUNS) as link:
        found = visitor(link)
        with found.http:
            found.enter()
            yield found


def test_runs_are_told_with_what_they_did_not_meet(seen: Visitor) -> None:
    page = seen.get("/runs")
    assert page.index("visits") < page.index("patients"), "the latest first"
    for told in ("1,234", "has a day", "2026-11-25 06:00", "12.5", "with 1"):
        assert told in page
    assert HOSTILE not in page


def test_runs_of_one_dataset_and_those_that_failed(seen: Visitor) -> None:
    assert "visits" not in seen.get("/runs", dataset="patients")
    assert "patients" not in seen.get("/runs", failed="yes")
    assert "No run is like that" in seen.get("/runs", failed="yes", dataset="patients")


def test_another_table_is_told_in_the_page(console: Visitor) -> None:
    assert "say where it is" in console.get("/runs")
    assert "patients" in console.get("/runs", runs=RUNS)
    assert "there is no table of runs at" in console.get("/runs", runs="s3://deltaic-lake/none")
