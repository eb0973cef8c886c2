"""Clients that do not fit into this environment: pyiceberg with fsspec's files, polars, daft, DuckDB."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from filled_server import FilledServer

pytestmark = pytest.mark.slow

PACKAGES: Final = (
    "pyiceberg[pyarrow,s3fs]==0.12.0",
    "s3fs==2026.9.0",
    "polars==2.1.0",
    "daft==0.7.26",
    "duckdb==1.5.5",
    *(f"duckdb-extension-{name}==1.5.5" for name in ("avro", "httpfs", "iceberg")),
)
ALL: Final = [*range(12), 100, 101]


@pytest.fixture(scope="module")
def read(server: FilledServer) -> dict[str, Any]:
    """Return what each client read."""
    told = {"uri": f"{server.endpoint}/iceberg", "tokens": {name: one.token for name, one in server.readers.items()}}
    packages = [part for package in PACKAGES for part in ("--with", package)]
    script = Path(__file__).with_name("read_elsewhere.py")
    done = subprocess.run(
        ["uv", "run", "--quiet", "--no-project", "--python", sys.executable, *packages, "python", script],
        input=json.dumps(told),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
        env={**os.environ, "PYICEBERG_MAX_WORKERS": "1"},  # s3fs leaves requests of several threads unsigned by chance
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


READ: Final = [f"{client} {access}" for client in ("fsspec", "polars", "daft") for access in ("vended", "signed")]


@pytest.mark.parametrize("what", [*READ, "fsspec counted", "duckdb vended"])
def test_all_rows_are_read(read: dict[str, Any], what: str) -> None:
    assert read[what] == ALL


def test_a_recipient_reads_its_rows_and_visible_columns(read: dict[str, Any]) -> None:
    assert read["fsspec alice"] == [1, 4, 7, 10]
    assert read["fsspec bob"] == [0, 3, 6, 9]
    assert read["fsspec hidden"] == ["id", "note"]


def test_duckdb_filters_travels_and_writes_nothing(read: dict[str, Any]) -> None:
    assert (read["duckdb filtered"], read["duckdb first version"]) == (4, 12)
    for what in ("create", "drop"):
        assert "shared tables are read only" in read[f"duckdb {what}"]
    assert "AccessDenied" in read["duckdb insert"]


def test_daft_by_itself_reads_no_file_without_ids_of_its_columns(read: dict[str, Any]) -> None:
    """Such are all files of a Delta table whose columns are not mapped; `docs/recipients.md` has its other way."""
    assert "`schema.name-mapping.default` property, which Daft does not apply yet" in read["daft alone"]
