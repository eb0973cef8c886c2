"""Check that followed sources are checked regularly, their tables are listed, and views are fresh."""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

from deltaic.catalog.admin.follow_admin import SAME_NAME, Follow
from deltaic.catalog.items import Table, View
from deltaic_pipeline.view_refresh.catalog_session import is_stale

from deltaic_ops.inspection.findings import Finding, ok

CHECK_PATIENCE = timedelta(hours=3)
"""Time after which the next check of a followed source is overdue."""

REFRESH_PATIENCE = timedelta(hours=1)
"""Time after which the requested refresh of a view is overdue."""


def check_follows(
    follows: Iterable[Follow], tables: Iterable[Table], parameters: Mapping[str, str] | None
) -> Iterator[Finding]:
    """Yield a finding for each source with an overdue or failed check, and for each table hidden from recipients.

    Without problems, yields one passed finding. `parameters` are those of the stack; None without a stack.
    """
    sources = list(follows)
    findings = [finding for follow in sources for finding in _check_source(follow, parameters)]
    for table in tables:
        if table.unlisted:
            remedy = f"repair the table, then it is listed again; or deltaic table delete {table.title}"
            reason = f"recipients do not see it: {table.unlisted}"
            findings.append(Finding(f"lists {table.title}", "warning", reason, remedy))
    if sources and not findings:
        findings = [ok("follows its sources", f"{len(sources)} sources, all tables are listed")]
    yield from findings


def _check_source(follow: Follow, parameters: Mapping[str, str] | None) -> Iterator[Finding]:
    check = f"follows {follow.source}"
    command = f"deltaic share follow {follow.share} --schema {follow.schema_name}"
    if follow.failure:
        yield Finding(check, "failed", follow.failure, f"check the source and its permissions, then: {command} --now")
    elif follow.looked_at is None or datetime.now(UTC) - follow.looked_at >= CHECK_PATIENCE:
        since = f"last checked at {follow.looked_at:%Y-%m-%d %H:%M} UTC" if follow.looked_at else "never checked"
        by_hand = parameters is None or parameters.get("Follow") == "enabled"
        remedy = ("" if by_hand else "deploy with Follow=enabled, or ") + f"{command} --now"
        yield Finding(check, "warning", since, remedy)
    for name, cause in follow.reasons.items():
        patterns = " ".join(f"--exclude {shlex.quote(pattern)}" for pattern in (*follow.exclude, name))  # replaces all
        remedy = f"{command} {patterns}, or repair it"
        if cause.startswith(SAME_NAME):
            remedy = f"rename one of the two, or share it under another name: deltaic table create {follow.title}.NAME"
        yield Finding(f"shares {follow.title}.{name}", "warning", f"not shared: {cause}", remedy)


def check_views(views: Iterable[View], now: datetime | None = None) -> Iterator[Finding]:
    """Yield a warning for each view that is stale or whose refresh is overdue, otherwise one passed finding."""
    now, all_views = now or datetime.now(UTC), list(views)
    findings = [
        Finding(
            f"refreshes the view {view.title}",
            "warning",
            f"{text}; the last attempt failed: {failure}" if (failure := view.last_refresh.get("failure")) else text,
            f"deltaic view refresh {view.title}",
        )
        for view in all_views
        if (text := _delay(view, now))
    ]
    if all_views and not findings:
        findings = [ok("refreshes views", f"{len(all_views)} views are fresh")]
    yield from findings


def _delay(view: View, now: datetime) -> str:
    if view.requested_at is not None and now - view.requested_at >= REFRESH_PATIENCE:
        return f"refresh requested at {view.requested_at:%Y-%m-%d %H:%M} UTC"
    if view.refreshed_at is None and view.requested_at is None and not view.refresh and not view.max_staleness:
        return "never refreshed, and it has no schedule"
    if is_stale(view, now):
        since = f"{view.refreshed_at:%Y-%m-%d %H:%M} UTC" if view.refreshed_at else "never"
        return f"refreshed {since}, maximum staleness {timedelta(seconds=view.max_staleness)}"
    return ""
