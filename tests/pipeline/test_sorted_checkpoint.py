"""Test that a sorted checkpoint equals the original for all readers, and saves reads of Deltaic's queries."""

import itertools
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_tables.folder_store import FolderStore
from delta_tables.handmade import Action, HandmadeLog, add, found_files, metadata, protocol, remove, vector
from deltaic.delta.actions import parse_metadata
from deltaic.delta.cache import SnapshotCache
from deltaic.delta.log import DeltaLog
from deltaic.delta.paths import LAST_CHECKPOINT, LOG
from deltaic.delta.scan.part_summary import SUMMARY
from deltaic.delta.segment import find_segment
from deltaic.delta.snapshot import Snapshot
from deltaic.partition_filters import evaluate, parse
from deltaic.pruning import file_filter, parse_hints
from deltaic.sharing.rights.table_visibility import TableVisibility
from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.maintenance.sorted_checkpoint.checkpoint_writer import (
    NotSorted,
    SortedCheckpoint,
    sort_checkpoint,
)
from deltaic_pipeline.maintenance.sorted_checkpoint.row_order import SortKey
from deltaic_pipeline.maintenance.sorted_checkpoint.sidecars import Layout, statistics
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import tries

pytestmark = pytest.mark.slow

CLUSTERED = {
    "domainMetadata": {
        "domain": "delta.clustering",
        "configuration": json.dumps({"clusteringColumns": [["x"]]}),
        "removed": False,
    }
}
FILES = 300
SMALL = Layout(row_group=10, sidecar=100)
MANY = Layout(row_group=10, sidecar=30)


@dataclass
class Folder:
    """Log writer in a folder that dies after `most` objects."""

    root: Path
    most: int = 1_000
    written: list[str] = field(default_factory=list)

    def create(self, path: str, content: bytes) -> bool:
        if (self.root / path).exists():
            return False
        self.replace(path, content)
        return True

    def replace(self, path: str, content: bytes) -> None:
        if len(self.written) == self.most:
            raise KeyboardInterrupt
        (self.root / path).write_bytes(content)
        self.written.append(path)


def table(root: Path, *, clustered: bool = True, partitions: tuple[str, ...] = ("p",), **options: Any) -> HandmadeLog:
    """Return a table with an unsorted v2 checkpoint of three sidecars, and a commit after it."""
    log = HandmadeLog(root)
    log.commit(metadata(partitions=partitions), protocol(3, 7, "v2Checkpoint", "deletionVectors"))
    numbers = list(range(FILES))
    random.Random(7).shuffle(numbers)  # noqa: S311 -- any order will do
    dv = vector("ab^-aqEH.-t@S}K{vb[*k^", 9)
    log.commit(
        *[add(f"f{n:03d}", n + 1, "abcde"[n % 5], dv if n % 50 == 3 else None, tags={"n": str(n)}) for n in numbers]
    )
    log.commit(*[remove(f"f{n:03d}") for n in range(0, FILES, 9)])
    log.v2(2, "json", 3, **{"statistics": "both", "row_group": 50, "typed_partitions": True, **options})
    if clustered:
        manifest = next(log.log.glob("*.checkpoint.*.json"))
        manifest.write_bytes(manifest.read_bytes() + json.dumps(CLUSTERED).encode() + b"\n")
    log.hint(2, v2Checkpoint={"path": "another", "nonFileActions": [CLUSTERED], "sidecarFiles": []}, checksum="0")
    log.commit(add("g1", 5, p="a"), add("g2", 500, p="c"), remove("f021"))
    return log


def sort(root: Path, **more: Any) -> SortedCheckpoint | None:
    store = FolderStore(root)
    checkpoint = find_segment(store).checkpoint
    assert checkpoint is not None
    defaults: dict[str, Any] = {"zorder_by": (), "confirm": lambda: None, "least_files": 1, "layout": SMALL}
    return sort_checkpoint(store, checkpoint=checkpoint, **{"writer": Folder(root), **defaults, **more})


def manifests(root: Path) -> list[Path]:
    return sorted((root / LOG).glob("*.checkpoint.*.json"))


def actions_of(root: Path, manifest: Path) -> list[str]:
    """Return the sorted content of a v2 checkpoint."""
    content = []
    for line in manifest.read_text().splitlines():
        action = json.loads(line)
        if "sidecar" not in action:
            content.append(line)
            continue
        file = root / LOG / "_sidecars" / action["sidecar"]["path"]
        assert file.stat().st_size == action["sidecar"]["sizeInBytes"]
        rows = pq.read_table(file).to_pylist()
        content += [repr({kind: value for kind, value in row.items() if value is not None}) for row in rows]
    return sorted(content)


def deltalake_state(root: Path) -> tuple[Any, ...]:
    read = DeltaTable(str(root))
    files = sorted(map(repr, pa.table(read.get_add_actions(flatten=True)).to_pylist()))
    return read.version(), read.protocol(), read.metadata().configuration, files


def deltaic_state(root: Path) -> tuple[Any, ...]:
    snapshot = DeltaLog(FolderStore(root)).snapshot()
    return snapshot.protocol, snapshot.metadata, snapshot.totals(), found_files(snapshot.files())


@pytest.mark.parametrize("kind", ["struct", "both"])
def test_both_checkpoints_have_the_same_content(tmp_path: Path, kind: str) -> None:
    table(tmp_path, statistics=kind)
    (first,) = manifests(tmp_path)
    before = deltaic_state(tmp_path), deltalake_state(tmp_path)
    sorted_copy = sort(tmp_path)
    assert sorted_copy is not None
    assert manifests(tmp_path) == [first, tmp_path / LOG / sorted_copy.manifest]
    assert actions_of(tmp_path, first) == actions_of(tmp_path, tmp_path / LOG / sorted_copy.manifest)
    first.unlink()
    assert (deltaic_state(tmp_path), deltalake_state(tmp_path)) == before
    # Deltaic's reader gets these from the sorted checkpoint without opening a sidecar.
    snapshot = DeltaLog(store := FolderStore(tmp_path)).snapshot()
    assert snapshot.has_deletion_vectors
    assert not [call for call in store.calls if "_sidecars" in call]


def test_readers_use_the_sorted_checkpoint(tmp_path: Path) -> None:
    table(tmp_path)
    sorted_copy = sort(tmp_path)
    assert sorted_copy is not None
    checkpoint = find_segment(FolderStore(tmp_path)).checkpoint
    assert checkpoint is not None
    assert [file.name for file in checkpoint.files] == [sorted_copy.manifest]
    hint = json.loads((tmp_path / LAST_CHECKPOINT).read_text())
    assert hint["v2Checkpoint"]["path"] == sorted_copy.manifest
    assert hint["v2Checkpoint"]["sizeInBytes"] == (tmp_path / LOG / sorted_copy.manifest).stat().st_size
    assert "nonFileActions" not in hint["v2Checkpoint"], "they can belong to another version"
    assert "sidecarFiles" not in hint["v2Checkpoint"]
    assert "checksum" not in hint


def test_hint_of_a_later_checkpoint_stays(tmp_path: Path) -> None:
    log = table(tmp_path)
    log.hint(7)
    before = (tmp_path / LAST_CHECKPOINT).read_bytes()
    assert sort(tmp_path) is not None
    assert (tmp_path / LAST_CHECKPOINT).read_bytes() == before


def test_sorted_checkpoint_stays_unchanged(tmp_path: Path) -> None:
    table(tmp_path)
    assert sort(tmp_path) is not None
    before = manifests(tmp_path)
    assert sort(tmp_path) is None
    assert manifests(tmp_path) == before


def test_bound_beyond_the_year_9999_is_kept() -> None:
    """The last second of 9999 in a zone west of UTC is in the year 10000."""
    stamp = pa.timestamp("us", "UTC")
    adds = pa.StructArray.from_arrays(
        [
            pa.StructArray.from_arrays(
                [pa.StructArray.from_arrays([pa.array([value], stamp)], ["t"]) for value in (0, 253402318799000000)],
                ["minValues", "maxValues"],
            )
        ],
        ["stats_parsed"],
    )
    result = json.loads(statistics(adds, (SortKey(("t",), is_partition=False),)))
    assert result["maxValues"] == {"t": "10000-01-01T04:59:59.000Z"}


def test_files_are_sorted_by_partition_then_by_clustering_without_removes(tmp_path: Path) -> None:
    table(tmp_path)
    sorted_copy = sort(tmp_path)
    assert sorted_copy is not None
    files = [
        tmp_path / LOG / "_sidecars" / json.loads(line)["sidecar"]["path"]
        for line in (tmp_path / LOG / sorted_copy.manifest).read_text().splitlines()
        if "sidecar" in line
    ]
    parquet_files = [pq.ParquetFile(file) for file in files]
    rows = [row for file in parquet_files for row in file.read().to_pylist()]
    adds = [row["add"] for row in rows if row["add"]]
    keys = [(add["partitionValues_parsed"]["p"], add["stats_parsed"]["minValues"]["x"]) for add in adds]
    assert keys == sorted(keys)
    assert [row["add"] is None for row in rows] == [False] * len(adds) + [True] * (len(rows) - len(adds))
    assert {file.metadata.row_group(0).column(0).compression for file in parquet_files} == {"ZSTD"}
    assert [file.metadata.num_rows for file in parquet_files] == [100, 100, 67, 34]


HINTS = ["p = 'a'", "p > 'c' AND x < 20", "x = 17", "x < 5 OR x > 290", "p IN ('b', 'e') AND x >= 250", "p IS NULL"]


@pytest.mark.parametrize("hint", HINTS)
def test_query_gets_the_same_files_from_both(tmp_path: Path, hint: str) -> None:
    table(tmp_path)
    snapshot = DeltaLog(FolderStore(tmp_path)).snapshot()
    query_filter = file_filter(parse_hints([hint], None), snapshot.metadata)
    expected = found_files(snapshot.files(query_filter))
    sort(tmp_path, layout=MANY)
    store = FolderStore(tmp_path)
    snapshot = DeltaLog(store).snapshot()
    query_filter = file_filter(parse_hints([hint], None), snapshot.metadata)
    assert found_files(snapshot.files(query_filter)) == expected
    opened_sidecars = {call.split()[1] for call in store.calls if "_sidecars" in call}
    partitions = {action["partitionValues"]["p"] for action in expected if not action["path"].startswith("g")}
    # The 54 files of a partition are in two or three sidecars of 30.
    assert len(opened_sidecars) <= 3 * len(partitions)
    reads = [call for call in store.calls if call.startswith("range") and "_sidecars" in call]
    assert len(reads) <= len(opened_sidecars)


@pytest.mark.parametrize("hint", [None, "x < 100", "p = 'c'", "p = 'a' OR x > 200"])
@pytest.mark.parametrize(("text", "sidecars"), [("p = 'b'", 3), ("p <> 'c' AND p > 'a'", 9), ("p IS NULL", 0)])
def test_row_filter_selects_the_same_files_from_both(
    tmp_path: Path, text: str, sidecars: int, hint: str | None
) -> None:
    def row_filtered(snapshot: Snapshot) -> tuple[Any, list[Action], list[Action]]:
        visibility = TableVisibility(snapshot.metadata, evaluate([parse(text)], {}, snapshot.metadata))
        query_filter = None if hint is None else file_filter(parse_hints([hint], None), snapshot.metadata)
        files, all_files = (
            list(found_files(snapshot.files(visibility.row_filter(item)))) for item in (query_filter, None)
        )
        return visibility.totals(snapshot), files, all_files

    table(tmp_path)
    expected = row_filtered(DeltaLog(FolderStore(tmp_path)).snapshot())
    sort(tmp_path, layout=MANY)
    store = FolderStore(tmp_path)
    result = row_filtered(DeltaLog(store, SnapshotCache(1 << 20), "t").snapshot())
    assert result == expected
    totals, files, all_files = result
    assert totals == (len(all_files), sum(item["size"] for item in all_files))
    assert all(item["partitionValues"]["p"] in {"b", "d", "e"} for item in (*files, *all_files))
    opened_sidecars = {call.split()[1] for call in store.calls if "_sidecars" in call}
    assert len(opened_sidecars) <= sidecars


def test_pages_of_a_filtered_query_are_complete(tmp_path: Path) -> None:
    table(tmp_path)
    sort(tmp_path)
    log = DeltaLog(FolderStore(tmp_path))
    query_filter = file_filter(parse_hints(["x < 150"], None), log.snapshot().metadata)
    expected = [path for batch in log.snapshot().files(query_filter) for path in batch["path"].to_pylist()]
    paged, position = [], None
    while (batch := next(log.snapshot(3, at=position).scan(query_filter, 4, position), None)) is not None:
        paged.append(batch.files["path"][0].as_py())
        position = batch.position(1)
    assert paged == expected


def test_summary_of_another_file_is_ignored(tmp_path: Path) -> None:
    table(tmp_path)
    sorted_copy = sort(tmp_path)
    assert sorted_copy is not None
    manifest = tmp_path / LOG / sorted_copy.manifest
    lines = [json.loads(line) for line in manifest.read_text().splitlines()]
    sidecars = [line["sidecar"] for line in lines if "sidecar" in line]
    # Another writer copies the tags, and assigns them to the wrong sidecars.
    tags = [sidecar["tags"] for sidecar in sidecars]
    for sidecar, tag in zip(sidecars, [*tags[1:], tags[0]], strict=True):
        sidecar["tags"] = tag
    expected = deltaic_state(tmp_path)
    query_filter = file_filter(parse_hints(["x = 17"], None), expected[1])
    files = found_files(DeltaLog(FolderStore(tmp_path)).snapshot().files(query_filter))
    manifest.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert deltaic_state(tmp_path) == expected
    assert found_files(DeltaLog(FolderStore(tmp_path)).snapshot().files(query_filter)) == files
    assert [path["path"] for path in files if path["path"].startswith("f")] != []


@pytest.mark.parametrize("summary", [None, "{", "[]", 7, json.dumps({"path": "f"})])
def test_invalid_summary_is_ignored(tmp_path: Path, summary: Any) -> None:
    log = table(tmp_path)
    (manifest,) = manifests(tmp_path)
    content = manifest.read_text().replace('"tags": null', '"tags": ' + json.dumps({SUMMARY: summary}))
    expected = deltaic_state(tmp_path)
    manifest.write_text(content)
    assert deltaic_state(tmp_path) == expected
    assert len(expected[3]) == len(log.state().files)


def test_line_with_a_null_sidecar_is_kept(tmp_path: Path) -> None:
    table(tmp_path)
    (manifest,) = manifests(tmp_path)
    lines = [{"sidecar": None, **json.loads(line)} for line in manifest.read_text().splitlines()]
    manifest.write_text("".join(json.dumps(line) + "\n" for line in lines))
    expected = deltaic_state(tmp_path)
    assert sort(tmp_path) is not None
    assert deltaic_state(tmp_path) == expected


def with_types(root: Path, change: Callable[[pa.Field], pa.Field]) -> Path:
    """Rewrite the sidecars with changed fields of their adds; return the manifest."""
    for file in (root / LOG / "_sidecars").iterdir():
        rows = pq.read_table(file)
        adds = cast("pa.StructType", rows.schema.field("add").type)
        kind = pa.struct([change(add_field) for add_field in adds])
        index = rows.schema.get_field_index("add")
        changed = rows.set_column(index, pa.field("add", kind), pa.array(rows["add"].to_pylist(), kind))
        pq.write_table(changed, file)
    (manifest,) = manifests(root)
    lines = [json.loads(line) for line in manifest.read_text().splitlines()]
    for sidecar in (line["sidecar"] for line in lines if "sidecar" in line):
        sidecar["sizeInBytes"] = (root / LOG / "_sidecars" / sidecar["path"]).stat().st_size
    manifest.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return manifest


def test_fields_of_all_adds_can_be_declared_not_null(tmp_path: Path) -> None:
    table(tmp_path)
    expected = deltaic_state(tmp_path)
    required = {"path", "size", "modificationTime"}
    with_types(tmp_path, lambda add_field: pa.field(add_field.name, add_field.type, add_field.name not in required))
    assert deltaic_state(tmp_path) == expected
    assert sort(tmp_path) is not None
    assert deltaic_state(tmp_path) == expected


@pytest.mark.parametrize("kind", [pa.string_view(), pa.dictionary(pa.int32(), pa.string())])
def test_checkpoint_with_types_that_cannot_be_sorted_stays_unchanged(tmp_path: Path, kind: pa.DataType) -> None:
    table(tmp_path)
    manifest = with_types(
        tmp_path,
        lambda add_field: (
            pa.field(add_field.name, pa.struct([("p", kind)]))
            if add_field.name == "partitionValues_parsed"
            else add_field
        ),
    )
    with pytest.raises(NotSorted, match="stays unchanged"):
        sort(tmp_path)
    assert manifests(tmp_path) == [manifest]


@pytest.mark.parametrize("most", range(6))
def test_killed_writer_leaves_the_log_unchanged(tmp_path: Path, most: int) -> None:
    table(tmp_path)
    expected = deltaic_state(tmp_path), deltalake_state(tmp_path)
    writer = Folder(tmp_path, most)
    with pytest.raises(KeyboardInterrupt):
        sort(tmp_path, writer=writer)
    assert len(writer.written) == most
    assert (deltaic_state(tmp_path), deltalake_state(tmp_path)) == expected
    assert (sort(tmp_path) is None) is (most == 5), "with the manifest, the checkpoint is sorted"
    assert (deltaic_state(tmp_path), deltalake_state(tmp_path)) == expected


def test_writer_without_the_lease_writes_no_more_objects(tmp_path: Path) -> None:
    table(tmp_path)
    turns = itertools.count()

    def confirm() -> None:
        if next(turns) == 3:
            raise PipelineError("lost")

    writer = Folder(tmp_path)
    with pytest.raises(PipelineError, match="lost"):
        sort(tmp_path, writer=writer, confirm=confirm)
    assert len(writer.written) == 3
    assert len(manifests(tmp_path)) == 1


def test_checkpoint_without_an_order_stays_unchanged(tmp_path: Path) -> None:
    table(tmp_path, partitions=(), clustered=False)
    assert sort(tmp_path) is None
    assert len(manifests(tmp_path)) == 1


def test_checkpoint_without_typed_statistics_stays_unchanged(tmp_path: Path) -> None:
    table(tmp_path, statistics="json", typed_partitions=False)
    with pytest.raises(NotSorted, match=r"no typed statistics\. Use --v2-checkpoints once"):
        sort(tmp_path)
    assert len(manifests(tmp_path)) == 1


@pytest.mark.parametrize(
    "configuration", ["", "[]", "null", '{"clusteringColumns": null}', '{"clusteringColumns": [["x"], 7]}', 5]
)
def test_invalid_clustering_is_ignored(tmp_path: Path, configuration: Any) -> None:
    table(tmp_path)
    (manifest,) = manifests(tmp_path)
    lines = [json.loads(line) for line in manifest.read_text().splitlines()]
    lines[-1]["domainMetadata"]["configuration"] = configuration
    manifest.write_text("".join(json.dumps(line) + "\n" for line in lines))
    expected = deltaic_state(tmp_path)
    assert sort(tmp_path) is not None, "by its partitions only"
    assert deltaic_state(tmp_path) == expected


def test_small_and_classic_checkpoints_stay_unchanged(tmp_path: Path) -> None:
    log = table(tmp_path)
    assert sort(tmp_path, least_files=FILES + 1) is None
    log.clear_checkpoints()
    log.classic(2, statistics="both")
    assert sort(tmp_path) is None


def test_checkpoint_is_sorted_by_z_order(tmp_path: Path) -> None:
    table(tmp_path, partitions=(), clustered=False)
    assert sort(tmp_path, zorder_by=("X",)) is not None
    snapshot = DeltaLog(store := FolderStore(tmp_path)).snapshot()
    query_filter = file_filter(parse_hints(["x = 17"], None), snapshot.metadata)
    assert len(found_files(snapshot.files(query_filter))) == 10
    assert len({call.split()[1] for call in store.calls if "_sidecars" in call}) == 1


# Common statistics of files must be valid for each: with truncated texts, numbers without a bound, and NaN.
TEXTS = st.text("ab?\ufffd\U0010ffff", max_size=34)
BOUNDS: dict[str, tuple[pa.DataType, Callable[[], st.SearchStrategy[Any]]]] = {
    "string": (pa.string(), lambda: st.none() | TEXTS),
    "large_string": (pa.large_string(), lambda: st.none() | TEXTS),
    "long": (pa.int64(), lambda: st.none() | st.integers(-(2**63), 2**63 - 1)),
    "double": (pa.float64(), lambda: st.none() | st.floats()),
}


@pytest.mark.parametrize("kind", BOUNDS)
@settings(max_examples=tries(60))
@given(data=st.data())
def test_common_bounds_select_all_files_that_single_bounds_select(kind: str, data: st.DataObject) -> None:
    arrow, values = BOUNDS[kind]
    kind = kind.removeprefix("large_")
    rows = data.draw(st.lists(st.tuples(values(), values()), min_size=1, max_size=4))
    literal = data.draw(values().filter(lambda value: value is not None))
    operator = data.draw(st.sampled_from(["equal", "lessThan", "greaterThan"]))
    both = pa.struct([("c", arrow)])
    typed = pa.array(
        [{"minValues": {"c": low}, "maxValues": {"c": high}} for low, high in rows],
        pa.struct([("minValues", both), ("maxValues", both)]),
    )
    schema = json.dumps({"type": "struct", "fields": [{"name": "c", "type": kind, "nullable": True, "metadata": {}}]})
    hint = {
        "op": operator,
        "children": [
            {"op": "column", "name": "c", "valueType": kind},
            {"op": "literal", "value": str(literal), "valueType": kind},
        ],
    }
    action: Action = metadata(schema=schema, partitions=())["metaData"]
    query_filter = file_filter(parse_hints([], json.dumps(hint)), parse_metadata(action, "here"))
    if query_filter is None:
        return
    maps = pa.array([[]] * len(rows), pa.map_(pa.string(), pa.string()))
    selected = query_filter.by_typed_statistics(maps, typed).to_pylist()
    adds = pa.StructArray.from_arrays([typed], names=["stats_parsed"])
    common = statistics(adds, [SortKey(("c",), is_partition=False)])
    (selects,) = query_filter.by_bounds(pa.array([common.decode()], pa.string())).to_pylist()
    assert selects or not any(selected)


ENDS = ("minValues", "maxValues")


def test_maximum_of_any_string_type_can_be_truncated() -> None:
    truncated = "x" * 32
    for kind in (pa.string(), pa.large_string()):
        adds = pa.array(
            [
                {"stats_parsed": {"minValues": {"c": "a"}, "maxValues": {"c": high}}}
                for high in (truncated, f"{truncated}a")
            ],
            pa.struct([("stats_parsed", pa.struct([(name, pa.struct([("c", kind)])) for name in ENDS]))]),
        )
        assert json.loads(statistics(adds, [SortKey(("c",), is_partition=False)]))["maxValues"] == {"c": "x" * 31 + "y"}


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary()])
@pytest.mark.parametrize("value", [None, "", "__HIVE_DEFAULT_PARTITION__"])
def test_partitions_that_can_be_null_have_no_bounds(value: str | None, kind: pa.DataType) -> None:
    def bounds_of(*partitions: str | None) -> Any:
        values = pa.array(partitions, pa.string()).cast(kind)
        parsed = pa.StructArray.from_arrays([values], names=["p"])
        adds = pa.StructArray.from_arrays([parsed], names=["partitionValues_parsed"])
        return json.loads(statistics(adds, [SortKey(("p",), is_partition=True)]))

    assert not any(bounds_of("a", value).values())
    bounds = {} if kind == pa.binary() else {"minValues": {"p": "a"}, "maxValues": {"p": "b"}}
    assert bounds_of("a", "b") == bounds | {"nullCount": {"p": 0}}
