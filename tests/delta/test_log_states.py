"""Test that every valid state of a log gives the same version, and that invalid states are reported."""

import json
import shutil
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_tables.folder_store import FolderStore
from delta_tables.handmade import (
    HandmadeLog,
    add,
    expected_files,
    found_files,
    lines,
    metadata,
    protocol,
    remove,
    vector,
)
from deltaic.delta.cache import SnapshotCache
from deltaic.delta.log import DeltaLog
from deltaic.delta.paths import read_listing
from deltaic.delta.segment import choose_segment
from deltaic.delta.store import LogFile
from deltaic.errors import DeltaicError, MalformedRequest, TableUnreadable, UnsupportedOperation

V1 = vector("ab^-aqEH.-t@S}K{vb[*k^")
V2 = vector("cd^-aqEH.-t@S}K{vb[*k^", 7)


def history(root: Path) -> HandmadeLog:
    """Write ten versions: adds, removes, a path that returns, changing deletion vectors and metadata."""
    log = HandmadeLog(root)
    log.commit({"commitInfo": {"operation": "CREATE"}}, metadata(), protocol(3, 7, "deletionVectors"))
    log.commit(add("f1", 1), add("f2", 2, p=None), add("f3", 3, p="\u2028"))
    log.commit(remove("f1"), add("p=x%2520y/f4", 4, p="x y"))
    log.commit(add("f2", 2, p=None, vector=V1), remove("f2"))
    log.commit(add("f1", 11, tags={"k": "v"}))
    log.commit(add("f2", 2, p=None, vector=V2), remove("f2", V1), metadata({"delta": "new"}))
    log.commit(
        remove("p=x%2520y/f4"), add("f5", 5, baseRowId=7, defaultRowCommitVersion=6, clusteringProvider="liquid")
    )
    log.commit(add("f6", 6), add("f7", 7, stats=None), {"txn": {"appId": "a", "version": 1}})
    log.commit(remove("f6"), {"cdc": {"path": "c1", "partitionValues": {}, "size": 1, "dataChange": False}})
    log.commit(add("f8", 8))
    return log


def put_checkpoint_at_end(log: HandmadeLog) -> None:
    log.classic(9)
    log.hint(9)


def put_checkpoint_in_the_middle(log: HandmadeLog) -> None:
    log.classic(4)
    log.hint(4)


def clean_up_after_checkpoint(log: HandmadeLog) -> None:
    log.classic(5)
    log.hint(5)
    log.forget(0, 1, 2, 3, 4)


def leave_only_a_checkpoint(log: HandmadeLog) -> None:
    log.classic(9)
    log.forget(*range(10))


def omit_the_hint(log: HandmadeLog) -> None:
    log.classic(5)


def leave_a_stale_hint(log: HandmadeLog) -> None:
    log.classic(2)
    log.classic(8)
    log.hint(2)


def hint_at_a_missing_checkpoint(log: HandmadeLog) -> None:
    log.classic(3)
    log.hint(7)


def hint_past_the_end(log: HandmadeLog) -> None:
    log.classic(3)
    log.hint(4000)


def corrupt_the_hint(log: HandmadeLog) -> None:
    log.classic(5)
    (log.log / "_last_checkpoint").write_bytes(b'{"version":5,"si')


def empty_the_hint(log: HandmadeLog) -> None:
    log.classic(5)
    (log.log / "_last_checkpoint").write_bytes(b"")


def hint_without_version(log: HandmadeLog) -> None:
    log.classic(5)
    (log.log / "_last_checkpoint").write_bytes(b'{"version":"five"}')


def lose_a_part(log: HandmadeLog) -> None:
    log.multipart(3, 2)
    log.multipart(7, 3, missing=(2,))
    log.hint(7, parts=3)


def split_in_parts(log: HandmadeLog) -> None:
    log.multipart(7, 3)


def split_in_two_ways(log: HandmadeLog) -> None:
    log.multipart(7, 3, missing=(1,))
    log.multipart(7, 2)


def compact_some_commits(log: HandmadeLog) -> None:
    log.compact(2, 6)


def compact_after_a_checkpoint(log: HandmadeLog) -> None:
    log.classic(1)
    log.compact(0, 4)
    log.compact(2, 3)
    log.compact(2, 6)
    log.compact(8, 12)


def compact_and_lose_covered_commits(log: HandmadeLog) -> None:
    log.compact(1, 4)
    log.forget(2, 3)


def compact_in_contradiction(log: HandmadeLog) -> None:
    commits = [(log.log / f"{version:020d}.json").read_bytes() for version in range(2, 7)]
    (log.log / f"{2:020d}.{6:020d}.compacted.json").write_bytes(b"".join(reversed(commits)))


def write_v2_json(log: HandmadeLog) -> None:
    log.v2(6, "json", 2)


def write_v2_json_without_sidecars(log: HandmadeLog) -> None:
    log.v2(6, "json", 0)


def write_v2_parquet(log: HandmadeLog) -> None:
    log.v2(6, "parquet", 3)


def write_v2_under_the_classic_name(log: HandmadeLog) -> None:
    log.v2(6, "classic", 2)


def write_v2_parquet_without_sidecars(log: HandmadeLog) -> None:
    log.v2(6, "parquet", 0)


def keep_statistics_as_struct(log: HandmadeLog) -> None:
    log.classic(8, statistics="struct")


def keep_statistics_both_ways(log: HandmadeLog) -> None:
    log.classic(8, statistics="both", row_group=2)


def use_small_row_groups(log: HandmadeLog) -> None:
    log.classic(8, row_group=1)


def add_unrelated_files(log: HandmadeLog) -> None:
    log.classic(4)
    (log.log / "_staged_commits").mkdir()
    (log.log / "_staged_commits" / f"{10:020d}.uuid.json").write_bytes(b"nonsense")
    for name in ("_last_vacuum_info", ".tmp", f"{10:020d}.json.tmp", f"{9:020d}.checkpoint.parquet.tmp", "10.json"):
        (log.log / name).write_bytes(b"nonsense")
    (log.log / f".{9:020d}.json.crc").write_bytes(b"crc\0")
    (log.log / f"{9:020d}.crc").write_bytes(b"{torn")


def describe_by_checksum(log: HandmadeLog) -> None:
    log.classic(4)
    for version in range(10):
        log.checksum(version)


def no_change(log: HandmadeLog) -> None:
    """Leave only commits."""


STATES = [
    no_change,
    put_checkpoint_at_end,
    put_checkpoint_in_the_middle,
    clean_up_after_checkpoint,
    leave_only_a_checkpoint,
    omit_the_hint,
    leave_a_stale_hint,
    hint_at_a_missing_checkpoint,
    hint_past_the_end,
    corrupt_the_hint,
    empty_the_hint,
    hint_without_version,
    lose_a_part,
    split_in_parts,
    split_in_two_ways,
    compact_some_commits,
    compact_after_a_checkpoint,
    compact_and_lose_covered_commits,
    compact_in_contradiction,
    write_v2_json,
    write_v2_json_without_sidecars,
    write_v2_parquet,
    write_v2_under_the_classic_name,
    write_v2_parquet_without_sidecars,
    keep_statistics_as_struct,
    keep_statistics_both_ways,
    use_small_row_groups,
    add_unrelated_files,
    describe_by_checksum,
]


@pytest.mark.parametrize("arrange", STATES, ids=lambda state: state.__name__)
def test_every_state_gives_equal_versions(tmp_path: Path, arrange: Callable[[HandmadeLog], None]) -> None:
    log = history(tmp_path)
    unchanged = DeltaLog(FolderStore(tmp_path)).snapshot()
    head = unchanged.protocol, unchanged.metadata
    arrange(log)
    delta = DeltaLog(FolderStore(tmp_path))
    assert delta.latest_version() == 9
    for version in (None, 9, 8, 7, 6, 5):
        if version is not None and arrange is leave_only_a_checkpoint and version < 9:
            continue
        expected = log.state(version)
        snapshot = delta.snapshot(version)
        assert snapshot.version == (9 if version is None else version)
        assert found_files(snapshot.files()) == expected_files(expected)
        assert snapshot.totals() == (len(expected.files), sum(action["size"] for action in expected.files.values()))
        assert (snapshot.protocol, snapshot.metadata) == head


@pytest.mark.parametrize("arrange", STATES, ids=lambda state: state.__name__)
def test_pages_by_position_equal_a_full_read(tmp_path: Path, arrange: Callable[[HandmadeLog], None]) -> None:
    log = history(tmp_path)
    arrange(log)
    delta = DeltaLog(FolderStore(tmp_path))
    full_read = [path for batch in delta.snapshot().files() for path in batch["path"].to_pylist()]
    paged = []
    position = None
    while True:
        scan = delta.snapshot(9, at=position).scan(None, 2, position)
        batch = next(scan, None)
        if batch is None:
            break
        paged.append(batch.files["path"][0].as_py())
        position = batch.position(1)
    assert paged == full_read


@pytest.mark.parametrize(
    ("actions", "error", "message"),
    [
        pytest.param([protocol()], TableUnreadable, "no metaData action", id="no_metadata"),
        pytest.param([metadata()], TableUnreadable, "no protocol action", id="no_protocol"),
        pytest.param([], TableUnreadable, "no protocol action", id="empty_commit"),
        pytest.param([metadata(), protocol(3, 7, "newThing")], UnsupportedOperation, "newThing", id="unknown_feature"),
        pytest.param(
            [metadata(), protocol(3, 7, "catalogManaged")],
            UnsupportedOperation,
            "'catalogManaged'",
            id="catalog_managed",
        ),
        pytest.param(
            [metadata(), protocol(3, 7, "catalogOwned-preview")],
            UnsupportedOperation,
            "catalogOwned",
            id="catalog_owned",
        ),
        pytest.param([metadata(), protocol(4, 7)], UnsupportedOperation, "reader version 4", id="unknown_version"),
        pytest.param(
            [metadata(), {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7}}],
            TableUnreadable,
            "is inconsistent",
            id="features_not_listed",
        ),
        pytest.param(
            [metadata(), {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "readerFeatures": ["a"]}}],
            TableUnreadable,
            "is inconsistent",
            id="features_below_version_3",
        ),
        pytest.param([{"metaData": {"name": "n"}}, protocol()], TableUnreadable, "invalid metaData", id="no_id"),
        pytest.param([metadata(), protocol(), {"add": {"size": 1}}], TableUnreadable, "0.json", id="add_without_path"),
    ],
)
def test_a_contradictory_log_is_refused(
    tmp_path: Path, actions: list[dict[str, object]], error: type[DeltaicError], message: str
) -> None:
    HandmadeLog(tmp_path).commit(*actions)
    with pytest.raises(error, match=message):
        DeltaLog(FolderStore(tmp_path)).snapshot()


def tear_the_last_line(log: HandmadeLog) -> str:
    path = log.log / f"{9:020d}.json"
    path.write_bytes(path.read_bytes()[:-20])
    return path.name


def write_invalid_utf8(log: HandmadeLog) -> str:
    path = log.log / f"{9:020d}.json"
    path.write_bytes(b'{"add":{"path":"\xff\xfe"}}\n')
    return path.name


def lose_a_commit(log: HandmadeLog) -> str:
    log.forget(6)
    return f"{6:020d}.json"


def lose_the_first_commit(log: HandmadeLog) -> str:
    log.forget(0)
    return f"{0:020d}.json"


def corrupt_the_checkpoint(log: HandmadeLog) -> str:
    name = f"{9:020d}.checkpoint.parquet"
    (log.log / name).write_bytes(b"PAR1 this is not Parquet PAR1")
    return name


def empty_the_checkpoint(log: HandmadeLog) -> str:
    name = f"{9:020d}.checkpoint.parquet"
    (log.log / name).write_bytes(b"")
    return name


def damage_the_pages(log: HandmadeLog) -> str:
    log.classic(9)
    name = f"{9:020d}.checkpoint.parquet"
    group = pq.read_metadata(log.log / name).row_group(0)
    paths = next(group.column(at) for at in range(group.num_columns) if group.column(at).path_in_schema == "add.path")
    content = bytearray((log.log / name).read_bytes())
    start = paths.dictionary_page_offset or paths.data_page_offset
    content[start : start + 40] = b"\xff" * 40
    (log.log / name).write_bytes(content)
    return name


def lose_a_sidecar(log: HandmadeLog) -> str:
    lost = log.v2(9, "json", 2)[1]
    lost.unlink()
    return lost.name


def empty_a_part(log: HandmadeLog) -> str:
    log.multipart(9, 2)
    name = f"{9:020d}.checkpoint.{2:010d}.{2:010d}.parquet"
    (log.log / name).write_bytes(b"")
    return name


def empty_a_manifest(log: HandmadeLog) -> str:
    log.v2(9, "json", 2)
    (manifest,) = log.log.glob("*.checkpoint.*.json")
    manifest.write_bytes(b"")
    return manifest.name


def empty_a_sidecar(log: HandmadeLog) -> str:
    empty = log.v2(9, "parquet", 2)[1]
    empty.write_bytes(b"")
    return empty.name


def corrupt_a_sidecar(log: HandmadeLog) -> str:
    corrupt = log.v2(9, "json", 2)[1]
    corrupt.write_bytes(b"\0" * corrupt.stat().st_size)
    return corrupt.name


def break_the_metadata(log: HandmadeLog) -> str:
    log.classic(9)
    path = log.log / f"{9:020d}.checkpoint.parquet"
    full_read = pq.read_table(path)
    columns = pa.array([{"id": "i", "schemaString": "{}", "format": "parquet"}] * full_read.num_rows)
    pq.write_table(full_read.set_column(full_read.schema.get_field_index("metaData"), "metaData", columns), path)
    return path.name


def tear_the_manifest(log: HandmadeLog) -> str:
    log.v2(9, "json", 1)
    (manifest,) = log.log.glob("*.checkpoint.*.json")
    manifest.write_bytes(manifest.read_bytes()[:-9])
    return manifest.name


def outgrow_a_size(log: HandmadeLog) -> str:
    return f"{log.commit(add('f9', size=2**63)):020d}.json"


def outgrow_a_row_id(log: HandmadeLog) -> str:
    return f"{log.commit(add('f9', baseRowId=2**70)):020d}.json"


def outgrow_an_offset(log: HandmadeLog) -> str:
    return f"{log.commit(add('f9', vector=vector('ab^-aqEH.-t@S}K{vb[*k^', 2**31))):020d}.json"


def outgrow_a_size_in_the_manifest(log: HandmadeLog) -> str:
    version = log.commit(add("f9", size=2**63))
    log.v2(version, "json", 0)
    log.forget(*range(version + 1))
    (manifest,) = log.log.glob("*.checkpoint.*.json")
    return manifest.name


def rewrite_the_checkpoint(log: HandmadeLog, column: str, value: object) -> str:
    """Replace one column in the checkpoint of the last version, and delete all commits."""
    log.classic(9)
    log.forget(*range(10))
    path = log.log / f"{9:020d}.checkpoint.parquet"
    full_read = pq.read_table(path)
    columns = pa.array([value] * full_read.num_rows)
    pq.write_table(full_read.set_column(full_read.schema.get_field_index(column), column, columns), path)
    return path.name


def write_a_string_as_format(log: HandmadeLog) -> str:
    return rewrite_the_checkpoint(log, "metaData", {"id": "i", "schemaString": "{}", "format": "parquet"})


def write_a_number_as_protocol(log: HandmadeLog) -> str:
    return rewrite_the_checkpoint(log, "protocol", 3)


def remove_the_log(log: HandmadeLog) -> str:
    log.forget(*range(10))
    return "_delta_log/ is empty"


@pytest.mark.parametrize(
    "damage",
    [
        tear_the_last_line,
        write_invalid_utf8,
        lose_a_commit,
        lose_the_first_commit,
        damage_the_pages,
        outgrow_a_size,
        outgrow_a_row_id,
        outgrow_an_offset,
        outgrow_a_size_in_the_manifest,
        write_a_string_as_format,
        write_a_number_as_protocol,
        remove_the_log,
    ],
    ids=lambda damage: damage.__name__,
)
def test_damage_is_reported_with_the_file_name(tmp_path: Path, damage: Callable[[HandmadeLog], str]) -> None:
    expected_name = damage(history(tmp_path))
    with pytest.raises(TableUnreadable) as refusal:
        list(DeltaLog(FolderStore(tmp_path)).snapshot().files())
    assert expected_name in refusal.value.message


CHECKPOINT_DAMAGE = [
    corrupt_the_checkpoint,
    empty_the_checkpoint,
    empty_a_part,
    empty_a_manifest,
    empty_a_sidecar,
    lose_a_sidecar,
    corrupt_a_sidecar,
    tear_the_manifest,
    break_the_metadata,
]


@pytest.mark.parametrize("damage", CHECKPOINT_DAMAGE, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("older", [False, True], ids=["from all commits", "from the checkpoint before"])
def test_an_unreadable_checkpoint_is_skipped(
    tmp_path: Path, damage: Callable[[HandmadeLog], str], *, older: bool
) -> None:
    log = history(tmp_path)
    if older:
        log.classic(5)
        log.forget(0, 1, 2)
    damage(log)
    log.hint(9)
    if damage is not break_the_metadata:  # with a checksum, its metaData is not read
        log.checksum(9)
    expected = log.state()
    for delta in (DeltaLog(FolderStore(tmp_path)), DeltaLog(FolderStore(tmp_path), SnapshotCache(1 << 24), "t")):
        for _ in range(2):
            snapshot = delta.snapshot().load_commits()
            assert found_files(snapshot.files()) == expected_files(expected)
            assert snapshot.totals().num_files == len(expected.files)
            assert expected.metadata is not None
            assert snapshot.metadata.id == expected.metadata["id"]
            assert snapshot.base.partition("-")[0] == ("5" if older else "")
        first = next(snapshot.scan(None, 2))
        rest = delta.snapshot(9, at=first.position(1)).load_commits().scan(None, 2, first.position(1))
        assert 1 + sum(batch.files.num_rows for batch in rest) == len(expected.files)


@pytest.mark.parametrize("damage", CHECKPOINT_DAMAGE, ids=lambda damage: damage.__name__)
def test_an_unreadable_checkpoint_without_alternative_is_reported(
    tmp_path: Path, damage: Callable[[HandmadeLog], str]
) -> None:
    log = history(tmp_path)
    expected_name = damage(log)
    log.forget(*range(9))
    with pytest.raises(DeltaicError) as refusal:
        list(DeltaLog(FolderStore(tmp_path)).snapshot().load_commits().files())
    assert expected_name in refusal.value.message + refusal.value.detail or "neither commit 0 nor" in str(refusal.value)


def test_an_empty_compaction_file_is_ignored(tmp_path: Path) -> None:
    log = history(tmp_path)
    log.classic(1)
    (log.log / f"{2:020d}.{4:020d}.compacted.json").write_bytes(b"")
    log.forget(3)
    with pytest.raises(TableUnreadable, match=f"{3:020d}.json: the log has a gap"):
        DeltaLog(FolderStore(tmp_path)).snapshot()


def test_damage_before_the_checkpoint_is_ignored(tmp_path: Path) -> None:
    log = history(tmp_path)
    log.classic(5)
    log.forget(1, 3)
    assert found_files(DeltaLog(FolderStore(tmp_path)).snapshot().files()) == expected_files(log.state())


def test_an_absent_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TableUnreadable, match="empty or absent"):
        DeltaLog(FolderStore(tmp_path / "nowhere")).latest_version()


def test_versions_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    log = history(tmp_path)
    log.classic(5)
    log.forget(0, 1, 2)
    delta = DeltaLog(FolderStore(tmp_path))
    with pytest.raises(MalformedRequest, match=r"Cannot load table version 10 .*latest available version is 9\."):
        delta.snapshot(10)
    with pytest.raises(MalformedRequest, match=r"Cannot load table version 5000 .*latest available version is 9\."):
        delta.snapshot(5000)
    with pytest.raises(MalformedRequest, match=r"Cannot load table version 4 .*earliest available version is 5\."):
        delta.snapshot(4)
    with pytest.raises(MalformedRequest, match=r"Cannot load table version 1 .*earliest available version is 5\."):
        delta.snapshot(1)


def test_an_old_version_of_a_long_log_is_found_by_one_listing(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(metadata(), protocol())
    for version in range(1, 1200):
        log.commit(add(f"f{version}", version))
    log.classic(500)
    log.classic(1150)
    log.hint(1150)
    store = FolderStore(tmp_path)
    snapshot = DeltaLog(store).snapshot(1100)
    assert snapshot.totals() == (1100, sum(range(1101)))
    assert [call for call in store.calls if call.startswith("list")] == [f"list {100:020d}"]


def test_a_replaced_checkpoint_restarts_a_paged_query(tmp_path: Path) -> None:
    log = history(tmp_path)
    log.classic(5)
    delta = DeltaLog(FolderStore(tmp_path))
    first = next(delta.snapshot().scan(None, 2))
    log.classic(5, row_group=1)
    with pytest.raises(MalformedRequest, match="restart the query"):
        delta.snapshot(9, at=first.position(1))
    with pytest.raises(MalformedRequest, match="restart the query"):
        delta.snapshot(9).scan(None, 2, first.position(1))


def test_a_newer_checkpoint_does_not_disturb_a_paged_query(tmp_path: Path) -> None:
    log = history(tmp_path)
    delta = DeltaLog(FolderStore(tmp_path))
    full_read = [path for batch in delta.snapshot().files() for path in batch["path"].to_pylist()]
    first = next(delta.snapshot().scan(None, 3))
    log.classic(9)
    log.compact(2, 6)
    log.hint(9)
    rest = delta.snapshot(9, at=first.position(3)).scan(None, 3, first.position(3))
    assert full_read == first.files["path"].to_pylist() + [p for batch in rest for p in batch.files["path"].to_pylist()]
    log.forget(0)
    with pytest.raises(MalformedRequest, match="restart the query"):
        delta.snapshot(9, at=first.position(3))


def test_lines_end_at_line_feeds_only(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(metadata(), protocol())
    odd = ["a\u2028b", "c\u2029d", "e\x85f", "g\u000bh"]
    (log.log / f"{1:020d}.json").write_bytes(lines([add(name) for name in odd]).rstrip(b"\n").replace(b"\n", b"\r\n"))
    files = found_files(DeltaLog(FolderStore(tmp_path)).snapshot().files())
    assert [action["path"] for action in files] == sorted(odd)


def test_a_table_without_a_schema_has_no_columns(tmp_path: Path) -> None:
    HandmadeLog(tmp_path).commit({"metaData": {"id": "1"}}, protocol())
    table_metadata = DeltaLog(FolderStore(tmp_path)).snapshot().metadata
    assert table_metadata.schema_string == '{"type":"struct","fields":[]}'


def test_a_remove_wins_in_a_compaction_file_whatever_its_lines_order(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(metadata(), protocol())
    log.commit(add("f"), add("g"))
    log.commit(remove("f"))
    name = f"{1:020d}.{2:020d}.compacted.json"
    for actions in ([remove("f"), add("f"), add("g")], [add("f"), remove("f"), add("g")]):
        (log.log / name).write_bytes(lines(actions))
        assert found_files(DeltaLog(FolderStore(tmp_path)).snapshot().files()) == expected_files(log.state())


def test_metadata_and_protocol_are_equal_from_every_file(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    features = ("v2Checkpoint", "deletionVectors", "columnMapping")
    log.commit(metadata({"b": "2", "a": "1", "c": "3", "z": "0", "y": "9"}), protocol(3, 7, *features))
    for version in range(1, 6):
        log.commit(add(f"f{version}"))
    raw = []
    for arrange in (lambda: None, lambda: log.classic(3), lambda: log.v2(4, "json", 1), lambda: log.checksum(5)):
        arrange()
        snapshot = DeltaLog(FolderStore(tmp_path)).snapshot()
        raw.append((snapshot.metadata.raw, snapshot.protocol.raw))
    assert raw == [raw[0]] * 4


@pytest.mark.parametrize("form", ["commits", "classic", "manifest"])
@pytest.mark.parametrize("present", [False, True], ids=["absent", "present"])
def test_deletion_vectors_are_detected_in_every_file(tmp_path: Path, form: str, present: bool) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(metadata(), protocol(3, 7, "deletionVectors", "v2Checkpoint"))
    log.commit(add("f"), add("g", vector=V1 if present else None))
    if form == "classic":
        log.classic(1)
    if form == "manifest":
        log.v2(1, "json", 0)
    features = DeltaLog(FolderStore(tmp_path)).snapshot().live_features
    assert features == ({"deletionVectors"} if present else set())


@pytest.mark.parametrize("sidecars", [None, 0, 2], ids=["commits", "manifest", "sidecars"])
def test_a_number_with_a_zero_fraction_is_an_integer(sidecars: int | None, tmp_path: Path) -> None:
    """Some writers convert numbers to float and write `"size": 5100.0`, which Spark reads as 5100."""
    root = tmp_path / "integers"
    log = HandmadeLog(root)
    configuration = {"delta.enableInCommitTimestamps": "true", "delta.enableChangeDataFeed": "true"}
    log.commit(
        {"commitInfo": {"inCommitTimestamp": 1_700_000_000_000}},
        protocol(3, 7, "deletionVectors", "v2Checkpoint"),
        metadata(configuration),
        add("a", 5100, vector=vector("ab^-aqEH.-t@S}K{vb[*k^"), baseRowId=0, defaultRowCommitVersion=0),
        add("b", 5),
    )
    if sidecars is not None:
        log.v2(0, "json", sidecars)
    info = {"commitInfo": {"inCommitTimestamp": 1_700_000_001_000}}
    change = {"cdc": {"path": "c", "partitionValues": {"p": "a"}, "size": 7, "dataChange": False}}
    log.commit(info, remove("b", size=5), change)
    copy = shutil.copytree(root, tmp_path / "floats")
    for path in copy.rglob("*.json"):
        path.write_bytes(lines(json.loads(line, parse_int=float) for line in path.read_text().splitlines()))
    integers, floats = (DeltaLog(FolderStore(folder)) for folder in (root, copy))
    read = [
        (
            delta.snapshot().timestamp,
            delta.snapshot().metadata.raw,
            delta.snapshot().protocol.raw,
            [row for batch in delta.snapshot().files() for row in batch.to_pylist()],
            [(commit.timestamp, commit.actions) for commit in delta.commits(0, 1)],
        )
        for delta in (integers, floats)
    ]
    assert read[0] == read[1]
    assert ".0" not in str(read[1])


def test_a_size_with_a_fraction_is_refused(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(protocol(), metadata(), add("a", size=1.5))  # type: ignore[arg-type]
    with pytest.raises(TableUnreadable, match=f"{0:020d}"):
        list(DeltaLog(FolderStore(tmp_path)).snapshot().files())


class _UnorderedStore(FolderStore):
    """Store that lists files in no order, like S3 directory buckets."""

    def list_log(self, start_after: str = "") -> Iterator[LogFile]:
        return reversed(list(super().list_log(start_after)))


def test_an_unordered_store_is_refused_with_a_remedy(tmp_path: Path) -> None:
    """Files listed after a later version would otherwise count as missing."""
    history(tmp_path).classic(5)
    for version in (None, 4, 9):
        with pytest.raises(UnsupportedOperation, match="general purpose bucket"):
            DeltaLog(_UnorderedStore(tmp_path)).snapshot(version)


@pytest.mark.parametrize(
    ("name", "checkpoints", "commits"),
    [
        pytest.param(f"{0:020}.{4_999_999:020}.compacted.json", 0, 2, id="compaction"),
        pytest.param(f"{4_999_999:020}.checkpoint.{1:010}.{5_000_000:010}.parquet", 0, 0, id="checkpoint parts"),
    ],
)
def test_numbers_in_a_file_name_do_not_determine_memory_use(name: str, checkpoints: int, commits: int) -> None:
    names = sorted([name, f"{5_000_000:020}.json"])
    tracemalloc.start()
    try:
        listing = read_listing(LogFile(each, 100, 0) for each in names)
        assert len(listing.checkpoints) == checkpoints
        if commits:
            assert len(choose_segment(listing).commits) == commits
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()
