"""Decide whether a refresh computes all rows, only changed rows, or nothing, and why; needs no Spark."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from deltaic_pipeline.view_refresh.definition import Audience
from deltaic_pipeline.view_refresh.refresh_state import RefreshState
from deltaic_pipeline.view_refresh.view_sql import SQL_READS_CLOCK


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision for each audience (recipients' property values): compute changed rows, compute all, or remove all."""

    kind: Literal["full", "incremental", "nothing"]
    why_full: str = ""
    followed: tuple[Audience, ...] = ()
    in_full: tuple[Audience, ...] = ()
    removed: tuple[str, ...] = ()

    def full(self, reason: str) -> "Decision":
        """Return this decision, changed to compute all rows of the same audiences, for this reason."""
        return replace(self, kind="full", why_full=reason, followed=(), in_full=self.followed + self.in_full)


def why_full(
    current: RefreshState | None, following: RefreshState, *, has_feed: bool, sql_reason: Callable[[], str]
) -> str:
    """Return the reason why a refresh must compute all rows of a view; empty if changed rows suffice.

    `sql_reason` returns a reason in the view's SQL. Spark analyzes a plan for this, so it is called only if needed.
    """
    if current is None:
        return "no refresh has written its table yet"
    if current.definition != following.definition:
        return "its SQL, its key or its source has changed"
    if current.source_id != following.source_id:
        return "another table has replaced its source"
    if current.source_columns != following.source_columns:
        return "the source's columns have changed"
    if reason := sql_reason():
        return reason
    if current.source_version > following.source_version:
        return "the source has fewer versions than before"
    if current.source_version < following.source_version and not has_feed:
        return "the source has no change feed (delta.enableChangeDataFeed)"
    return ""


def decide(  # noqa: PLR0913 -- the inputs of the decision
    current: RefreshState | None,
    following: RefreshState,
    audiences: Sequence[Audience],
    *,
    existing: Collection[str],
    row_counts: Mapping[str, int],
    reason: str,
    same_sources: bool,
) -> Decision:
    """Decide which rows a refresh from state `current` to `following` must compute; `reason` is from `why_full`.

    `existing` are the audiences that have rows according to the catalog; `same_sources` states that the last refresh
    read the same version of every source table.
    """
    names = {audience.name for audience in audiences}
    removed = tuple(sorted(row_counts.keys() - names))
    in_full = Decision("incremental", in_full=tuple(audiences), removed=removed)
    if current is not None and not removed and names <= set(existing):
        same_view = (current.definition, current.source_id) == (following.definition, following.source_id)
        unchanged = (
            same_sources and reason != SQL_READS_CLOCK if reason else current.source_version == following.source_version
        )
        if same_view and unchanged:
            return Decision("nothing")
    if reason:
        return in_full.full(reason)
    # An audience without rows cannot be followed, because its version is unknown: it can have been empty at a later
    # version, or the catalog can be older than the table after a restore.
    up_to_date = set(existing) & {name for name, count in row_counts.items() if count}
    return replace(
        in_full,
        followed=tuple(audience for audience in audiences if audience.name in up_to_date),
        in_full=tuple(audience for audience in audiences if audience.name not in up_to_date),
    )
