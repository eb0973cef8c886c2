"""DuckDB reads each golden table as Spark read it, and what deltalake wrote as deltalake does, at every version."""

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
from iceberg.golden_rows import FIRST_LISTED, PADDED, READ, plain
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
    """Return the folder of what was read: a file for each table and version."""
    root = tmp_path_factory.mktemp("duckdb")
    asked: list[dict[str, Any]] = []
    for name in READ:
        (root / name).mkdir()
        golden = load(name)
        listed = [number for number in golden.versions if number >= FIRST_LISTED.get(name, 0)]
        asked += made(root, name, listed, place(golden, root / name))
    versions = range(write_history(root / "history") + 1)
    asked += made(root, "history", versions)
    write_deltalake(root / "maps", pa.table({"m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))}))
    asked += made(root, "maps", [0])
    packages = [part for package in PACKAGES for part in ("--with", package)]
    done = subprocess.run(
        [
            *("uv", "run", "--quiet", "--no-project", "--python", sys.executable, *packages, "python"),
            Path(__file__).with_name("read_with_duckdb.py"),
        ],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    failures = json.loads(done.stdout.splitlines()[-1])
    # Maps that deltalake wrote it does not read, and says so: their group has another name than Spark's.
    assert "MAP" in failures.pop(str(root / "maps-0.arrow"))
    assert failures == {}
    return root


def made(root: Path, name: str, versions: Sequence[int], table: Path | None = None) -> list[dict[str, Any]]:
    """Make the metadata of a table; returns what is asked of DuckDB."""
    folder = IcebergFolder(table or root / name, root / f"{name}-iceberg")
    document = str(folder.write_document(folder.index(versions)))
    return [
        {"document": document, "version": number, "into": str(root / f"{name}-{number}.arrow")} for number in versions
    ]


def rows_of(root: Path, name: str, number: int) -> pa.Table:
    with pa.OSFile(str(root / f"{name}-{number}.arrow")) as source:
        rows: pa.Table = pa.ipc.open_file(source).read_all()
    return rows


def test_every_version_has_deltalake_s_rows(read: Path) -> None:
    for number in range(DeltaTable(read / "history").version() + 1):
        expected = pa.table(DeltaTable(read / "history", number).to_pyarrow_table())
        found = rows_of(read, "history", number)
        assert texts(found, expected.column_names) == texts(expected, expected.column_names), number


@pytest.mark.parametrize("name", READ)
def test_every_version_has_spark_s_rows(read: Path, name: str) -> None:
    golden = load(name)
    for number in golden.versions:
        if number < FIRST_LISTED.get(name, 0):
            continue
        rows = rows_of(read, name, number)
        expected = golden.rows(number)
        padded = PADDED.get(name) if PADDED.get(name) in expected.column_names else None
        assert rows.column_names == expected.column_names
        assert plain(rows, rows.column_names, padded) == plain(expected, rows.column_names, padded), number
