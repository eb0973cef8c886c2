"""What a refresh decides to compute, and why: all rows, what changed, or nothing."""

from dataclasses import replace

import pytest
from deltaic_pipeline.view_refresh.decision import Decision, decide, why_full
from deltaic_pipeline.view_refresh.definition import Audience
from deltaic_pipeline.view_refresh.refresh_state import RefreshState
from deltaic_pipeline.view_refresh.view_sql import CLOCK_IS_ASKED

EU, US = Audience("eu", {"region": "EU"}), Audience("us", {"region": "US"})
STATE = RefreshState(4, "definition", "source", "columns", 7)
LATER = replace(STATE, number=5, source_version=9)


@pytest.mark.parametrize(
    ("current", "has_feed", "of_sql", "why"),
    [
        (None, True, "", "no refresh has written its table yet"),
        (replace(STATE, definition="other"), True, "", "its SQL, its key or its source is another one than before"),
        (replace(STATE, source_id="other"), True, "", "another table lies where its source was"),
        (replace(STATE, source_columns="other"), True, "", "the source's columns are others than before"),
        (STATE, False, "the SQL aggregates", "the SQL aggregates"),
        (replace(STATE, source_version=10), True, "", "the source's versions are fewer than before"),
        (STATE, False, "", "the source has no change feed (delta.enableChangeDataFeed)"),
        (replace(STATE, source_version=9), False, "", ""),
        (STATE, True, "", ""),
    ],
)
def test_changes_are_followed_unless_a_reason_forbids_it(
    current: RefreshState | None, has_feed: bool, of_sql: str, why: str
) -> None:
    assert why_full(current, LATER, has_feed=has_feed, of_sql=lambda: of_sql) == why


def test_the_sql_is_asked_only_where_the_states_leave_it_open() -> None:
    def never() -> str:
        raise AssertionError

    assert why_full(None, LATER, has_feed=True, of_sql=never)


def decided(
    current: RefreshState | None = STATE,
    following: RefreshState = LATER,
    *,
    known: tuple[str, ...] = ("eu", "us"),
    row_counts: dict[str, int] | None = None,
    why: str = "",
    same_sources: bool = False,
) -> Decision:
    counts = {"eu": 1, "us": 1} if row_counts is None else row_counts
    return decide(current, following, [EU, US], known=known, row_counts=counts, why=why, same_sources=same_sources)


def test_what_is_known_and_has_rows_follows_and_all_else_is_computed_in_full() -> None:
    assert decided() == Decision("incremental", followed=(EU, US))
    assert decided(known=("eu",)) == Decision("incremental", followed=(EU,), in_full=(US,))
    assert decided(row_counts={"eu": 1, "us": 0}) == Decision("incremental", followed=(EU,), in_full=(US,))
    gone = decided(row_counts={"us": 1, "cn": 2, "as": 1})
    assert gone == Decision("incremental", followed=(US,), in_full=(EU,), removed=("as", "cn"))


def test_a_reason_computes_everybody_in_full() -> None:
    assert decided(None, why="it is new") == Decision("full", "it is new", in_full=(EU, US))
    assert decided(known=("us",)).full("the feed is gone") == Decision("full", "the feed is gone", in_full=(US, EU))


SAME = replace(STATE, number=5)


@pytest.mark.parametrize(
    ("decision", "nothing"),
    [
        (decided(following=SAME), True),
        (decided(following=SAME, known=("eu",)), False),
        (decided(following=SAME, row_counts={"eu": 1, "us": 1, "cn": 1}), False),
        # An audience without rows is there when the catalog says so.
        (decided(following=SAME, row_counts={}), True),
        (decided(why="the SQL aggregates", same_sources=True), True),
        (decided(why="the SQL aggregates"), False),
        (decided(why=CLOCK_IS_ASKED, same_sources=True), False),
        (decided(None, why="no refresh", same_sources=True), False),
        (decided(replace(STATE, definition="other"), why="its SQL", same_sources=True), False),
        (decided(replace(STATE, source_id="other"), why="another table", same_sources=True), False),
    ],
)
def test_nothing_is_computed_where_everybody_has_the_latest_rows(decision: Decision, nothing: bool) -> None:
    assert (decision.kind == "nothing") is nothing
