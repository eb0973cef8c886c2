"""Pages of view freshness, and of the findings of `deltaic doctor`."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, Final

from deltaic.catalog.items import Share, View
from deltaic.errors import NotFound
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from deltaic_ops.console.background_jobs import ReportProgress
from deltaic_ops.console.console_context import ConsoleContext, Handler, list_page

_PAGE_SIZE: Final = 100
"""Number of shares whose views one page shows."""

_MAX_THREADS: Final = 8


def views(context: ConsoleContext, request: Request) -> Response:
    """Show the freshness of views, for one page of shares."""
    from deltaic_pipeline.view_refresh.catalog_session import why_due_by_entry

    admin, now = context.provider.admin, datetime.now(UTC)
    shares = list_page(request, admin.shares.list, lambda share: share.name, _PAGE_SIZE)

    def read(share: Share) -> list[tuple[View, str]]:
        try:
            return [(view, why_due_by_entry(view, now)) for view in admin.views.list(share.name)]
        except NotFound:  # the share was deleted in the meantime
            return []

    with ThreadPoolExecutor(_MAX_THREADS) as pool:
        entries = [entry for batch in pool.map(read, shares.entries) for entry in batch]
    return context.page(request, "views.html", shares=shares, views=entries)


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

    context.jobs.start("findings", "Running the doctor's checks", examine, max_age=0)
    return RedirectResponse("/findings", 303)


ROUTES: Final[dict[str, Handler]] = {"/views": views, "/findings": findings}
FORMS: Final[dict[str, Handler]] = {"/findings": run_doctor}
