"""Merged ranges cover all bytes once, and no other bytes except near gaps."""

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
    requested = {byte for start, end in ranges for byte in range(start, end)}
    covered = [byte for start, end in merged for byte in range(start, end)]
    assert len(covered) == len(set(covered))
    assert requested <= set(covered)
    assert merged == sorted(merged)
    for (_, end), (start, _) in itertools.pairwise(merged):
        assert end <= start
    for start, end in ranges:
        if end <= start:
            continue
        assert any(first <= start and end <= last for first, last in merged)
    # Other bytes are only read in near gaps.
    for start, end in merged:
        gaps = [byte for byte in range(start, end) if byte not in requested]
        assert all(any(neighbor in requested for neighbor in range(byte - near, byte)) for byte in gaps)


def test_large_range_is_split() -> None:
    column = LARGEST // 4
    assert coalesce([(n * column, (n + 1) * column) for n in range(8)]) == [(0, LARGEST), (LARGEST, 2 * LARGEST)]


@settings(deadline=None)
@given(ranges=ranges, near=st.integers(0, 20), largest=st.integers(1, 60))
def test_cut_ranges_are_slices(ranges: list[tuple[int, int]], near: int, largest: int) -> None:
    body = bytes(range(200))
    merged = coalesce(ranges, near, largest)
    parts = [body[start:end] for start, end in merged]
    assert cut(ranges, merged, parts, "x") == [body[start:end] for start, end in ranges]


def test_short_answer_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="less of"):
        cut([(0, 4)], [(0, 4)], [b"abc"], "x")
