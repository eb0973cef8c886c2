"""Test clients that need a separate environment: pyiceberg with fsspec, polars, daft, DuckDB."""

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
    """Return the results of all clients."""
    tables_server = {
        "uri": f"{server.endpoint}/iceberg",
        "tokens": {name: reader.token for name, reader in server.readers.items()},
    }
    packages = [part for package in PACKAGES for part in ("--with", package)]
    script = Path(__file__).with_name("read_elsewhere.py")
    process = subprocess.run(
        ["uv", "run", "--quiet", "--no-project", "--python", sys.executable, *packages, "python", script],
        input=json.dumps(tables_server),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
        env={**os.environ, "PYICEBERG_MAX_WORKERS": "1"},  # s3fs sometimes does not sign requests of several threads
    )
    assert process.returncode == 0, process.stderr[-3000:]
    results: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return results


READ: Final = [f"{client} {access}" for client in ("fsspec", "polars", "daft") for access in ("vended", "signed")]


@pytest.mark.parametrize("client", [*READ, "fsspec counted", "duckdb vended"])
def test_all_rows_are_read(read: dict[str, Any], client: str) -> None:
    assert read[client] == ALL


def test_a_recipient_reads_its_rows_and_visible_columns(read: dict[str, Any]) -> None:
    assert read["fsspec alice"] == [1, 4, 7, 10]
    assert read["fsspec bob"] == [0, 3, 6, 9]
    assert read["fsspec hidden"] == ["id", "note"]


def test_duckdb_filters_time_travels_and_cannot_write(read: dict[str, Any]) -> None:
    assert (read["duckdb filtered"], read["duckdb first version"]) == (4, 12)
    for statement in ("create", "drop"):
        assert "shared tables are read only" in read[f"duckdb {statement}"]
    assert "AccessDenied" in read["duckdb insert"]


def test_daft_cannot_read_files_without_column_ids(read: dict[str, Any]) -> None:
    """Files of Delta tables without column mapping have no ids; `docs/recipients.md` shows another way."""
    assert "`schema.name-mapping.default` property, which Daft does not apply yet" in read["daft alone"]
