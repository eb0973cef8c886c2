"""The pages of what needs somebody's care: views that are not fresh, what ends soon, what the doctor finds."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from deltaic.catalog.items import Share, View
from deltaic.errors import NotFound
from deltaic.scheduled.expirations import scan_expirations
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from deltaic_ops.console.background_jobs import Say
from deltaic_ops.console.console_context import Desk, Handler, listed

_SHARES: Final = 100
"""Whose views a page looks for."""

_READERS: Final = 8

_SOON: Final = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Freshness:
    """A view, and whether it is as fresh as it shall be."""

    view: View
    behind: str
    """Why not; empty if it is."""


def views(desk: Desk, request: Request) -> Response:
    """Show how fresh the views of some shares are."""
    from deltaic_pipeline.view_refresh.catalog_session import due_by_entry

    admin, now = desk.provider.admin, datetime.now(UTC)
    shares = listed(request, admin.shares.list, lambda share: share.name, _SHARES)

    def read(share: Share) -> Sequence[Freshness]:
        try:
            return [Freshness(view, due_by_entry(view, now)) for view in admin.views.list(share.name)]
        except NotFound:  # deleted meanwhile
            return []

    with ThreadPoolExecutor(_READERS) as pool:
        found = [one for some in pool.map(read, shares.entries) for one in some]
    return desk.page(request, "views.html", shares=shares, views=found)


def ends(desk: Desk, request: Request) -> Response:
    """Show what ends soon, once it was asked for: every recipient is looked at."""
    return desk.asked_for(request, "ends", "ends.html", days=_SOON.days)


def look_for_ends(desk: Desk, _: Request) -> Response:
    """Look for what ends soon."""

    def look(_: object) -> Any:
        now = datetime.now(UTC)
        return scan_expirations(desk.provider.admin, now, now + _SOON)

    return _begun(desk, "ends", "Looking for what ends soon", look)


def findings(desk: Desk, request: Request) -> Response:
    """Show what the doctor found, once it was asked for."""
    return desk.asked_for(request, "findings", "findings.html")


def look_for_findings(desk: Desk, _: Request) -> Response:
    """Let the doctor look."""

    def look(say: Say) -> Any:
        found = []
        for finding in desk.provider.examine():
            say(f"{finding.verdict}: {finding.check}")
            found.append(finding)
        return found

    return _begun(desk, "findings", "The doctor looks", look)


def _begun(desk: Desk, page: str, title: str, look: Callable[[Say], Any]) -> Response:
    desk.works.begun(page, title, look, older=0)
    return RedirectResponse(f"/{page}", 303)


ROUTES: Final[dict[str, Handler]] = {"/views": views, "/ends": ends, "/findings": findings}
FORMS: Final[dict[str, Handler]] = {"/ends": look_for_ends, "/findings": look_for_findings}
