"""Contract of `deltaic.delta.store.TableStore`, for both object stores and for the folder store of other tests."""

from collections.abc import Callable
from pathlib import Path

import pytest
from delta_tables.folder_store import FolderStore
from deltaic.delta.store import TableStore
from deltaic.storage.locations import TableLocations
from deltaic.storage.objects import ObjectTableStore
from storage.stores import Store

LOG = {f"{0:020}.json": b"zero", f"{1:020}.json": b"one", f"{1:020}.crc": b"{}", "_last_checkpoint": b"hint"}
CONTENT = {f"_delta_log/{name}": body for name, body in LOG.items()} | {
    "_delta_log/_sidecars/s.parquet": b"sidecar",
    "d=1/a b%.parquet": bytes(range(200)),
}


def in_folder(request: pytest.FixtureRequest, root: str) -> tuple[TableStore, Callable[[str, bytes], None]]:
    folder: Path = request.getfixturevalue("tmp_path")

    def put(path: str, body: bytes) -> None:
        (folder / root / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / root / path).write_bytes(body)

    return FolderStore(folder / root), put


def in_bucket(request: pytest.FixtureRequest, root: str) -> tuple[TableStore, Callable[[str, bytes], None]]:
    store: Store = request.getfixturevalue(request.param)
    locations = TableLocations.parse(f"s3://{store.bucket}/{root}")
    objects = ObjectTableStore(locations, store.storage, store.reader)
    return objects, lambda path, body: store.put(f"{root}/{path}", body)


@pytest.fixture(params=["folder", "ministack", "seaweedfs"])
def port(request: pytest.FixtureRequest) -> TableStore:
    """Return a table's store, filled with CONTENT."""
    table_store, put = (in_folder if request.param == "folder" else in_bucket)(request, "port")
    for path, body in CONTENT.items():
        put(path, body)
    return table_store


def test_the_log_is_listed_in_order_after_a_name(port: TableStore) -> None:
    files = list(port.list_log())
    assert [(file.name, file.size) for file in files] == [(name, len(LOG[name])) for name in sorted(LOG)]
    assert all(file.modified > 1_700_000_000_000 for file in files)
    for after in ("", f"{0:020}.json", f"{1:020}.c", f"{1:020}.json", "_last_checkpoint", "zz"):
        assert [file.name for file in port.list_log(after)] == [name for name in sorted(LOG) if name > after]


def test_objects_are_read_completely_in_ranges_and_from_the_end(port: TableStore) -> None:
    path, body = "d=1/a b%.parquet", CONTENT["d=1/a b%.parquet"]
    assert port.get(path) == body
    assert port.get_many(list(CONTENT)) == list(CONTENT.values())
    assert port.get_many([]) == []
    ranges = [(150, 200), (0, 10), (5, 20)]
    assert port.get_ranges(path, ranges) == [body[start:end] for start, end in ranges]
    assert port.get_tail(path, 8) == (body[-8:], 200)
    assert port.get_tail(path, 1000) == (body, 200)


def test_missing_object_is_named(port: TableStore) -> None:
    for read in (
        lambda: port.get("_delta_log/x"),
        lambda: port.get_many(["_last", "_delta_log/x"]),
        lambda: port.get_ranges("_delta_log/x", [(0, 1)]),
        lambda: port.get_tail("_delta_log/x", 1),
    ):
        with pytest.raises(FileNotFoundError) as caught:
            read()
        assert caught.value.args in {("_delta_log/x",), ("_last",)}


@pytest.mark.parametrize("kind", ["folder", "ministack", "seaweedfs"])
def test_an_absent_table_has_an_empty_log(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> None:
    store = None if kind == "folder" else request.getfixturevalue(kind)
    port: TableStore = (
        FolderStore(tmp_path / "absent")
        if store is None
        else ObjectTableStore(TableLocations.parse(f"s3://{store.bucket}/absent"), store.storage, store.reader)
    )
    assert list(port.list_log()) == []
