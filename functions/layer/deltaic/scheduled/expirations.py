"""What of a catalog has an end, and when: tokens, open links, grants and recipients."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain
from typing import NamedTuple

from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.items import Grant, Invitation, Recipient, Token

Ends = Recipient | Token | Invitation | Grant
"""What may have an end."""


class Ending(NamedTuple):
    """Something that ends."""

    ends_at: datetime
    recipient: str
    kind: str
    what: str
    """An id or the name of a share; empty: the recipient itself."""


def endings(admin: CatalogAdmin, now: datetime, until: datetime) -> list[Ending]:
    """Return what ends from now to then, the first to end first; of whom nothing is answered any more, nothing.

    Each recipient's lists are asked for.
    """
    return endings_of(_all(admin, now), now, until)


def endings_of_all(admin: CatalogAdmin, now: datetime, until: datetime) -> list[Ending]:
    """Return what `endings` does; both tables are read for it (`Dynamo.scan`), not one recipient after another."""
    people = {one.id: one for one in admin.recipients.list() if not one.has_ended(now)}
    kinds: tuple[Iterator[Token | Invitation | Grant], ...] = (
        admin.tokens.list_all(),
        admin.invitations.list_all(),
        admin.grants.list_all(expiring=True),
    )
    return endings_of(
        chain(people.values(), (one for kind in kinds for one in kind if one.recipient_id in people)), now, until
    )


def endings_of(some: Iterable[Ends], now: datetime, until: datetime) -> list[Ending]:
    """Return which of these end from now to then, the first to end first."""
    found = (_ending(one, now) for one in some)
    return sorted(one for one in found if one is not None and now < one.ends_at <= until)


def _ending(one: Ends, now: datetime) -> Ending | None:
    match one:
        case Recipient(ends_at=datetime() as end):
            return Ending(end, one.name, "recipient", "")
        case Token() if one.state(now) == "live":
            return Ending(one.expires_at, one.recipient, "token", one.id)
        case Invitation() if one.state(now) == "open":
            return Ending(one.expires_at, one.recipient, "link", one.id)
        case Grant(ends_at=datetime() as end):
            return Ending(end, one.recipient, "grant", one.share)
        case _:
            return None


def _all(admin: CatalogAdmin, now: datetime) -> Iterator[Ends]:
    for person in admin.recipients.list():
        if not person.has_ended(now):
            yield person
            yield from admin.tokens.list(person.id)
            yield from admin.invitations.list(person.id)
            yield from admin.grants.of_recipient(person.name)
