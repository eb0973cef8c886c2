"""The pages of recipients: who may read what, by which keys, until when."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

from deltaic.catalog.admin.records import Excerpt
from deltaic.catalog.items import Grant, Recipient, Token
from starlette.requests import Request
from starlette.responses import Response

from deltaic_ops.console.console_context import Desk, Handler, listed
from deltaic_ops.console.usage_pages import last_used
from deltaic_ops.usage.usage_report import DAYS as USED_WITHIN

_SIZE: Final = 25
"""Recipients of a page, whose tokens are read too."""

_READERS: Final = 8
_SEEN: Final = 200
"""Tables, and other things, that are shown of what somebody sees."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A recipient with what the list tells of its keys."""

    person: Recipient
    state: str
    live: Sequence[Token]
    """Its live tokens, the first to end first."""


def recipients(desk: Desk, request: Request) -> Response:
    """Show the recipients."""
    admin, now = desk.provider.admin, datetime.now(UTC)
    found = listed(request, admin.recipients.list, lambda person: person.name, _SIZE)

    def read(person: Recipient) -> Listing:
        live = [token for token in admin.tokens.list(person.id) if token.state(now) == "live"]
        return Listing(person, _state(person, now), sorted(live, key=lambda token: token.expires_at))

    with ThreadPoolExecutor(_READERS) as pool:
        told = list(pool.map(read, found.entries))
    return desk.page(request, "recipients.html", listing=found, recipients=told)


def recipient(desk: Desk, request: Request) -> Response:
    """Show a recipient: its limits, its grants, its keys."""
    admin, now = desk.provider.admin, datetime.now(UTC)
    person = admin.recipients.get(request.query_params.get("recipient", ""))

    def held(excerpt: Excerpt) -> Iterator[Grant]:
        return admin.grants.of_recipient(person.name, excerpt)

    tokens = admin.tokens.list(person.id)
    last = last_used(desk, person.id, [token.id for token in tokens])
    is_done, used, trouble = desk.beside(last, ("last use", person.id))
    return desk.page(
        request,
        "recipient.html",
        refresh="" if is_done else "1",
        person=person,
        state=_state(person, now),
        now=now,
        grants=listed(request, held, lambda grant: grant.share),
        tokens=tokens,
        links=admin.invitations.list(person.id),
        clients=admin.clients.list(person.id),
        policies=admin.federation.list(person.id),
        used=used or {},
        is_used_known=is_done,
        trouble=trouble,
        days=USED_WITHIN,
    )


def seen(desk: Desk, request: Request) -> Response:
    """Show what a recipient sees, as its own listings have it."""
    person = desk.provider.admin.recipients.get(request.query_params.get("recipient", ""))

    def read(_: object) -> Any:
        from deltaic_ops.rights.recipient_view import SeenTable, seen

        found = list(islice(seen(desk.provider.admin, desk.provider.reader, person), _SEEN + 1))
        tables = [one for one in found[:_SEEN] if isinstance(one, SeenTable)]
        assets = [one for one in found[:_SEEN] if not isinstance(one, SeenTable)]
        return tables, assets, len(found) > _SEEN

    def show(told: Any) -> Response:
        tables, assets, more = told
        return desk.page(request, "seen.html", person=person, tables=tables, assets=assets, more=more, most=_SEEN)

    return desk.found_out(request, ("seen", person.id), f"Listing what {person.name} sees", read, show)


def _state(person: Recipient, now: datetime) -> str:
    if person.cut_off_at is not None:
        return f"cut off since {person.cut_off_at:%Y-%m-%d %H:%M}"
    if person.ends_at is not None:
        return f"{'ended' if person.ends_at <= now else 'ends'} {person.ends_at:%Y-%m-%d %H:%M}"
    return ""


ROUTES: Final[dict[str, Handler]] = {"/recipients": recipients, "/recipient": recipient, "/seen": seen}
