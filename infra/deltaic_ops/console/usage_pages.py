"""The page of usage by recipient and table, and the job that reads when credentials were last used."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response

from deltaic_ops.console.background_jobs import LONG_AGE_SECONDS, MAX_AGE_SECONDS, BackgroundJob
from deltaic_ops.console.console_context import ConsoleContext, Handler, finishes_soon
from deltaic_ops.usage.plots import bars, by_day, largest, summed
from deltaic_ops.usage.usage_report import Report, amount, names_in

if TYPE_CHECKING:
    from collections.abc import Mapping

DAYS: Final = (7, 30, 90)
_MAX_ROWS: Final = 500


@dataclass(frozen=True, slots=True)
class _UsageRead:
    report: Report
    read_at: datetime


def usage(context: ConsoleContext, request: Request) -> Response:
    """Show the usage of the last days by all recipients or by one."""
    days = _days(request.query_params.get("days", ""))
    job = _start_usage(context, days)
    if not finishes_soon(job):
        return context.waiting_page(request, job)
    recipient = request.query_params.get("recipient", "")
    result, error = job.result()
    values = {"days": days, "choices": DAYS, "recipient": recipient, "result": result, "error": error}
    if error:
        return context.page(request, "usage.html", **values)
    uses = [use for use in result.report.uses if recipient in ("", use.recipient)]
    return context.page(
        request,
        "usage.html",
        **values,
        uses=uses[:_MAX_ROWS],
        remaining=len(uses) - _MAX_ROWS,
        plots=_plots(result, recipient, uses),
        sent=sum(use.bytes_sent for use in uses),
        requests=sum(use.requests for use in uses),
    )


def last_used(context: ConsoleContext, recipient_id: str, tokens: Sequence[str]) -> BackgroundJob:
    """Start a job that reads the last use of each token of a recipient; key "" stands for other credentials."""

    def read(_: object) -> "Mapping[str, datetime]":
        from deltaic_ops.usage.usage_report import UsageFilter, last_uses

        selection = UsageFilter("recipient_id", recipient_id)
        return last_uses(context.provider.usage, context.provider.environment, selection, "token_id", tokens)

    return context.jobs.start(("last use", recipient_id), "Reading the usage table", read, max_age=MAX_AGE_SECONDS)


def _start_usage(context: ConsoleContext, days: int) -> BackgroundJob:
    """Start a job that reads the usage of the last days, unless it was read some minutes before."""

    def read(_: object) -> _UsageRead:
        from deltaic_ops.usage.usage_report import report

        provider, now = context.provider, datetime.now(UTC)
        names = partial(names_in, provider.admin)
        return _UsageRead(report(provider.usage, days, provider.environment, names, now.date()), now)

    title = f"Reading the usage of {days} days"
    return context.jobs.start(("usage", days), title, read, max_age=LONG_AGE_SECONDS)


def _plots(usage_read: _UsageRead, recipient: str, uses: Sequence[Any]) -> list[str]:
    report, today = usage_read.report, usage_read.read_at.date()

    def select(sums_by_day: dict[date, dict[str, int]]) -> dict[date, dict[str, int]]:
        if not recipient:
            return sums_by_day
        return {day: {recipient: sums[recipient]} for day, sums in sums_by_day.items() if recipient in sums}

    requests, sent = select(report.requests_by_day), select(report.bytes_by_day)
    order = list(dict.fromkeys([*largest(sent), *largest(requests)]))
    return [
        by_day("Requests, by day", requests, report.since, today, "{:,.0f}".format, order=order),
        by_day("Bytes sent, by day", sent, report.since, today, amount, order=order),
        "" if recipient else bars("Bytes sent, by recipient", summed(uses, "recipient")),
        bars("Bytes sent, by table", summed(uses, "table")),
    ]


def _days(text: str) -> int:
    return next((days for days in DAYS if str(days) == text), DAYS[1])


ROUTES: Final[dict[str, Handler]] = {"/usage": usage}
