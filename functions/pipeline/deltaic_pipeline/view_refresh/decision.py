"""The decision of a refresh: whether all rows are computed, only what changed, or nothing, and why. Needs no Spark."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from deltaic_pipeline.view_refresh.definition import Audience
from deltaic_pipeline.view_refresh.refresh_state import RefreshState
from deltaic_pipeline.view_refresh.view_sql import CLOCK_IS_ASKED


@dataclass(frozen=True, slots=True)
class Decision:
    """Which audiences follow the source's changes, which are computed in full, and which lose all their rows."""

    kind: Literal["full", "incremental", "nothing"]
    why_full: str = ""
    followed: tuple[Audience, ...] = ()
    in_full: tuple[Audience, ...] = ()
    removed: tuple[str, ...] = ()

    def full(self, why: str) -> "Decision":
        """Return the decision to compute the same audiences in full."""
        return replace(self, kind="full", why_full=why, followed=(), in_full=self.followed + self.in_full)


def why_full(
    current: RefreshState | None, following: RefreshState, *, has_feed: bool, of_sql: Callable[[], str]
) -> str:
    """Return why a refresh cannot follow the source's changes; empty if it can.

    `of_sql` says why the SQL cannot, which costs Spark a plan, and is asked only where nothing else decides.
    """
    if current is None:
        return "no refresh has written its table yet"
    if current.definition != following.definition:
        return "its SQL, its key or its source is another one than before"
    if current.source_id != following.source_id:
        return "another table lies where its source was"
    if current.source_columns != following.source_columns:
        return "the source's columns are others than before"
    if why := of_sql():
        return why
    if current.source_version > following.source_version:
        return "the source's versions are fewer than before"
    if current.source_version < following.source_version and not has_feed:
        return "the source has no change feed (delta.enableChangeDataFeed)"
    return ""


def decide(  # noqa: PLR0913 -- what a decision rests on
    current: RefreshState | None,
    following: RefreshState,
    audiences: Sequence[Audience],
    *,
    known: Collection[str],
    row_counts: Mapping[str, int],
    why: str,
    same_sources: bool,
) -> Decision:
    """Return what a refresh from `current` to `following` has to compute; `why` is the answer of `why_full`.

    `known` are the audiences that the catalog says the table holds; `same_sources` tells that the last refresh read the
    same version of every table.
    """
    names = {each.name for each in audiences}
    removed = tuple(sorted(row_counts.keys() - names))
    whole = Decision("incremental", in_full=tuple(audiences), removed=removed)
    if current is not None and not removed and names <= set(known):
        same_view = (current.definition, current.source_id) == (following.definition, following.source_id)
        unchanged = (
            same_sources and why != CLOCK_IS_ASKED if why else current.source_version == following.source_version
        )
        if same_view and unchanged:
            return Decision("nothing")
    if why:
        return whole.full(why)
    # Without rows nothing shows that an audience's state is that of the others: it may have been empty at a later
    # version, or the catalog is older than the table, as a restored one.
    up_to_date = set(known) & {name for name, count in row_counts.items() if count}
    return replace(
        whole,
        followed=tuple(each for each in audiences if each.name in up_to_date),
        in_full=tuple(each for each in audiences if each.name not in up_to_date),
    )
