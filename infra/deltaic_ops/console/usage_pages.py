"""The pages of usage: who read which table, when, how much; and when a recipient's keys were used last."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from deltaic_ops.console.background_jobs import FRESH_SECONDS, Work
from deltaic_ops.console.console_context import Desk, Handler, is_soon_done, link
from deltaic_ops.usage.plots import bars, by_day, largest, summed
from deltaic_ops.usage.usage_report import Report, amount, names_in

if TYPE_CHECKING:
    from collections.abc import Mapping

DAYS: Final = (7, 30, 90)
_MOST: Final = 500
"""Rows that are shown."""


@dataclass(frozen=True, slots=True)
class _Read:
    report: Report
    today: date
    at: datetime


def usage(desk: Desk, request: Request) -> Response:
    """Show the usage of some days: all of it, or a recipient's."""
    days = _days(request.query_params.get("days", ""))
    work = _begun(desk, days)
    if not is_soon_done(work):
        return desk.waiting(request, work)
    who = request.query_params.get("recipient", "")
    found, trouble = work.outcome()
    shown = {"days": days, "choices": DAYS, "who": who, "found": found, "trouble": trouble}
    if trouble:
        return desk.page(request, "usage.html", **shown)
    uses = [use for use in found.report.uses if who in ("", use.recipient)]
    return desk.page(
        request,
        "usage.html",
        **shown,
        uses=uses[:_MOST],
        more=len(uses) - _MOST,
        plots=_plots(found, who, uses),
        sent=sum(use.bytes_sent for use in uses),
        requests=sum(use.requests for use in uses),
    )


def read_again(desk: Desk, request: Request) -> Response:
    """Read the usage table anew."""
    days = _days(request.state.form.get("days", ""))
    _begun(desk, days, anew=True)
    return RedirectResponse(link("/usage", days=days, recipient=request.state.form.get("recipient", "")), 303)


def last_used(desk: Desk, recipient_id: str, tokens: Sequence[str]) -> Work:
    """Return the work that finds out when each token of a recipient was used last, by its id; "" for other keys."""

    def read(_: object) -> "Mapping[str, datetime]":
        from deltaic_ops.usage.usage_report import UsageOf, last_uses

        of = UsageOf("recipient_id", recipient_id)
        return last_uses(desk.provider.usage, desk.provider.environment, of, "token_id", tokens)

    return desk.works.begun(("last use", recipient_id), "Reading the usage table", read, older=FRESH_SECONDS)


def _begun(desk: Desk, days: int, *, anew: bool = False) -> Work:
    def read(_: object) -> _Read:
        from deltaic_ops.usage.usage_report import report

        now = datetime.now(UTC)
        names = partial(names_in, desk.provider.admin)
        return _Read(report(desk.provider.usage, days, desk.provider.environment, names, now.date()), now.date(), now)

    return desk.works.begun(("usage", days), f"Reading the usage of {days} days", read, older=0 if anew else math.inf)


def _plots(found: _Read, who: str, uses: Sequence[Any]) -> list[str]:
    report, today = found.report, found.today

    def of(told: dict[date, dict[str, int]]) -> dict[date, dict[str, int]]:
        if not who:
            return told
        return {day: {who: sums[who]} for day, sums in told.items() if who in sums}

    asked, sent = of(report.asked), of(report.days)
    order = list(dict.fromkeys([*largest(sent), *largest(asked)]))
    return [
        by_day("Requests, by day", asked, report.since, today, "{:,.0f}".format, order=order),
        by_day("Bytes sent, by day", sent, report.since, today, amount, order=order),
        "" if who else bars("Bytes sent, by recipient", summed(uses, "recipient")),
        bars("Bytes sent, by table", summed(uses, "table")),
    ]


def _days(text: str) -> int:
    return next((days for days in DAYS if str(days) == text), DAYS[1])


ROUTES: Final[dict[str, Handler]] = {"/usage": usage}
FORMS: Final[dict[str, Handler]] = {"/usage": read_again}
