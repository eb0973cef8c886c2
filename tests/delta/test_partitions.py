"""Partition values in short form say what the maps said."""

import hypothesis.strategies as st
import pyarrow as pa
from deltaic.delta.scan.partition_codes import partition_codes
from hypothesis import given, settings

MAPS = pa.map_(pa.string(), pa.string())
values = st.sampled_from([None, "", "a", "b", "\u00fc"])


@settings(deadline=None)
@given(st.integers(0, 3).flatmap(lambda width: st.lists(st.none() | st.tuples(*[values] * width))))
def test_codes_give_back_every_row(rows: list[tuple[str | None, ...] | None]) -> None:
    maps = [None if row is None else [(f"k{at}", value) for at, value in enumerate(row)] for row in rows]
    alive = pa.array([row is not None for row in rows], pa.bool_())
    codes = partition_codes(pa.array(maps, MAPS), alive)
    assert codes is not None
    assert codes.values(alive).to_pylist() == [row for row in maps if row is not None]
    assert codes.codes.is_valid().to_pylist() == alive.to_pylist()
    distinct = codes.distinct.to_pylist()
    assert len({tuple(row) for row in distinct}) == len(distinct)


def test_rows_with_other_keys_have_no_codes() -> None:
    for rows in (
        [[("a", "1"), ("b", "2")], [("b", "2"), ("a", "1")]],
        [[("a", "1")], []],
        [[("a", "1")], [("b", "1")]],
        [[("a", "1")], None],
        [[("a", "1"), ("b", "1")], [], [("a", "1"), ("b", "1"), ("a", "1"), ("b", "1")]],
    ):
        maps = pa.array(rows, MAPS)
        assert partition_codes(maps, pa.array([True] * len(rows), pa.bool_())) is None
