"""Pages of view freshness, of upcoming expirations, and of the findings of `deltaic doctor`."""

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

from deltaic_ops.console.background_jobs import ReportProgress
from deltaic_ops.console.console_context import ConsoleContext, Handler, list_page

_PAGE_SIZE: Final = 100
"""Number of shares whose views one page shows."""

_MAX_THREADS: Final = 8
_PERIOD: Final = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class ViewFreshness:
    """A view, and whether it must be refreshed."""

    view: View
    behind: str
    """Reason why the view must be refreshed; empty if it is fresh."""


def views(context: ConsoleContext, request: Request) -> Response:
    """Show the freshness of views, for one page of shares."""
    from deltaic_pipeline.view_refresh.catalog_session import why_due_by_entry

    admin, now = context.provider.admin, datetime.now(UTC)
    shares = list_page(request, admin.shares.list, lambda share: share.name, _PAGE_SIZE)

    def read(share: Share) -> Sequence[ViewFreshness]:
        try:
            return [ViewFreshness(view, why_due_by_entry(view, now)) for view in admin.views.list(share.name)]
        except NotFound:  # the share was deleted in the meantime
            return []

    with ThreadPoolExecutor(_MAX_THREADS) as pool:
        entries = [entry for batch in pool.map(read, shares.entries) for entry in batch]
    return context.page(request, "views.html", shares=shares, views=entries)


def endings(context: ConsoleContext, request: Request) -> Response:
    """Show the tokens, links, grants and access that expire soon, as found by the last search."""
    return context.show_result(request, "ends", "ends.html", days=_PERIOD.days)


def search_endings(context: ConsoleContext, _: Request) -> Response:
    """Search all recipients for tokens, links, grants and access that expire soon."""

    def search(_: object) -> Any:
        now = datetime.now(UTC)
        return scan_expirations(context.provider.admin, now, now + _PERIOD)

    return _start(context, "ends", "Searching for what ends soon", search)


def findings(context: ConsoleContext, request: Request) -> Response:
    """Show the findings of the last run of `deltaic doctor` in this console."""
    return context.show_result(request, "findings", "findings.html")


def run_doctor(context: ConsoleContext, _: Request) -> Response:
    """Run the checks of `deltaic doctor`."""

    def examine(report_progress: ReportProgress) -> Any:
        results = []
        for finding in context.provider.examine():
            report_progress(f"{finding.verdict}: {finding.check}")
            results.append(finding)
        return results

    return _start(context, "findings", "Running the doctor's checks", examine)


def _start(context: ConsoleContext, page: str, title: str, function: Callable[[ReportProgress], Any]) -> Response:
    context.jobs.start(page, title, function, max_age=0)
    return RedirectResponse(f"/{page}", 303)


ROUTES: Final[dict[str, Handler]] = {"/views": views, "/ends": endings, "/findings": findings}
FORMS: Final[dict[str, Handler]] = {"/ends": search_endings, "/findings": run_doctor}
