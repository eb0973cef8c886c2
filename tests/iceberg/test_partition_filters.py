"""Test that metadata for filtered partitions has no file and no deletion vector of other partitions."""

from pathlib import Path

import pytest
from deltaic.iceberg.file_index import FileIndex
from deltaic.iceberg.generation import first_index, newer_index, with_earlier
from deltaic.iceberg.table_version import TableVersion
from deltaic.partition_filters import parse
from deltaic.sharing.rights.table_rights import Rights
from deltaic.sharing.rights.table_visibility import visibility_of
from iceberg.metadata_folder import IcebergFolder, snapshot_rows
from iceberg.model_table import ModelColumn, ModelTable, Row
from pyiceberg.table import StaticTable

FILTER = "region = current_recipient('region')"
REGIONS = ("eu", "us", "a b/c%d")


@pytest.fixture(params=[False, True], ids=["by_name", "mapped"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> ModelTable:
    columns = [ModelColumn("region", "string", 0, is_partition=True), ModelColumn("x", "long", 1)]
    new_table = ModelTable(tmp_path / "delta", columns, request.param)
    new_table.append([{"region": region, "x": number} for region in (*REGIONS, None) for number in range(4)])
    new_table.delete([0, 5, 10, 15])
    new_table.append([{"region": "eu", "x": 9}])
    return new_table


def version(folder: IcebergFolder, number: int, rights: Rights) -> TableVersion:
    snapshot = folder.log.snapshot(number)
    visibility = visibility_of(rights, snapshot.metadata)
    return TableVersion(
        number, 1_000 + number, visibility.metadata, lambda: snapshot.files(visibility.row_filter(None))
    )


def create_metadata(
    rights: Rights, table: ModelTable, path: Path, *, backwards: bool
) -> tuple[IcebergFolder, FileIndex]:
    folder = IcebergFolder(table.root, path)
    first, *others = reversed(range(4)) if backwards else range(4)
    index = first_index(folder.context, version(folder, first, rights))
    for number in others:
        add_version = with_earlier if backwards else newer_index
        index = add_version(folder.context, version(folder, number, rights), index)
    return folder, index


def listed_files(read: StaticTable) -> set[str]:
    """Return the data files in the manifests of all versions."""
    files: set[str] = set()
    for snapshot in read.snapshots():
        for manifest in snapshot.manifests(read.io):
            for entry in manifest.fetch_manifest_entry(read.io):
                files.add(entry.data_file.file_path)
    return {path for path in files if path.endswith(".parquet")}


@pytest.mark.parametrize("backwards", [False, True], ids=["as_commits_come", "newest_first"])
@pytest.mark.parametrize("region", REGIONS)
def test_files_of_other_partitions_are_not_listed(
    table: ModelTable, region: str, backwards: bool, tmp_path: Path
) -> None:
    rights = Rights((parse(FILTER),), {"region": region})
    folder, index = create_metadata(rights, table, tmp_path / "iceberg", backwards=backwards)
    read = StaticTable.from_metadata(str(folder.write_document(index)))
    visible = {f"file://{table.root}/{file.name}" for file in table.files if file.partition[0] == region}
    hidden = {f"file://{table.root}/{path.name}" for path in table.root.glob("*.parquet")} - visible
    assert visible
    assert hidden
    assert listed_files(read) == visible
    assert all(index.lists_file(folder.context.location, uri, 0) for uri in visible)
    assert not any(index.lists_file(folder.context.location, uri, 0) for uri in hidden)
    for uri in hidden:
        name = uri.rpartition("/")[2].encode()
        assert not [key for key, content in folder.objects.items() if key.endswith(".puffin") and name in content]
    for number, rows in enumerate(table.versions):
        assert sorted_by_x(snapshot_rows(read, number).to_pylist()) == sorted_by_x(
            [row for row in rows if row["region"] == region]
        )


def test_recipient_without_the_property_gets_no_file(table: ModelTable, tmp_path: Path) -> None:
    folder, index = create_metadata(Rights((parse(FILTER),)), table, tmp_path / "iceberg", backwards=False)
    read = StaticTable.from_metadata(str(folder.write_document(index)))
    assert listed_files(read) == set()
    assert snapshot_rows(read, 3).num_rows == 0
    assert {key.split("/")[0] for key in folder.objects} == {"l"}


def test_hidden_column_is_not_in_the_metadata(table: ModelTable, tmp_path: Path) -> None:
    rights = Rights((), {}, frozenset({"region"}))
    folder, index = create_metadata(rights, table, tmp_path / "iceberg", backwards=False)
    path = folder.write_document(index)
    read = StaticTable.from_metadata(str(path))
    assert read.schema().column_names == ["x"]
    assert b"region" not in path.read_bytes()
    assert sorted(snapshot_rows(read, 3)["x"].to_pylist()) == sorted(row["x"] for row in table.versions[-1])


def sorted_by_x(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: str(row["x"]))
