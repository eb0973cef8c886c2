"""Test that pyiceberg reads the rows of Spark at every version, or that the table is refused with a reason."""

from pathlib import Path
from typing import Final

import pytest
from deltaic.errors import UnsupportedOperation
from golden.library import load, place
from iceberg.golden_rows import FIRST_LISTED, PADDED, READ, REFUSED, sorted_rows
from iceberg.metadata_folder import IcebergFolder, snapshot_rows
from pyiceberg.table import StaticTable


@pytest.fixture(autouse=True)
def _reads_nanoseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pyiceberg read INT96 timestamps in tables of format version 3, as it does in version 2."""
    monkeypatch.setenv("PYICEBERG_DOWNCAST_NS_TIMESTAMP_TO_US_ON_WRITE", "true")


BACKWARDS: Final = (
    "clone_deletion_vectors", "column_mapping_later", "column_mapping_name", "deletion_vectors", "everything",
    "evolved", "overwritten", "partitioned_types",
)  # fmt: skip
"""Tables whose versions are also added from the last to the first."""


@pytest.mark.parametrize(
    ("name", "backwards"),
    [*((name, False) for name in READ), *((name, True) for name in BACKWARDS)],
    ids=lambda value: value if isinstance(value, str) else "newest_first" if value else "as_commits_come",
)
def test_pyiceberg_reads_the_rows_of_spark(name: str, backwards: bool, tmp_path: Path) -> None:
    golden = load(name)
    folder = IcebergFolder(place(golden, tmp_path), tmp_path / "iceberg")
    versions = [number for number in golden.versions if number >= FIRST_LISTED.get(name, 0)]
    index = folder.index(reversed(versions) if backwards else versions)
    assert index.versions == tuple(versions)
    table = StaticTable.from_metadata(str(folder.write_document(index)))
    assert {f"v{number}" for number in versions} | {"main"} == {*table.refs()}
    for number in versions:
        expected = golden.rows(number)
        rows = snapshot_rows(table, number)
        padded = PADDED.get(name) if PADDED.get(name) in expected.column_names else None
        assert rows.column_names == expected.column_names
        assert sorted_rows(rows, rows.column_names, padded) == sorted_rows(expected, rows.column_names, padded), number


@pytest.mark.parametrize("name", REFUSED)
def test_table_that_would_be_misread_is_refused(name: str, tmp_path: Path) -> None:
    golden = load(name)
    folder = IcebergFolder(place(golden, tmp_path), tmp_path / "iceberg")
    with pytest.raises(UnsupportedOperation) as refusal:
        folder.index(golden.versions[-1:])
    assert REFUSED[name] in refusal.value.message
    assert not folder.objects


def test_versions_before_column_mapping_are_not_listed_with_later_ones(tmp_path: Path) -> None:
    golden = load("column_mapping_later")
    folder = IcebergFolder(place(golden, tmp_path), tmp_path / "iceberg")
    assert folder.index([0, 1]).versions == (0, 1)
    assert folder.index([0, 1, 2, 3]).versions == (2, 3)
    with pytest.raises(UnsupportedOperation, match="a column of version 1 has the name of another column"):
        folder.index([2, 1])
