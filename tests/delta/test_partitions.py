"""Test that coded partition values equal the values in the maps."""

from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_tables.folder_store import FolderStore
from delta_tables.handmade import metadata
from deltaic.delta.actions import parse_metadata
from deltaic.delta.scan.add_rows import as_texts
from deltaic.delta.scan.checkpoint_parts import ParquetPart
from deltaic.delta.scan.partition_codes import partition_codes
from deltaic.delta.scan.row_group_cache import RowGroupCache
from deltaic.delta.scan.row_selection import Selection
from deltaic.partition_filters import evaluate, parse
from deltaic.sharing.rights.table_visibility import TableVisibility
from hypothesis import given, settings

MAPS = pa.map_(pa.string(), pa.string())
values = st.sampled_from([None, "", "a", "b", "\u00fc"])


@settings(deadline=None)
@given(st.integers(0, 3).flatmap(lambda width: st.lists(st.none() | st.tuples(*[values] * width))))
def test_codes_round_trip(rows: list[tuple[str | None, ...] | None]) -> None:
    maps = [None if row is None else [(f"k{at}", value) for at, value in enumerate(row)] for row in rows]
    alive = pa.array([row is not None for row in rows], pa.bool_())
    codes = partition_codes(pa.array(maps, MAPS), alive)
    assert codes is not None
    assert codes.values(alive).to_pylist() == [row for row in maps if row is not None]
    assert codes.codes.is_valid().to_pylist() == alive.to_pylist()
    distinct = codes.distinct.to_pylist()
    assert len({tuple(row) for row in distinct}) == len(distinct)


def test_unused_dictionary_values_are_dropped() -> None:
    items = pa.array(["1", "2", "3", None, "3"]).dictionary_encode().slice(2)
    keys = pa.array(["p"] * 3).dictionary_encode()
    maps: Any = pa.MapArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), keys, items)
    codes = partition_codes(maps, pa.array([True] * 3, pa.bool_()))
    assert codes is not None
    assert codes.distinct.to_pylist() == [[("p", "3")], [("p", None)]]


def test_rows_with_different_keys_have_no_codes() -> None:
    for rows in (
        [[("a", "1"), ("b", "2")], [("b", "2"), ("a", "1")]],
        [[("a", "1")], []],
        [[("a", "1")], [("b", "1")]],
        [[("a", "1")], None],
        [[("a", "1"), ("b", "1")], [], [("a", "1"), ("b", "1"), ("a", "1"), ("b", "1")]],
    ):
        maps = pa.array(rows, MAPS)
        assert partition_codes(maps, pa.array([True] * len(rows), pa.bool_())) is None


@pytest.mark.parametrize("text", [pa.string(), pa.large_string(), pa.binary()], ids=str)
@pytest.mark.parametrize("limit", [1 << 20, 64], ids=["dictionary", "given_up_in_the_middle"])
def test_values_are_read_from_every_encoding(tmp_path: Path, limit: int, text: pa.DataType) -> None:
    rows = [None if at % 7 == 3 else {"p": None if at % 5 == 0 else f"v{at % 1000}"} for at in range(5000)]
    maps = pa.array([None if row is None else list(row.items()) for row in rows], pa.map_(text, text))
    paths = pa.array([None if row is None else f"f{at}" for at, row in enumerate(rows)])
    absent: Any = pa.array([row is None for row in rows])
    adds = pa.StructArray.from_arrays([paths, maps], names=["path", "partitionValues"], mask=absent)
    file = tmp_path / "part.parquet"
    pq.write_table(
        pa.table({"add": adds}), file, row_group_size=2500, dictionary_pagesize_limit=limit, write_batch_size=100
    )
    part = ParquetPart(FolderStore(tmp_path), "part.parquet", file.stat().st_size, "here")
    table_metadata = parse_metadata(metadata()["metaData"], "here")
    row_filter = TableVisibility(
        table_metadata, evaluate([parse("p = 'v12' OR p IS NULL")], {}, table_metadata)
    ).row_filter(None)
    assert row_filter is not None
    for budget in (0, 1 << 20):
        selection = Selection(part, row_filter, [0, 1], RowGroupCache(budget).part("t", "part"))
        choices = [selection.select(group) for group in (0, 1)]
        expected = [row is not None and row["p"] in {None, "v12"} for row in rows]
        assert [keep for choice in choices for keep in choice.rows.to_pylist()] == expected
        assert sum(choice.adds for choice in choices) == len(rows) - rows.count(None)


@pytest.mark.parametrize("text", [pa.string(), pa.binary()], ids=str)
@pytest.mark.parametrize("skip", [0, 2])
def test_codes_decode_to_text(text: pa.DataType, skip: int) -> None:
    keys, items = (pa.array(values, text).dictionary_encode() for values in ("pqpqp", ["1", None, "2", "2", "1"]))
    coded: Any = pa.MapArray.from_arrays(pa.array([0, 2, None, 4, 5], pa.int32()), keys, items)
    expected = [[("p", "1"), ("q", None)], [("p", "2"), ("q", "2")], None, [("p", "1")]]
    texts = as_texts(coded.slice(skip), 4 - skip)
    assert texts.type == MAPS
    assert texts.to_pylist() == expected[skip:]


@pytest.mark.parametrize("text", [pa.string(), pa.large_string(), pa.binary()], ids=str)
def test_taken_rows_decode_to_text(text: pa.DataType) -> None:
    rows = [[("p", "1")], None, [("p", None), ("q", "2")], []]
    maps: Any = pa.array(rows, pa.map_(text, text)).take(pa.array([2, 1, 3, 0]))
    for skip in range(4):
        texts = as_texts(maps.slice(skip), 4 - skip)
        assert texts.type == MAPS
        assert texts.to_pylist() == [rows[at] for at in (2, 1, 3, 0)][skip:]
