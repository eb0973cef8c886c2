"""Coalesced ranges: everything is read, once, and nothing that no gap explains."""

import itertools

import pytest
from deltaic.errors import Unavailable
from deltaic.storage.byte_ranges import LARGEST, coalesce, cut
from hypothesis import given, settings
from hypothesis import strategies as st

ranges = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 30)).map(lambda r: (r[0], r[0] + r[1])), max_size=12)


@settings(deadline=None)
@given(ranges=ranges, near=st.integers(0, 20), largest=st.integers(1, 60))
def test_coalesced_requests_cover_everything_once(ranges: list[tuple[int, int]], near: int, largest: int) -> None:
    merged = coalesce(ranges, near, largest)
    asked = {byte for start, end in ranges for byte in range(start, end)}
    covered = [byte for start, end in merged for byte in range(start, end)]
    assert len(covered) == len(set(covered))
    assert asked <= set(covered)
    assert merged == sorted(merged)
    for (_, end), (start, _) in itertools.pairwise(merged):
        assert end <= start
    wanted = [one for one in ranges if one[1] > one[0]]
    for start, end in wanted:
        assert any(first <= start and end <= last for first, last in merged)
    # Nothing is read that no gap explains.
    for start, end in merged:
        gaps = [byte for byte in range(start, end) if byte not in asked]
        assert all(any(other in asked for other in range(byte - near, byte)) for byte in gaps)


def test_a_large_run_is_read_in_parts() -> None:
    column = LARGEST // 4
    assert coalesce([(n * column, (n + 1) * column) for n in range(8)]) == [(0, LARGEST), (LARGEST, 2 * LARGEST)]


@settings(deadline=None)
@given(ranges=ranges, near=st.integers(0, 20), largest=st.integers(1, 60))
def test_cut_ranges_are_slices(ranges: list[tuple[int, int]], near: int, largest: int) -> None:
    body = bytes(range(200))
    merged = coalesce(ranges, near, largest)
    parts = [body[start:end] for start, end in merged]
    assert cut(ranges, merged, parts, "x") == [body[start:end] for start, end in ranges]


def test_a_short_answer_is_not_taken() -> None:
    with pytest.raises(Unavailable, match="less of"):
        cut([(0, 4)], [(0, 4)], [b"abc"], "x")
