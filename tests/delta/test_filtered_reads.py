"""Test that filters see cheap columns first, and that dropped files are not fetched or decoded."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from delta_tables.folder_store import FolderStore
from delta_tables.handmade import Action, HandmadeLog, add, expected_files, found_files, metadata, protocol, remove
from deltaic.delta.cache import SnapshotCache
from deltaic.delta.file_filter import FileFilter
from deltaic.delta.log import DeltaLog
from deltaic.delta.scan.add_rows import parsed_statistics
from deltaic.delta.scan.parquet_file import ParquetFile


@dataclass
class RecordingFilter:
    """Filter for partitions and ranges of x that counts the rows of each step."""

    partitions: set[str | None] | None = None
    below: int | None = None
    typed: bool = True
    typed_is_complete: bool = False
    """Whether typed statistics are complete."""
    counts: dict[str, int] = field(default_factory=lambda: {"partition": 0, "typed": 0, "json": 0})

    @property
    def identity(self) -> Hashable:
        return None if self.partitions is None else frozenset(self.partitions), self.below, self.typed

    @property
    def needs_statistics(self) -> bool:
        return self.below is not None

    @property
    def needs_partition_values(self) -> bool:
        return self.partitions is not None

    def by_bounds(self, statistics: pa.StringArray) -> pa.BooleanArray:  # noqa: ARG002 -- never called
        raise AssertionError("no part has a summary here")

    def by_partition(self, partition_values: pa.MapArray) -> pa.BooleanArray:
        self.counts["partition"] += len(partition_values)
        values = [dict(row)["p"] for row in partition_values.to_pylist()]
        return pa.array([self.partitions is None or value in self.partitions for value in values], pa.bool_())

    def typed_leaves(self, stats_parsed: pa.StructType) -> list[str]:
        assert pa.types.is_struct(stats_parsed)
        return ["minValues.x"] if self.typed else []

    def by_typed_statistics(self, partition_values: pa.MapArray, stats_parsed: pa.StructArray) -> pa.BooleanArray:
        assert len(partition_values) == len(stats_parsed)
        assert [f.name for f in stats_parsed.type] == ["minValues"]
        self.counts["typed"] += len(stats_parsed)
        low = pc.struct_field(stats_parsed, ["minValues", "x"])
        return pc.fill_null(pc.less(low, self.below), True)  # noqa: FBT003 -- a fill value, not a flag

    def is_decided_by(self, stats_parsed: pa.StructArray) -> bool:
        return self.typed_is_complete and pc.struct_field(stats_parsed, ["minValues", "x"]).null_count == 0

    def by_json_statistics(self, partition_values: pa.MapArray, stats: pa.StringArray) -> pa.BooleanArray:
        assert len(partition_values) == len(stats)
        self.counts["json"] += len(stats)
        lows = [
            None if row is None else int(row.partition('"minValues":{"x":')[2].partition("}")[0])
            for row in stats.to_pylist()
        ]
        return pa.array([low is None or low < (self.below or 0) for low in lows], pa.bool_())

    def keeps(self, action: Action) -> bool:
        low = action.get("stats") and int(action["stats"].partition('"minValues":{"x":')[2].partition("}")[0])
        inside = self.partitions is None or action["partitionValues"]["p"] in self.partitions
        return inside and (self.below is None or low is None or low < self.below)


def table(root: Path, statistics: str = "both", row_group: int = 10) -> HandmadeLog:
    """Write 100 files in five partitions to a checkpoint with tombstones, and a few commits after it."""
    log = HandmadeLog(root)
    log.commit(metadata(), protocol())
    files = [
        add(f"f{n:03d}", n + 1, p="abcde"[n // 20], **({"stats": None} if n % 17 == 3 else {})) for n in range(100)
    ]
    log.commit(*files)
    log.commit(*[remove(f"f{n:03d}") for n in range(0, 100, 9)])
    log.classic(2, statistics=statistics, row_group=row_group)
    log.commit(add("g1", 5, p="a"), add("g2", 500, p="c"), remove("f021"))
    log.commit(add("f001", 77, p="e"))
    return log


CASES = [
    pytest.param(lambda: RecordingFilter({"a"}), id="one_partition"),
    pytest.param(lambda: RecordingFilter({"c", "e"}), id="two_partitions"),
    pytest.param(lambda: RecordingFilter({"none"}), id="no_partition"),
    pytest.param(lambda: RecordingFilter(None), id="everything"),
    pytest.param(lambda: RecordingFilter(None, 30), id="typed_range"),
    pytest.param(lambda: RecordingFilter(None, 30, typed=False), id="json_range"),
    pytest.param(lambda: RecordingFilter(None, 30, typed_is_complete=True), id="range_that_typed_statistics_decide"),
    pytest.param(
        lambda: RecordingFilter({"b"}, 25, typed_is_complete=True),
        id="partition_and_range_that_typed_statistics_decide",
    ),
    pytest.param(lambda: RecordingFilter({"b"}, 25), id="partition_and_range"),
    pytest.param(lambda: RecordingFilter(None, -1), id="only_files_without_statistics"),
]


@pytest.mark.parametrize("statistics", ["json", "struct", "both"])
@pytest.mark.parametrize("row_group", [3, 1000])
@pytest.mark.parametrize("make_filter", CASES)
def test_a_filtered_read_equals_a_filtered_full_read(
    tmp_path: Path, make_filter: Callable[[], RecordingFilter], row_group: int, statistics: str
) -> None:
    log = table(tmp_path, statistics, row_group)
    file_filter: FileFilter = make_filter()
    expected = [action for action in expected_files(log.state()) if make_filter().keeps(action)]
    assert found_files(DeltaLog(FolderStore(tmp_path)).snapshot().files(file_filter, batch_rows=3)) == expected


@pytest.mark.parametrize("make_filter", CASES)
def test_filtered_pages_equal_a_full_read_with_and_without_cache(
    tmp_path: Path, make_filter: Callable[[], RecordingFilter]
) -> None:
    table(tmp_path)
    cached = DeltaLog(FolderStore(tmp_path), SnapshotCache(1 << 20), "t")
    for log in (DeltaLog(FolderStore(tmp_path)), cached, cached):
        paths = [path for batch in log.snapshot().files(make_filter()) for path in batch["path"].to_pylist()]
        paged, position = [], None
        while (batch := next(log.snapshot(4, at=position).scan(make_filter(), 4, position), None)) is not None:
            paged.append(batch.files["path"][0].as_py())
            position = batch.position(1)
        assert paged == paths


def test_each_step_sees_only_files_that_earlier_steps_kept(tmp_path: Path) -> None:
    table(tmp_path)
    file_filter = RecordingFilter({"b"}, 25)
    batches = list(DeltaLog(FolderStore(tmp_path)).snapshot().files(file_filter))
    # The checkpoint has 88 adds and the tail 3; partition b has 18 of them, 4 below 25 or unknown.
    assert file_filter.counts == {"partition": 91, "typed": 18, "json": sum(batch.num_rows for batch in batches)}


@pytest.mark.parametrize(("typed_is_complete", "counts"), [(True, 2), (False, 32)])
def test_json_statistics_are_skipped_if_typed_ones_are_complete(
    tmp_path: Path, *, typed_is_complete: bool, counts: int
) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(metadata(), protocol())
    log.commit(*[add(f"f{n:03d}", n, p="ab"[n % 2]) for n in range(100)])
    log.classic(1, statistics="both", row_group=20)
    log.commit(add("g1", 5, p="a"), add("g2", 500, p="c"))
    file_filter = RecordingFilter(None, 30, typed_is_complete=typed_is_complete)
    batches = list(DeltaLog(FolderStore(tmp_path)).snapshot().files(file_filter))
    assert sum(batch.num_rows for batch in batches) == 31
    # Commits have no typed statistics, and their partition values need no read.
    assert file_filter.counts == {"partition": 2, "typed": 100, "json": counts}


def chunk(root: Path, group: int, column: str) -> tuple[int, int]:
    row_group = pq.read_metadata(next((root / "_delta_log").glob("*.checkpoint.parquet"))).row_group(group)
    column_chunk = next(
        row_group.column(at) for at in range(row_group.num_columns) if row_group.column(at).path_in_schema == column
    )
    start = column_chunk.dictionary_page_offset or column_chunk.data_page_offset
    return start, start + column_chunk.total_compressed_size


def test_row_groups_without_matches_are_not_fetched(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(metadata(), protocol())
    log.commit(
        *[add(f"{n:05d}-{'x' * 2000}-{n * 7919}", n, p="ab"[n // 1500], tags={"t": f"{n}" * 300}) for n in range(3000)]
    )
    log.classic(1, row_group=500, compression="none", statistics="both")
    log.forget(0, 1)
    store = FolderStore(tmp_path)
    batches = list(DeltaLog(store).snapshot().files(RecordingFilter({"b"})))
    assert sum(batch.num_rows for batch in batches) == 1500
    fetched = [call.rpartition(" ")[2].split("-") for call in store.calls if call.startswith("range")]
    for group, needed in ((0, False), (1, False), (2, False), (3, True), (4, True), (5, True)):
        start, end = chunk(tmp_path, group, "add.path")
        assert any(int(a) <= start and end <= int(b) for a, b in fetched) is needed


def test_a_part_without_a_column_for_adds_is_skipped(tmp_path: Path) -> None:
    log = table(tmp_path)
    log.clear_checkpoints()
    log.v2(2, "parquet", 2, statistics="both")
    (top,) = log.log.glob("*.checkpoint.*.parquet")
    pq.write_table(pq.read_table(top).drop_columns(["add", "remove"]), top)
    expected = [action for action in expected_files(log.state()) if RecordingFilter(None, 30).keeps(action)]
    assert found_files(DeltaLog(FolderStore(tmp_path)).snapshot().files(RecordingFilter(None, 30))) == expected


@pytest.mark.parametrize("zoned", [frozenset[str](), frozenset({"add.stats_parsed.minValues.t"})])
def test_typed_statistics_with_view_types_can_be_filtered(zoned: frozenset[str]) -> None:
    """Files have view types if their writer stored Arrow's schema."""
    kinds = [("s", pa.string_view()), ("b", pa.binary_view()), ("t", pa.timestamp("us"))]
    kind = pa.struct([("stats_parsed", pa.struct([("minValues", pa.struct(kinds))]))])
    lows: list[Any] = [{"s": "a", "b": b"a", "t": None}, None, {"s": "c" * 40, "b": None, "t": None}]
    adds = pa.array([{"stats_parsed": {"minValues": low}} for low in lows], kind)
    parsed = parsed_statistics(adds, zoned)
    assert parsed is not None
    assert pc.filter(parsed, pa.array([False, True, True], pa.bool_())).to_pylist() == [
        {"minValues": low} for low in lows[1:]
    ]


def test_a_dot_in_a_name_hides_no_leaf(tmp_path: Path) -> None:
    rows = pa.table({"add": [{"a.b": 1, "a": {"b": 2}, "c": 3}]})
    pq.write_table(rows, tmp_path / "f.parquet")
    file = ParquetFile(FolderStore(tmp_path), "f.parquet", None, 1 << 16)
    assert file.leaves("add") == [0, 1, 2]
    assert file.leaves("add.a.b") == [0, 1]


def test_an_empty_sidecar_has_no_deletion_vectors(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(metadata(), protocol(3, 7, "deletionVectors", "v2Checkpoint"), add("f1"))
    # Arrow writes a row group without rows and without statistics.
    log.v2(0, "json", 3)
    snapshot = DeltaLog(FolderStore(tmp_path)).snapshot()
    assert not snapshot.has_deletion_vectors
    assert snapshot.totals() == (1, 1)
