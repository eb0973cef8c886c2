"""Pages of recipients: their grants, limits and credentials, and the tables that they can see."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import islice
from operator import attrgetter
from typing import Any, Final

from deltaic.catalog.admin.records import Excerpt
from deltaic.catalog.items import Grant, Recipient, Token
from starlette.requests import Request
from starlette.responses import Response

from deltaic_ops.console.console_context import ConsoleContext, Handler, list_page
from deltaic_ops.console.usage_pages import last_used
from deltaic_ops.usage.usage_report import DAYS as USED_WITHIN

_PAGE_SIZE: Final = 25
"""Number of recipients on one page of the list; small, because the page reads the tokens of each recipient."""

_MAX_THREADS: Final = 8
_MAX_ENTRIES: Final = 200
"""Maximum number of visible tables and other entries on a page."""


def recipients(context: ConsoleContext, request: Request) -> Response:
    """Show one page of the list of recipients."""
    admin, now = context.provider.admin, datetime.now(UTC)
    page = list_page(request, admin.recipients.list, lambda recipient: recipient.name, _PAGE_SIZE)

    def read(recipient: Recipient) -> tuple[Recipient, str, list[Token]]:
        live_tokens = [token for token in admin.tokens.list(recipient.id) if token.state(now) == "live"]
        return recipient, _state(recipient, now), sorted(live_tokens, key=attrgetter("expires_at"))

    with ThreadPoolExecutor(_MAX_THREADS) as pool:
        summaries = list(pool.map(read, page.entries))
    return context.page(request, "recipients.html", listing=page, recipients=summaries)


def recipient(context: ConsoleContext, request: Request) -> Response:
    """Show the limits, grants and credentials of a recipient."""
    admin, now = context.provider.admin, datetime.now(UTC)
    entry = admin.recipients.get(request.query_params.get("recipient", ""))

    def grants(excerpt: Excerpt) -> Iterator[Grant]:
        return admin.grants.of_recipient(entry.name, excerpt)

    tokens = admin.tokens.list(entry.id)
    job = last_used(context, entry.id, [token.id for token in tokens])
    is_done, last_uses, error = context.take_result(job, ("last use", entry.id))
    return context.page(
        request,
        "recipient.html",
        refresh="" if is_done else "1",
        recipient=entry,
        state=_state(entry, now),
        now=now,
        grants=list_page(request, grants, lambda grant: grant.share),
        tokens=tokens,
        links=admin.invitations.list(entry.id),
        clients=admin.clients.list(entry.id),
        policies=admin.federation.list(entry.id),
        last_uses=last_uses or {},
        has_last_uses=is_done,
        error=error,
        days=USED_WITHIN,
    )


def visible_tables(context: ConsoleContext, request: Request) -> Response:
    """Show the tables, volumes, skills and models that the server lists for a recipient."""
    recipient = context.provider.admin.recipients.get(request.query_params.get("recipient", ""))

    def read(_: object) -> Any:
        from deltaic_ops.rights.recipient_view import VisibleTable, visible_entries

        visible = visible_entries(context.provider.admin, context.provider.reader, recipient)
        entries = list(islice(visible, _MAX_ENTRIES + 1))
        tables = [entry for entry in entries[:_MAX_ENTRIES] if isinstance(entry, VisibleTable)]
        assets = [entry for entry in entries[:_MAX_ENTRIES] if not isinstance(entry, VisibleTable)]
        return {"tables": tables, "assets": assets, "is_truncated": len(entries) > _MAX_ENTRIES, "limit": _MAX_ENTRIES}

    def show(result: Any) -> Response:
        return context.page(request, "seen.html", recipient=recipient, **result)

    return context.run_and_show(request, ("seen", recipient.id), f"Listing what {recipient.name} sees", read, show)


def _state(recipient: Recipient, now: datetime) -> str:
    if recipient.cut_off_at is not None:
        return f"cut off since {recipient.cut_off_at:%Y-%m-%d %H:%M} UTC"
    if recipient.ends_at is not None:
        return f"{'ended' if recipient.ends_at <= now else 'ends'} {recipient.ends_at:%Y-%m-%d %H:%M} UTC"
    return ""


ROUTES: Final[dict[str, Handler]] = {"/recipients": recipients, "/recipient": recipient, "/seen": visible_tables}
