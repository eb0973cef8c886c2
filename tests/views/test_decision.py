"""Test the decision of a refresh to compute all rows, changed rows, or nothing."""

from dataclasses import replace

import pytest
from deltaic_pipeline.view_refresh.decision import Decision, decide, why_full
from deltaic_pipeline.view_refresh.definition import Audience
from deltaic_pipeline.view_refresh.refresh_state import RefreshState
from deltaic_pipeline.view_refresh.view_sql import SQL_READS_CLOCK

EU, US = Audience("eu", {"region": "EU"}), Audience("us", {"region": "US"})
STATE = RefreshState(4, "definition", "source", "columns", 7)
LATER = replace(STATE, number=5, source_version=9)


@pytest.mark.parametrize(
    ("current", "has_feed", "sql_reason", "why"),
    [
        (None, True, "", "no refresh has written its table yet"),
        (replace(STATE, definition="other"), True, "", "its SQL, its key or its source has changed"),
        (replace(STATE, source_id="other"), True, "", "another table has replaced its source"),
        (replace(STATE, source_columns="other"), True, "", "the source's columns have changed"),
        (STATE, False, "the SQL aggregates", "the SQL aggregates"),
        (replace(STATE, source_version=10), True, "", "the source has fewer versions than before"),
        (STATE, False, "", "the source has no change feed (delta.enableChangeDataFeed)"),
        (replace(STATE, source_version=9), False, "", ""),
        (STATE, True, "", ""),
    ],
)
def test_changes_are_followed_without_a_reason_for_a_full_refresh(
    current: RefreshState | None, has_feed: bool, sql_reason: str, why: str
) -> None:
    assert why_full(current, LATER, has_feed=has_feed, sql_reason=lambda: sql_reason) == why


def test_sql_is_analyzed_only_if_the_states_do_not_decide() -> None:
    def never() -> str:
        raise AssertionError

    assert why_full(None, LATER, has_feed=True, sql_reason=never)


def decision_for(
    current: RefreshState | None = STATE,
    following: RefreshState = LATER,
    *,
    existing: tuple[str, ...] = ("eu", "us"),
    row_counts: dict[str, int] | None = None,
    reason: str = "",
    same_sources: bool = False,
) -> Decision:
    counts = {"eu": 1, "us": 1} if row_counts is None else row_counts
    return decide(
        current, following, [EU, US], existing=existing, row_counts=counts, reason=reason, same_sources=same_sources
    )


def test_existing_audiences_with_rows_follow_and_others_are_computed_in_full() -> None:
    assert decision_for() == Decision("incremental", followed=(EU, US))
    assert decision_for(existing=("eu",)) == Decision("incremental", followed=(EU,), in_full=(US,))
    assert decision_for(row_counts={"eu": 1, "us": 0}) == Decision("incremental", followed=(EU,), in_full=(US,))
    decision = decision_for(row_counts={"us": 1, "cn": 2, "as": 1})
    assert decision == Decision("incremental", followed=(US,), in_full=(EU,), removed=("as", "cn"))


def test_a_reason_makes_all_audiences_computed_in_full() -> None:
    assert decision_for(None, reason="it is new") == Decision("full", "it is new", in_full=(EU, US))
    assert decision_for(existing=("us",)).full("the feed is missing") == Decision(
        "full", "the feed is missing", in_full=(US, EU)
    )


SAME = replace(STATE, number=5)


@pytest.mark.parametrize(
    ("decision", "nothing"),
    [
        (decision_for(following=SAME), True),
        (decision_for(following=SAME, existing=("eu",)), False),
        (decision_for(following=SAME, row_counts={"eu": 1, "us": 1, "cn": 1}), False),
        # An audience without rows exists if the catalog has it.
        (decision_for(following=SAME, row_counts={}), True),
        (decision_for(reason="the SQL aggregates", same_sources=True), True),
        (decision_for(reason="the SQL aggregates"), False),
        (decision_for(reason=SQL_READS_CLOCK, same_sources=True), False),
        (decision_for(None, reason="no refresh", same_sources=True), False),
        (decision_for(replace(STATE, definition="other"), reason="its SQL", same_sources=True), False),
        (decision_for(replace(STATE, source_id="other"), reason="another table", same_sources=True), False),
    ],
)
def test_nothing_is_computed_if_all_audiences_have_the_latest_rows(decision: Decision, nothing: bool) -> None:
    assert (decision.kind == "nothing") is nothing
