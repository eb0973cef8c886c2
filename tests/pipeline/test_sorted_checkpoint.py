"""A checkpoint in order says what the one beside it says, to every reader; ours opens of it what a query needs."""

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
from deltaic_pipeline.maintenance.sorted_checkpoint.checkpoint_writer import NotSorted, Sorted, sort_checkpoint
from deltaic_pipeline.maintenance.sorted_checkpoint.row_order import Key
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
    """A log that is written in a folder; `most` objects, and then the writer dies."""

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
    """Return a table whose v2 checkpoint has its files in no order, in three sidecars, and a commit after it."""
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


def sort(root: Path, **more: Any) -> Sorted | None:
    store = FolderStore(root)
    checkpoint = find_segment(store).checkpoint
    assert checkpoint is not None
    given_: dict[str, Any] = {"zorder_by": (), "confirm": lambda: None, "least_files": 1, "layout": SMALL}
    return sort_checkpoint(store, checkpoint=checkpoint, **{"writer": Folder(root), **given_, **more})


def manifests(root: Path) -> list[Path]:
    return sorted((root / LOG).glob("*.checkpoint.*.json"))


def actions_of(root: Path, manifest: Path, *, untyped: bool = False) -> list[str]:
    """Return everything that a v2 checkpoint says, field by field, in no order; only how it is laid out is left out.

    With `untyped` typed statistics are left out, too.
    """
    found = []
    for line in manifest.read_text().splitlines():
        action = json.loads(line)
        if "sidecar" not in action:
            found.append(line)
            continue
        file = root / LOG / "_sidecars" / action["sidecar"]["path"]
        assert file.stat().st_size == action["sidecar"]["sizeInBytes"]
        rows = pq.read_table(file).to_pylist()
        for row in rows if untyped else ():
            if row["add"]:
                row["add"].pop("stats_parsed", None)
        found += [repr({kind: value for kind, value in row.items() if value is not None}) for row in rows]
    return sorted(found)


def theirs(root: Path) -> tuple[Any, ...]:
    read = DeltaTable(str(root))
    files = sorted(map(repr, pa.table(read.get_add_actions(flatten=True)).to_pylist()))
    return read.version(), read.protocol(), read.metadata().configuration, files


def ours(root: Path) -> tuple[Any, ...]:
    snapshot = DeltaLog(FolderStore(root)).snapshot()
    return snapshot.protocol, snapshot.metadata, snapshot.totals(), found_files(snapshot.files())


JSON_ONLY: dict[str, Any] = {"statistics": "json", "typed_partitions": False}
"""What most writers leave."""


@pytest.mark.parametrize("kind", ["json", "struct", "both"])
def test_both_checkpoints_say_the_same(tmp_path: Path, kind: str) -> None:
    table(tmp_path, **(JSON_ONLY if kind == "json" else {"statistics": kind}))
    (first,) = manifests(tmp_path)
    before = ours(tmp_path), theirs(tmp_path)
    made = sort(tmp_path)
    assert made is not None
    assert manifests(tmp_path) == [first, tmp_path / LOG / made.manifest]
    said, untyped = actions_of(tmp_path, first), kind == "json"
    assert said == actions_of(tmp_path, tmp_path / LOG / made.manifest, untyped=untyped)
    first.unlink()
    assert (ours(tmp_path), theirs(tmp_path)) == before
    # By the sorted checkpoint, of which ours knows these without opening a sidecar.
    snapshot = DeltaLog(store := FolderStore(tmp_path)).snapshot()
    assert snapshot.has_deletion_vectors
    assert not [call for call in store.calls if "_sidecars" in call]


def test_readers_find_the_sorted_one_of_two(tmp_path: Path) -> None:
    table(tmp_path)
    made = sort(tmp_path)
    assert made is not None
    checkpoint = find_segment(FolderStore(tmp_path)).checkpoint
    assert checkpoint is not None
    assert [file.name for file in checkpoint.files] == [made.manifest]
    hint = json.loads((tmp_path / LAST_CHECKPOINT).read_text())
    assert hint["v2Checkpoint"]["path"] == made.manifest
    assert hint["v2Checkpoint"]["sizeInBytes"] == (tmp_path / LOG / made.manifest).stat().st_size
    assert "nonFileActions" not in hint["v2Checkpoint"], "they may be those of another version"
    assert "sidecarFiles" not in hint["v2Checkpoint"]
    assert "checksum" not in hint


def test_the_hint_of_a_later_checkpoint_stays(tmp_path: Path) -> None:
    log = table(tmp_path)
    log.hint(7)
    before = (tmp_path / LAST_CHECKPOINT).read_bytes()
    assert sort(tmp_path) is not None
    assert (tmp_path / LAST_CHECKPOINT).read_bytes() == before


def test_a_checkpoint_in_order_is_left_alone(tmp_path: Path) -> None:
    table(tmp_path)
    assert sort(tmp_path) is not None
    kept = manifests(tmp_path)
    assert sort(tmp_path) is None
    assert manifests(tmp_path) == kept


def test_a_bound_beyond_the_year_9999_is_a_bound() -> None:
    """The last second of that year, written west of UTC."""
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
    told = json.loads(statistics(adds, (Key(("t",), is_partition=False),)))
    assert told["maxValues"] == {"t": "10000-01-01T04:59:59.000Z"}


def test_files_lie_by_partition_then_by_clustering_and_removes_apart(tmp_path: Path) -> None:
    table(tmp_path)
    made = sort(tmp_path)
    assert made is not None
    files = [
        tmp_path / LOG / "_sidecars" / json.loads(line)["sidecar"]["path"]
        for line in (tmp_path / LOG / made.manifest).read_text().splitlines()
        if "sidecar" in line
    ]
    read = [pq.ParquetFile(file) for file in files]
    rows = [row for file in read for row in file.read().to_pylist()]
    adds = [row["add"] for row in rows if row["add"]]
    keys = [(one["partitionValues_parsed"]["p"], one["stats_parsed"]["minValues"]["x"]) for one in adds]
    assert keys == sorted(keys)
    assert [row["add"] is None for row in rows] == [False] * len(adds) + [True] * (len(rows) - len(adds))
    assert {file.metadata.row_group(0).column(0).compression for file in read} == {"ZSTD"}
    assert [file.metadata.num_rows for file in read] == [100, 100, 67, 34]


HINTS = ["p = 'a'", "p > 'c' AND x < 20", "x = 17", "x < 5 OR x > 290", "p IN ('b', 'e') AND x >= 250", "p IS NULL"]


@pytest.mark.parametrize("options", [{}, JSON_ONLY], ids=["typed", "json"])
@pytest.mark.parametrize("hint", HINTS)
def test_a_query_gets_the_same_files_of_both(tmp_path: Path, hint: str, options: dict[str, Any]) -> None:
    table(tmp_path, **options)
    snapshot = DeltaLog(FolderStore(tmp_path)).snapshot()
    wanted = file_filter(parse_hints([hint], None), snapshot.metadata)
    expected = found_files(snapshot.files(wanted))
    sort(tmp_path, layout=MANY)
    store = FolderStore(tmp_path)
    snapshot = DeltaLog(store).snapshot()
    wanted = file_filter(parse_hints([hint], None), snapshot.metadata)
    assert found_files(snapshot.files(wanted)) == expected
    opened = {call.split()[1] for call in store.calls if "_sidecars" in call}
    partitions = {one["partitionValues"]["p"] for one in expected if not one["path"].startswith("g")}
    # A partition has 54 files, which lie in two or three sidecars of ten.
    assert len(opened) <= 3 * len(partitions)
    fetched = [call for call in store.calls if call.startswith("range") and "_sidecars" in call]
    assert len(fetched) <= len(opened)


@pytest.mark.parametrize("hint", [None, "x < 100", "p = 'c'", "p = 'a' OR x > 200"])
@pytest.mark.parametrize(("text", "sidecars"), [("p = 'b'", 3), ("p <> 'c' AND p > 'a'", 9), ("p IS NULL", 0)])
def test_who_sees_some_partitions_sees_the_same_of_both(
    tmp_path: Path, text: str, sidecars: int, hint: str | None
) -> None:
    def row_filtered(snapshot: Snapshot) -> tuple[Any, list[Action], list[Action]]:
        visibility = TableVisibility(snapshot.metadata, evaluate([parse(text)], {}, snapshot.metadata))
        asked = None if hint is None else file_filter(parse_hints([hint], None), snapshot.metadata)
        files, all_files = (list(found_files(snapshot.files(visibility.row_filter(one)))) for one in (asked, None))
        return visibility.totals(snapshot), files, all_files

    table(tmp_path)
    expected = row_filtered(DeltaLog(FolderStore(tmp_path)).snapshot())
    sort(tmp_path, layout=MANY)
    store = FolderStore(tmp_path)
    found = row_filtered(DeltaLog(store, SnapshotCache(1 << 20), "t").snapshot())
    assert found == expected
    totals, files, all_files = found
    assert totals == (len(all_files), sum(one["size"] for one in all_files))
    assert all(one["partitionValues"]["p"] in {"b", "d", "e"} for one in (*files, *all_files))
    opened = {call.split()[1] for call in store.calls if "_sidecars" in call}
    assert len(opened) <= sidecars


def test_pages_of_a_filtered_query_are_the_whole(tmp_path: Path) -> None:
    table(tmp_path)
    sort(tmp_path)
    log = DeltaLog(FolderStore(tmp_path))
    wanted = file_filter(parse_hints(["x < 150"], None), log.snapshot().metadata)
    whole = [path for batch in log.snapshot().files(wanted) for path in batch["path"].to_pylist()]
    paged, position = [], None
    while (batch := next(log.snapshot(3, at=position).scan(wanted, 4, position), None)) is not None:
        paged.append(batch.files["path"][0].as_py())
        position = batch.position(1)
    assert paged == whole


def test_a_summary_of_another_file_is_not_believed(tmp_path: Path) -> None:
    table(tmp_path)
    made = sort(tmp_path)
    assert made is not None
    manifest = tmp_path / LOG / made.manifest
    lines = [json.loads(line) for line in manifest.read_text().splitlines()]
    tagged = [line["sidecar"] for line in lines if "sidecar" in line]
    # Another writer copies the tags, and mixes them up.
    tags = [one["tags"] for one in tagged]
    for one, other in zip(tagged, [*tags[1:], tags[0]], strict=True):
        one["tags"] = other
    expected = ours(tmp_path)
    wanted = file_filter(parse_hints(["x = 17"], None), expected[1])
    files = found_files(DeltaLog(FolderStore(tmp_path)).snapshot().files(wanted))
    manifest.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert ours(tmp_path) == expected
    assert found_files(DeltaLog(FolderStore(tmp_path)).snapshot().files(wanted)) == files
    assert [path["path"] for path in files if path["path"].startswith("f")] != []


@pytest.mark.parametrize("said", [None, "{", "[]", 7, json.dumps({"path": "f"})])
def test_a_summary_that_says_nothing_is_no_mistake(tmp_path: Path, said: Any) -> None:
    log = table(tmp_path)
    (manifest,) = manifests(tmp_path)
    content = manifest.read_text().replace('"tags": null', '"tags": ' + json.dumps({SUMMARY: said}))
    expected = ours(tmp_path)
    manifest.write_text(content)
    assert ours(tmp_path) == expected
    assert len(expected[3]) == len(log.state().files)


def test_a_line_that_says_it_names_no_sidecar_is_kept(tmp_path: Path) -> None:
    table(tmp_path)
    (manifest,) = manifests(tmp_path)
    lines = [{"sidecar": None, **json.loads(line)} for line in manifest.read_text().splitlines()]
    manifest.write_text("".join(json.dumps(line) + "\n" for line in lines))
    expected = ours(tmp_path)
    assert sort(tmp_path) is not None
    assert ours(tmp_path) == expected


def with_types(root: Path, change: Callable[[pa.Field], pa.Field]) -> Path:
    """Write the sidecars anew with the fields of their adds changed; return the manifest."""
    for file in (root / LOG / "_sidecars").iterdir():
        rows = pq.read_table(file)
        adds = cast("pa.StructType", rows.schema.field("add").type)
        kind = pa.struct([change(one) for one in adds])
        at = rows.schema.get_field_index("add")
        changed = rows.set_column(at, pa.field("add", kind), pa.array(rows["add"].to_pylist(), kind))
        pq.write_table(changed, file)
    (manifest,) = manifests(root)
    lines = [json.loads(line) for line in manifest.read_text().splitlines()]
    for sidecar in (line["sidecar"] for line in lines if "sidecar" in line):
        sidecar["sizeInBytes"] = (root / LOG / "_sidecars" / sidecar["path"]).stat().st_size
    manifest.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return manifest


def test_fields_that_no_add_lacks_may_be_declared_so(tmp_path: Path) -> None:
    table(tmp_path)
    expected = ours(tmp_path)
    required = {"path", "size", "modificationTime"}
    with_types(tmp_path, lambda one: pa.field(one.name, one.type, one.name not in required))
    assert ours(tmp_path) == expected
    assert sort(tmp_path) is not None
    assert ours(tmp_path) == expected


@pytest.mark.parametrize("kind", [pa.string_view(), pa.dictionary(pa.int32(), pa.string())])
def test_types_that_cannot_be_sorted_leave_the_checkpoint_as_it_is(tmp_path: Path, kind: pa.DataType) -> None:
    table(tmp_path)
    manifest = with_types(
        tmp_path,
        lambda one: pa.field(one.name, pa.struct([("p", kind)])) if one.name == "partitionValues_parsed" else one,
    )
    with pytest.raises(NotSorted, match="stays as it is"):
        sort(tmp_path)
    assert manifests(tmp_path) == [manifest]


@pytest.mark.parametrize("most", range(6))
def test_who_dies_on_the_way_leaves_the_log_as_it_was(tmp_path: Path, most: int) -> None:
    table(tmp_path)
    expected = ours(tmp_path), theirs(tmp_path)
    writer = Folder(tmp_path, most)
    with pytest.raises(KeyboardInterrupt):
        sort(tmp_path, writer=writer)
    assert len(writer.written) == most
    assert (ours(tmp_path), theirs(tmp_path)) == expected
    assert (sort(tmp_path) is None) is (most == 5), "once the manifest is there all is in order"
    assert (ours(tmp_path), theirs(tmp_path)) == expected


def test_who_loses_the_lease_writes_nothing_more(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"statistics": "none", "partitions": ()}, id="no_statistics"),
        pytest.param({"partitions": (), "clustered": False}, id="no_order"),
    ],
)
def test_what_has_no_order_stays_as_it_is(tmp_path: Path, options: dict[str, Any]) -> None:
    table(tmp_path, **options)
    assert sort(tmp_path) is None
    assert len(manifests(tmp_path)) == 1


@pytest.mark.parametrize(
    "told", ["", "[]", "null", '{"clusteringColumns": null}', '{"clusteringColumns": [["x"], 7]}', 5]
)
def test_clustering_that_cannot_be_read_is_no_order(tmp_path: Path, told: Any) -> None:
    table(tmp_path)
    (manifest,) = manifests(tmp_path)
    lines = [json.loads(line) for line in manifest.read_text().splitlines()]
    lines[-1]["domainMetadata"]["configuration"] = told
    manifest.write_text("".join(json.dumps(line) + "\n" for line in lines))
    expected = ours(tmp_path)
    assert sort(tmp_path) is not None, "by its partitions alone"
    assert ours(tmp_path) == expected


def test_a_small_one_and_a_classic_one_stay_as_they_are(tmp_path: Path) -> None:
    log = table(tmp_path)
    assert sort(tmp_path, least_files=FILES + 1) is None
    log.clear_checkpoints()
    log.classic(2, statistics="both")
    assert sort(tmp_path) is None


def test_z_order_is_an_order_too(tmp_path: Path) -> None:
    table(tmp_path, partitions=(), clustered=False)
    assert sort(tmp_path, zorder_by=("X",)) is not None
    snapshot = DeltaLog(store := FolderStore(tmp_path)).snapshot()
    wanted = file_filter(parse_hints(["x = 17"], None), snapshot.metadata)
    assert len(found_files(snapshot.files(wanted))) == 10
    assert len({call.split()[1] for call in store.calls if "_sidecars" in call}) == 1


# What statistics of many files say must hold for each: texts that writers cut, numbers without a bound, NaN.
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
def test_bounds_of_many_files_keep_whatever_a_files_own_bounds_keep(kind: str, data: st.DataObject) -> None:
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
    told: Action = metadata(schema=schema, partitions=())["metaData"]
    wanted = file_filter(parse_hints([], json.dumps(hint)), parse_metadata(told, "here"))
    if wanted is None:
        return
    maps = pa.array([[]] * len(rows), pa.map_(pa.string(), pa.string()))
    kept = wanted.by_typed_statistics(maps, typed).to_pylist()
    adds = pa.StructArray.from_arrays([typed], names=["stats_parsed"])
    said = statistics(adds, [Key(("c",), is_partition=False)])
    (keeps,) = wanted.by_bounds(pa.array([said.decode()], pa.string())).to_pylist()
    assert keeps or not any(kept)


ENDS = ("minValues", "maxValues")


def test_a_maximum_of_any_width_may_have_been_cut() -> None:
    cut = "x" * 32
    for kind in (pa.string(), pa.large_string()):
        adds = pa.array(
            [{"stats_parsed": {"minValues": {"c": "a"}, "maxValues": {"c": high}}} for high in (cut, f"{cut}a")],
            pa.struct([("stats_parsed", pa.struct([(name, pa.struct([("c", kind)])) for name in ENDS]))]),
        )
        assert json.loads(statistics(adds, [Key(("c",), is_partition=False)]))["maxValues"] == {"c": "x" * 31 + "y"}


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary()])
@pytest.mark.parametrize("value", [None, "", "__HIVE_DEFAULT_PARTITION__"])
def test_nothing_is_said_of_partitions_that_may_be_null(value: str | None, kind: pa.DataType) -> None:
    def said(*partitions: str | None) -> Any:
        values = pa.array(partitions, pa.string()).cast(kind)
        parsed = pa.StructArray.from_arrays([values], names=["p"])
        adds = pa.StructArray.from_arrays([parsed], names=["partitionValues_parsed"])
        return json.loads(statistics(adds, [Key(("p",), is_partition=True)]))

    assert not any(said("a", value).values())
    bounds = {} if kind == pa.binary() else {"minValues": {"p": "a"}, "maxValues": {"p": "b"}}
    assert said("a", "b") == bounds | {"nullCount": {"p": 0}}
