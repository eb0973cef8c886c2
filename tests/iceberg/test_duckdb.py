"""Test that DuckDB reads the rows of Spark and deltalake, at every version."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from golden.library import load, place
from iceberg.golden_rows import FIRST_LISTED, PADDED, READ, sorted_rows
from iceberg.metadata_folder import IcebergFolder
from iceberg.test_deltalake_rows import texts, write_history

pytestmark = pytest.mark.slow

PACKAGES: Final = (
    "duckdb==1.5.5",
    *(f"duckdb-extension-{name}==1.5.5" for name in ("avro", "httpfs", "iceberg")),
    "pyarrow==23.0.1",
)


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the rows that DuckDB has read: a file for each table and version."""
    root = tmp_path_factory.mktemp("duckdb")
    requests: list[dict[str, Any]] = []
    for name in READ:
        (root / name).mkdir()
        golden = load(name)
        listed_versions = [number for number in golden.versions if number >= FIRST_LISTED.get(name, 0)]
        requests += create_metadata(root, name, listed_versions, place(golden, root / name))
    versions = range(write_history(root / "history") + 1)
    requests += create_metadata(root, "history", versions)
    write_deltalake(root / "maps", pa.table({"m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))}))
    requests += create_metadata(root, "maps", [0])
    packages = [part for package in PACKAGES for part in ("--with", package)]
    process = subprocess.run(
        [
            *("uv", "run", "--quiet", "--no-project", "--python", sys.executable, *packages, "python"),
            Path(__file__).with_name("read_with_duckdb.py"),
        ],
        input=json.dumps(requests),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    failures = json.loads(process.stdout.splitlines()[-1])
    # DuckDB reports an error for maps that deltalake wrote, whose Parquet group has another name than Spark's.
    assert "MAP" in failures.pop(str(root / "maps-0.arrow"))
    assert failures == {}
    return root


def create_metadata(root: Path, name: str, versions: Sequence[int], table: Path | None = None) -> list[dict[str, Any]]:
    """Generate the metadata of a table, and return the reads that DuckDB must do."""
    folder = IcebergFolder(table or root / name, root / f"{name}-iceberg")
    document = str(folder.write_document(folder.index(versions)))
    return [
        {"document": document, "version": number, "into": str(root / f"{name}-{number}.arrow")} for number in versions
    ]


def rows_of(root: Path, name: str, number: int) -> pa.Table:
    with pa.OSFile(str(root / f"{name}-{number}.arrow")) as source:
        rows: pa.Table = pa.ipc.open_file(source).read_all()
    return rows


def test_duckdb_reads_the_rows_of_deltalake(read: Path) -> None:
    for number in range(DeltaTable(read / "history").version() + 1):
        expected = pa.table(DeltaTable(read / "history", number).to_pyarrow_table())
        rows = rows_of(read, "history", number)
        assert texts(rows, expected.column_names) == texts(expected, expected.column_names), number


@pytest.mark.parametrize("name", READ)
def test_duckdb_reads_the_rows_of_spark(read: Path, name: str) -> None:
    golden = load(name)
    for number in golden.versions:
        if number < FIRST_LISTED.get(name, 0):
            continue
        rows = rows_of(read, name, number)
        expected = golden.rows(number)
        padded = PADDED.get(name) if PADDED.get(name) in expected.column_names else None
        assert rows.column_names == expected.column_names
        assert sorted_rows(rows, rows.column_names, padded) == sorted_rows(expected, rows.column_names, padded), number
