"""Test the page of dataset runs: its default table, another table, and its filters."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from console.conftest import HOSTILE, Visitor, open_visitor, run_console
from deltaic_ops.local.resources import DATA_BUCKET
from deltaic_pipeline.spark.storage_access import S3Access
from deltaic_pipeline.table import run_log
from deltalake import write_deltalake
from filled_server import FilledServer

pytestmark = pytest.mark.slow

RUNS = f"s3://{DATA_BUCKET}/console-runs"


@pytest.fixture(scope="module")
def runs_console(server: FilledServer) -> Iterator[Visitor]:
    """Return a visitor of a console with a table of two runs, one of which failed."""

    def row(dataset: str, **fields: Any) -> dict[str, Any]:
        expectation = {"name": "has a day", "action": "warn", "at_most": "", "failing": 3, "met": False}
        started = datetime(2026, 11, 25, 6, 0, tzinfo=UTC)
        values = {"began": started, "seconds": 12.5, "exit": 0, "rows_read": 1234, "expectations": [expectation]}
        return {"dataset": dataset, "run": dataset, **values, **fields}

    runs = [row("patients"), row("visits", exit=1, message=HOSTILE, expectations=None, rows_read=None)]
    access = S3Access.from_environment(server.environment)
    write_deltalake(RUNS, pa.Table.from_pylist(runs, run_log.schema()), storage_options=access.deltalake())
    with run_console(server.environment, "--runs", RUNS) as link:
        visitor = open_visitor(link)
        with visitor.http:
            visitor.sign_in()
            yield visitor


def test_runs_page_shows_figures_and_unmet_expectations(runs_console: Visitor) -> None:
    page = runs_console.get("/runs")
    assert page.index("visits") < page.index("patients"), "the latest first"
    for text in ("1,234", "has a day", "2026-11-25 06:00", "12.5", "exit code 1"):
        assert text in page
    assert HOSTILE not in page


def test_runs_page_filters_by_dataset_and_failure(runs_console: Visitor) -> None:
    assert "visits" not in runs_console.get("/runs", dataset="patients")
    assert "patients" not in runs_console.get("/runs", failed="yes")
    assert "No run matches" in runs_console.get("/runs", failed="yes", dataset="patients")


def test_runs_page_reads_another_table(console: Visitor) -> None:
    assert "Enter the location of a runs table" in console.get("/runs")
    assert "patients" in console.get("/runs", runs=RUNS)
    assert "there is no runs table at" in console.get("/runs", runs="s3://deltaic-lake/none")
