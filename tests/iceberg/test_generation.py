"""A commit makes a few objects anew; what an index says of files is what the log says."""

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

FILES = 5 * FILES_A_MANIFEST
MADE = "s3://made/folder"


@pytest.fixture
def table(tmp_path: Path) -> ListedTable:
    made = ListedTable(tmp_path / "table")
    made.commit(*(add(number) for number in range(FILES)))
    return made


def manifests(objects: object) -> list[str]:
    assert isinstance(objects, dict)
    return [key for key in objects if key.startswith("m/")]


def files_of(index: FileIndex) -> list[bytes]:
    return sorted(name for one in index.manifests for name in split(one.digests))


def test_a_thousand_files_are_a_manifest(table: ListedTable) -> None:
    index = first_index(table.context, table.version(0))
    assert [one.files for one in index.manifests] == [FILES_A_MANIFEST] * 5
    assert {one.key for one in index.manifests} == {*manifests(table.objects)}
    (listed,) = table.objects.keys() - {*manifests(table.objects)}
    assert listed == index.snapshots[0].manifest_list


def test_the_same_files_are_the_same_objects(table: ListedTable) -> None:
    first_index(table.context, table.version(0))
    made = table.take()
    first_index(table.context, table.version(0))
    assert table.take() == made


def test_files_that_come_are_one_manifest_more(table: ListedTable) -> None:
    table.commit(*(add(FILES + number) for number in range(10)))
    before = first_index(table.context, table.version(0))
    table.take()
    index = newer_index(table.context, table.version(1), before)
    assert len(manifests(table.take())) == 1
    assert [one.files for one in index.manifests] == [FILES_A_MANIFEST] * 5 + [10]


def test_so_many_files_are_listed_anew_and_those_of_what_stays_are_not_counted(table: ListedTable) -> None:
    table.commit(*(add(FILES + number) for number in range(10)))
    table.commit(remove(7))
    few = msgspec.structs.replace(table.context, most_files=FILES_A_MANIFEST + 9)
    with pytest.raises(TooManyFiles, match=f"{FILES:,} files"):
        first_index(few, table.version(0))
    before = first_index(table.context, table.version(0))
    table.take()
    newer_index(few, table.version(1), before)
    assert len(manifests(table.take())) == 1
    less = msgspec.structs.replace(few, most_files=FILES_A_MANIFEST + 8)
    with pytest.raises(TooManyFiles):  # the manifest that has lost a file is listed anew, and ten files beside it
        newer_index(less, table.version(2), before)
    assert table.take() == {}


def test_small_manifests_become_one(table: ListedTable) -> None:
    index = first_index(table.context, table.version(0))
    for commit in range(20):
        number = table.commit(*(add(FILES + 30 * commit + one) for one in range(30)))
        index = newer_index(table.context, table.version(number), index)
    assert sum(one.files for one in index.manifests) == FILES + 20 * 30
    assert len(index.manifests) == 5 + 2
    assert files_of(index) == files_of(first_index(table.context, table.version(number)))


def test_files_that_go_make_their_manifests_anew(table: ListedTable) -> None:
    table.commit(remove(7), remove(8), remove(FILES - 1), add(FILES))
    before = first_index(table.context, table.version(0))
    table.take()
    index = newer_index(table.context, table.version(1), before)
    assert len(manifests(table.take())) == 2
    assert files_of(index) == files_of(first_index(table.context, table.version(1)))


def test_a_commit_without_files_makes_a_list_alone(table: ListedTable) -> None:
    table.commit({"txn": {"appId": "a", "version": 1}})
    before = first_index(table.context, table.version(0))
    table.take()
    index = newer_index(table.context, table.version(1), before)
    assert len(table.take()) == 1
    assert index.manifests == before.manifests


def test_files_are_listed_since_a_version(table: ListedTable) -> None:
    table.commit(remove(1))
    table.commit(remove(2), add(FILES))
    (one, two, live, new) = uris([1, 2, 3, FILES])
    forth = newer_index(table.context, table.version(1), first_index(table.context, table.version(0)))
    forth = newer_index(table.context, table.version(2), FileIndex.decode(forth.encode()))
    back = with_earlier(table.context, table.version(1), first_index(table.context, table.version(2)))
    back = with_earlier(table.context, table.version(0), FileIndex.decode(back.encode()))
    for index in (forth, back):
        again = FileIndex.decode(index.encode())
        assert again.versions == (0, 1, 2)
        assert [again.lists_file(MADE, uri) for uri in (one, two, live, new)] == [False, False, True, True]
        assert [again.lists_file(MADE, uri, 0) for uri in (one, two, live, new)] == [True, True, True, True]
        assert [again.lists_file(MADE, uri, 1) for uri in (one, two, live, new)] == [False, True, True, True]
        assert [again.lists_file(MADE, uri, 2) for uri in (one, two, live, new)] == [False, False, True, True]
        assert not again.lists_file(MADE, "s3://lake/table/p=None/part-99999.parquet", 0)
        assert not again.lists_file(MADE, "s3://other/table/p=None/part-00003.parquet", 0)


def test_going_back_makes_no_manifest_of_old_files_anew(tmp_path: Path) -> None:
    """Though each commit adds and removes files of all partitions, beside which the others stand in manifests."""
    table, commits, parts = ListedTable(tmp_path / "table"), 5, 10
    table.commit(*(add(number, f"{number % parts}") for number in range(FILES)))
    for commit in range(commits):
        gone = [remove(commit * parts + part, f"{part}") for part in range(parts)]
        table.commit(*gone, *(add(FILES + commit * parts + part, f"{part}") for part in range(parts)))
    index = first_index(table.context, table.version(commits), live_digests(table.context, table.version(0)))
    table.take()
    for number in reversed(range(commits)):
        index = with_earlier(table.context, table.version(number), FileIndex.decode(index.encode()))
        made = table.take()
        assert len(manifests(made)) == 1
        assert sum(map(len, made.values())) < 10_000
    assert all(index.lists_file(MADE, uri, 0) for part in range(parts) for uri in uris([part], f"{part}"))


def test_so_many_versions_are_listed_and_no_file_of_others(table: ListedTable) -> None:
    index = first_index(table.context, table.version(0))
    for number in range(1, MOST_SNAPSHOTS + 3):
        table.commit(remove(number))
        index = newer_index(table.context, table.version(number), index)
    assert index.versions == tuple(range(3, MOST_SNAPSHOTS + 3))
    assert [index.lists_file(MADE, uri, 0) for uri in uris([3, 4])] == [False, True]
    assert len(table_document(table.context, "t", index, since=0)["snapshots"]) == MOST_SNAPSHOTS
    assert len(table_document(table.context, "t", index, since=30)["snapshots"]) == 3
    assert len(table_document(table.context, "t", index)["snapshots"]) == 1


def test_versions_come_in_their_order(table: ListedTable) -> None:
    table.commit(remove(1))
    index = first_index(table.context, table.version(1))
    with pytest.raises(InvalidParameter, match="version 1 is not later than 1"):
        newer_index(table.context, table.version(1), index)
    with pytest.raises(InvalidParameter, match="version 1 is not before 1"):
        with_earlier(table.context, table.version(1), index)


@pytest.mark.parametrize("cut", ["broken", "nothing"])
def test_what_is_no_index_is_refused(table: ListedTable, cut: str) -> None:
    data = first_index(table.context, table.version(0)).encode()
    with pytest.raises(ValueError, match="not a file index"):
        FileIndex.decode(data[:-5] if cut == "broken" else b"")


def test_files_of_a_partition_stand_beside_each_other(tmp_path: Path) -> None:
    table = ListedTable(tmp_path / "table")
    table.commit(*(add(number, f"{number % 10}") for number in range(2 * FILES_A_MANIFEST)))
    index = first_index(table.context, table.version(0))
    # Ten partitions of two hundred files: five of them fill a manifest, whose bounds are 0 and 4, 5 and 9.
    assert [b"\x020" in one.summary and b"\x024" in one.summary for one in index.manifests] == [True, False]
    assert [b"\x025" in one.summary and b"\x029" in one.summary for one in index.manifests] == [False, True]


def test_a_table_keeps_an_identity_that_is_no_uuid(table: ListedTable) -> None:
    index = first_index(table.context, table.version(0))
    one, again, other = (table_document(table.context, name, index)["table-uuid"] for name in ("a", "a", "b"))
    assert one == again != other


def test_times_of_snapshots_grow(table: ListedTable) -> None:
    table.commit(remove(1))
    late = msgspec.structs.replace(table.version(0), timestamp=9_000)
    index = newer_index(table.context, table.version(1), first_index(table.context, late))
    document = table_document(table.context, "t", index, since=0)
    assert [one["timestamp-ms"] for one in document["snapshot-log"]] == [1_000, 1_001]
    assert [one["timestamp-ms"] for one in document["snapshots"]] == [1_000, 1_001]


def snapshots_of_entries(objects: Mapping[str, bytes], folder: Path) -> set[int]:
    """Return the snapshot ids that entries of data files name, as Iceberg's own library reads them."""
    found: set[int] = set()
    for key in manifests(objects):
        path = folder / key.rpartition("/")[2]
        path.write_bytes(objects[key])
        entries: AvroFile[Any] = AvroFile(PyArrowFileIO().new_input(str(path)), MANIFEST_ENTRY_SCHEMAS[2])
        with entries:
            found |= {entry[1] for entry in entries}
    return found


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
def test_entry_names_the_version_that_added_its_file_or_no_listed_one(
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
    one, other = (first_index(context, table.version(0)) for context in (table.context, elsewhere))
    assert one.live.isdisjoint(other.live)
    assert {len(name) for name in one.live} == {16}
    [uri] = uris([7])
    assert one.lists_file(MADE, uri)
    assert other.lists_file(elsewhere.location, uri)
    assert not one.lists_file(elsewhere.location, uri)
