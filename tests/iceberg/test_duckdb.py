"""DuckDB reads each golden table as Spark read it, at every version."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from golden.library import load, place
from iceberg.golden_rows import FIRST_LISTED, PADDED, READ, plain
from iceberg.metadata_folder import IcebergFolder

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
        folder = IcebergFolder(place(golden, root / name), root / name / "iceberg")
        versions = [number for number in golden.versions if number >= FIRST_LISTED.get(name, 0)]
        document = str(folder.write_document(folder.index(versions)))
        asked += [
            {"document": document, "version": number, "into": str(root / f"{name}-{number}.arrow")}
            for number in versions
        ]
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
    assert json.loads(done.stdout.splitlines()[-1]) == {}
    return root


@pytest.mark.parametrize("name", READ)
def test_every_version_has_spark_s_rows(read: Path, name: str) -> None:
    golden = load(name)
    for number in golden.versions:
        if number < FIRST_LISTED.get(name, 0):
            continue
        with pa.OSFile(str(read / f"{name}-{number}.arrow")) as source:
            rows = pa.ipc.open_file(source).read_all()
        expected = golden.rows(number)
        padded = PADDED.get(name) if PADDED.get(name) in expected.column_names else None
        assert rows.column_names == expected.column_names
        assert plain(rows, rows.column_names, padded) == plain(expected, rows.column_names, padded), number
