"""Test that a commit writes only a few objects, and that an index has the files of the log."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from deltaic.errors import InvalidParameter
from deltaic.iceberg.file_index import MOST_SNAPSHOTS, FileIndex, split
from deltaic.iceberg.generation import FILES_A_MANIFEST, first_index, live_digests, newer_index, with_earlier
from deltaic.iceberg.refusals import TooManyFiles
from deltaic.iceberg.table_document import table_document
from iceberg.listed_table import ListedTable, add, remove, uris
from pyiceberg.avro.file import AvroFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import MANIFEST_ENTRY_SCHEMAS

pytestmark = pytest.mark.slow

FILES = 5 * FILES_A_MANIFEST
LOCATION = "s3://made/folder"


@pytest.fixture
def table(tmp_path: Path) -> ListedTable:
    new_table = ListedTable(tmp_path / "table")
    new_table.commit(*(add(number) for number in range(FILES)))
    return new_table


def manifest_keys(objects: object) -> list[str]:
    assert isinstance(objects, dict)
    return [key for key in objects if key.startswith("m/")]


def digests_of(index: FileIndex) -> list[bytes]:
    return sorted(digest for manifest in index.manifests for digest in split(manifest.digests))


def test_manifest_has_a_thousand_files(table: ListedTable) -> None:
    index = first_index(table.context, table.version(0))
    assert [manifest.files for manifest in index.manifests] == [FILES_A_MANIFEST] * 5
    assert {manifest.key for manifest in index.manifests} == {*manifest_keys(table.objects)}
    (manifest_list,) = table.objects.keys() - {*manifest_keys(table.objects)}
    assert manifest_list == index.snapshots[0].manifest_list


def test_same_files_give_the_same_objects(table: ListedTable) -> None:
    first_index(table.context, table.version(0))
    objects = table.take_objects()
    first_index(table.context, table.version(0))
    assert table.take_objects() == objects


def test_added_files_are_in_one_more_manifest(table: ListedTable) -> None:
    table.commit(*(add(FILES + number) for number in range(10)))
    before = first_index(table.context, table.version(0))
    table.take_objects()
    index = newer_index(table.context, table.version(1), before)
    assert len(manifest_keys(table.take_objects())) == 1
    assert [manifest.files for manifest in index.manifests] == [FILES_A_MANIFEST] * 5 + [10]


def test_limit_of_files_does_not_count_reused_manifests(table: ListedTable) -> None:
    table.commit(*(add(FILES + number) for number in range(10)))
    table.commit(remove(7))
    enough = msgspec.structs.replace(table.context, most_files=FILES_A_MANIFEST + 9)
    with pytest.raises(TooManyFiles, match=f"{FILES:,} files"):
        first_index(enough, table.version(0))
    before = first_index(table.context, table.version(0))
    table.take_objects()
    newer_index(enough, table.version(1), before)
    assert len(manifest_keys(table.take_objects())) == 1
    too_few = msgspec.structs.replace(enough, most_files=FILES_A_MANIFEST + 8)
    with pytest.raises(TooManyFiles):  # all files of the manifest with the removed file, and ten new files
        newer_index(too_few, table.version(2), before)
    assert table.take_objects() == {}


def test_small_manifests_are_merged(table: ListedTable) -> None:
    index = first_index(table.context, table.version(0))
    for commit in range(20):
        number = table.commit(*(add(FILES + 30 * commit + file) for file in range(30)))
        index = newer_index(table.context, table.version(number), index)
    assert sum(file.files for file in index.manifests) == FILES + 20 * 30
    assert len(index.manifests) == 5 + 2
    assert digests_of(index) == digests_of(first_index(table.context, table.version(number)))


def test_manifests_with_removed_files_are_rewritten(table: ListedTable) -> None:
    table.commit(remove(7), remove(8), remove(FILES - 1), add(FILES))
    before = first_index(table.context, table.version(0))
    table.take_objects()
    index = newer_index(table.context, table.version(1), before)
    assert len(manifest_keys(table.take_objects())) == 2
    assert digests_of(index) == digests_of(first_index(table.context, table.version(1)))


def test_commit_without_files_writes_only_a_list(table: ListedTable) -> None:
    table.commit({"txn": {"appId": "a", "version": 1}})
    before = first_index(table.context, table.version(0))
    table.take_objects()
    index = newer_index(table.context, table.version(1), before)
    assert len(table.take_objects()) == 1
    assert index.manifests == before.manifests


def test_files_are_listed_since_a_version(table: ListedTable) -> None:
    table.commit(remove(1))
    table.commit(remove(2), add(FILES))
    (first, second, live, new) = uris([1, 2, 3, FILES])
    forward = newer_index(table.context, table.version(1), first_index(table.context, table.version(0)))
    forward = newer_index(table.context, table.version(2), FileIndex.decode(forward.encode()))
    backward = with_earlier(table.context, table.version(1), first_index(table.context, table.version(2)))
    backward = with_earlier(table.context, table.version(0), FileIndex.decode(backward.encode()))
    for index in (forward, backward):
        decoded = FileIndex.decode(index.encode())
        assert decoded.versions == (0, 1, 2)
        assert [decoded.lists_file(LOCATION, uri) for uri in (first, second, live, new)] == [False, False, True, True]
        assert [decoded.lists_file(LOCATION, uri, 0) for uri in (first, second, live, new)] == [True, True, True, True]
        assert [decoded.lists_file(LOCATION, uri, 1) for uri in (first, second, live, new)] == [False, True, True, True]
        assert [decoded.lists_file(LOCATION, uri, 2) for uri in (first, second, live, new)] == [
            False,
            False,
            True,
            True,
        ]
        assert not decoded.lists_file(LOCATION, "s3://lake/table/p=None/part-99999.parquet", 0)
        assert not decoded.lists_file(LOCATION, "s3://other/table/p=None/part-00003.parquet", 0)


def test_adding_earlier_versions_rewrites_no_old_manifest(tmp_path: Path) -> None:
    """Each commit adds and removes files of all partitions, next to files in other manifests."""
    table, commits, parts = ListedTable(tmp_path / "table"), 5, 10
    table.commit(*(add(number, f"{number % parts}") for number in range(FILES)))
    for commit in range(commits):
        removes = [remove(commit * parts + part, f"{part}") for part in range(parts)]
        table.commit(*removes, *(add(FILES + commit * parts + part, f"{part}") for part in range(parts)))
    index = first_index(table.context, table.version(commits), live_digests(table.context, table.version(0)))
    table.take_objects()
    for number in reversed(range(commits)):
        index = with_earlier(table.context, table.version(number), FileIndex.decode(index.encode()))
        objects = table.take_objects()
        assert len(manifest_keys(objects)) == 1
        assert sum(map(len, objects.values())) < 10_000
    assert all(index.lists_file(LOCATION, uri, 0) for part in range(parts) for uri in uris([part], f"{part}"))


def test_index_lists_only_the_latest_versions_and_their_files(table: ListedTable) -> None:
    index = first_index(table.context, table.version(0))
    for number in range(1, MOST_SNAPSHOTS + 3):
        table.commit(remove(number))
        index = newer_index(table.context, table.version(number), index)
    assert index.versions == tuple(range(3, MOST_SNAPSHOTS + 3))
    assert [index.lists_file(LOCATION, uri, 0) for uri in uris([3, 4])] == [False, True]
    assert len(table_document(table.context, "t", index, since=0)["snapshots"]) == MOST_SNAPSHOTS
    assert len(table_document(table.context, "t", index, since=30)["snapshots"]) == 3
    assert len(table_document(table.context, "t", index)["snapshots"]) == 1


def test_versions_must_be_added_in_order(table: ListedTable) -> None:
    table.commit(remove(1))
    index = first_index(table.context, table.version(1))
    with pytest.raises(InvalidParameter, match="version 1 is not later than the newest listed version 1"):
        newer_index(table.context, table.version(1), index)
    with pytest.raises(InvalidParameter, match="version 1 is not before the earliest listed version 1"):
        with_earlier(table.context, table.version(1), index)


@pytest.mark.parametrize("cut", ["broken", "nothing"])
def test_invalid_index_is_refused(table: ListedTable, cut: str) -> None:
    data = first_index(table.context, table.version(0)).encode()
    with pytest.raises(ValueError, match="not a file index"):
        FileIndex.decode(data[:-5] if cut == "broken" else b"")


def test_files_of_a_partition_are_in_the_same_manifest(tmp_path: Path) -> None:
    table = ListedTable(tmp_path / "table")
    table.commit(*(add(number, f"{number % 10}") for number in range(2 * FILES_A_MANIFEST)))
    index = first_index(table.context, table.version(0))
    # Ten partitions of two hundred files: five of them fill a manifest, whose bounds are 0 and 4, 5 and 9.
    assert [b"\x020" in manifest.summary and b"\x024" in manifest.summary for manifest in index.manifests] == [
        True,
        False,
    ]
    assert [b"\x025" in manifest.summary and b"\x029" in manifest.summary for manifest in index.manifests] == [
        False,
        True,
    ]


def test_table_id_that_is_no_uuid_gives_a_stable_uuid(table: ListedTable) -> None:
    index = first_index(table.context, table.version(0))
    first, again, second = (table_document(table.context, name, index)["table-uuid"] for name in ("a", "a", "b"))
    assert first == again != second


def test_times_of_snapshots_ascend(table: ListedTable) -> None:
    table.commit(remove(1))
    late = msgspec.structs.replace(table.version(0), timestamp=9_000)
    index = newer_index(table.context, table.version(1), first_index(table.context, late))
    document = table_document(table.context, "t", index, since=0)
    assert [snapshot["timestamp-ms"] for snapshot in document["snapshot-log"]] == [1_000, 1_001]
    assert [snapshot["timestamp-ms"] for snapshot in document["snapshots"]] == [1_000, 1_001]


def snapshots_of_entries(objects: Mapping[str, bytes], folder: Path) -> set[int]:
    """Return the snapshot ids in entries of data files, read by pyiceberg."""
    snapshot_ids: set[int] = set()
    for key in manifest_keys(objects):
        path = folder / key.rpartition("/")[2]
        path.write_bytes(objects[key])
        entries: AvroFile[Any] = AvroFile(PyArrowFileIO().new_input(str(path)), MANIFEST_ENTRY_SCHEMAS[2])
        with entries:
            snapshot_ids |= {entry[1] for entry in entries}
    return snapshot_ids


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        pytest.param(None, 10**12 - 1, id="not_recorded"),
        pytest.param(0, 10**12, id="added_in_version_0"),
        pytest.param(1, 10**12 + 1, id="added_in_version_1"),
        pytest.param(2, 10**12 - 1, id="later_than_the_version"),
        pytest.param(-5, 10**12 - 1, id="negative"),
        pytest.param(2**63 - 1, 10**12 - 1, id="largest_long"),
    ],
)
def test_entry_has_the_version_that_added_its_file_or_no_listed_one(
    recorded: int | None, expected: int, tmp_path: Path
) -> None:
    table = ListedTable(tmp_path / "table")
    table.commit()
    table.commit(add(1, defaultRowCommitVersion=recorded))
    index = first_index(table.context, table.version(1))
    assert snapshots_of_entries(table.objects, tmp_path) == {expected}
    listed = with_earlier(table.context, table.version(0), index).versions
    assert (expected - 10**12 in listed) == (recorded in listed)


def test_files_of_other_rights_have_other_digests(table: ListedTable) -> None:
    elsewhere = msgspec.structs.replace(table.context, location="s3://made/another")
    index, other_index = (first_index(context, table.version(0)) for context in (table.context, elsewhere))
    assert index.live.isdisjoint(other_index.live)
    assert {len(digest) for digest in index.live} == {16}
    [uri] = uris([7])
    assert index.lists_file(LOCATION, uri)
    assert other_index.lists_file(elsewhere.location, uri)
    assert not index.lists_file(elsewhere.location, uri)
