"""Whether views are as fresh as they promise, and nobody waits for rows that no refresh brings."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from deltaic.catalog.items import View
from deltaic_pipeline.view_refresh.catalog import stale

from deltaic_ops.inspection.findings import Finding, ok

PATIENCE = timedelta(hours=1)
"""How long a refresh may be asked for before that is strange."""


def fresh(views: Iterable[View], moment: datetime | None = None) -> Iterator[Finding]:
    """Yield a warning for each view that is older than it may be or was asked for in vain, else one line for all."""
    moment = moment or datetime.now(UTC)
    looked_at = 0
    behind = False
    for view in views:
        looked_at += 1
        if said := _behind(view, moment):
            behind = True
            failure = view.last_refresh.get("failure")
            why = f"; the last attempt failed: {failure}" if failure else ""
            yield Finding(
                f"refreshes the view {view.title}", "warning", said + why, f"deltaic view refresh {view.title}"
            )
    if looked_at and not behind:
        yield ok("refreshes views", f"{looked_at} view(s) are as fresh as they shall be")


def _behind(view: View, moment: datetime) -> str:
    if view.requested_at is not None and moment - view.requested_at >= PATIENCE:
        return f"asked for since {view.requested_at:%Y-%m-%d %H:%M} UTC"
    if view.refreshed_at is None and view.requested_at is None and not view.refresh and not view.max_staleness:
        return "never refreshed, and nothing does it by itself"
    if stale(view, moment):
        since = f"{view.refreshed_at:%Y-%m-%d %H:%M} UTC" if view.refreshed_at else "never"
        return f"refreshed {since}, and may be {timedelta(seconds=view.max_staleness)} old"
    return ""
