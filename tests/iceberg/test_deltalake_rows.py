"""Test that pyiceberg reads the rows of tables that deltalake wrote, at every version."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from iceberg.metadata_folder import IcebergFolder
from pyiceberg.table import StaticTable

PARTITIONS = ["plain", "x y", "per%cent", "a+b", "c=d", 'q"uote', "ünïcode/slash", None, "10:20", "\u2028"]


def write_history(root: Path) -> int:
    """Write appends, deletes, a compaction, a new column and an overwrite, with awkward partition values."""
    path = str(root)
    for number in range(2):
        rows = {"p": PARTITIONS, "x": list(range(number, number + len(PARTITIONS)))}
        write_deltalake(path, pa.table(rows), partition_by=["p"], mode="append")
    DeltaTable(path).delete("x = 4")
    DeltaTable(path).delete("p = 'x y'")
    DeltaTable(path).optimize.compact()
    wider = pa.table({"p": ["plain"], "x": [7], "y": [[1.5, None]]})
    write_deltalake(path, wider, mode="append", schema_mode="merge")
    write_deltalake(path, wider, mode="overwrite", predicate="p = 'plain'")
    return DeltaTable(path).version()


def texts(rows: pa.Table, columns: list[str]) -> list[str]:
    return sorted(repr(row) for row in rows.select(columns).to_pylist())


@pytest.mark.parametrize("backwards", [False, True], ids=["as_commits_come", "newest_first"])
def test_pyiceberg_reads_the_rows_of_deltalake(tmp_path: Path, backwards: bool) -> None:
    root = tmp_path / "delta"
    versions = range(write_history(root) + 1)
    folder = IcebergFolder(root, tmp_path / "iceberg")
    index = folder.index(reversed(versions) if backwards else versions)
    table = StaticTable.from_metadata(str(folder.write_document(index)))
    for number in versions:
        expected = pa.table(DeltaTable(str(root), number).to_pyarrow_table())
        # Read in batches: deltalake rewrites files with another Arrow text type, which pyiceberg cannot concatenate.
        rows = table.scan(snapshot_id=10**12 + number).to_arrow_batch_reader().read_all()
        assert texts(rows, expected.column_names) == texts(expected, expected.column_names), number
