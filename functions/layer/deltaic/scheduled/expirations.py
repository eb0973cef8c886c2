"""List which tokens, unused invitation links, grants and recipients of a catalog expire in a period."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain
from typing import NamedTuple

from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.items import Grant, Invitation, Recipient, Token

Expiring = Recipient | Token | Invitation | Grant
"""Items of the catalog that can expire."""


class Expiration(NamedTuple):
    """An item of the catalog that expires, and when it expires."""

    ends_at: datetime
    recipient: str
    kind: str
    target: str
    """Id of the token or of the link, or name of the granted share; empty if the recipient itself expires."""


def list_expirations(admin: CatalogAdmin, now: datetime, until: datetime) -> list[Expiration]:
    """Return the expirations between `now` and `until`, sorted by time; queries each unexpired recipient."""
    return select_expirations(_list_items(admin, now), now, until)


def scan_expirations(admin: CatalogAdmin, now: datetime, until: datetime) -> list[Expiration]:
    """Return the same expirations as `list_expirations`, but scan both DynamoDB tables, not each recipient."""
    recipients = {recipient.id: recipient for recipient in admin.recipients.list() if not recipient.has_ended(now)}
    kinds: tuple[Iterator[Token | Invitation | Grant], ...] = (
        admin.tokens.list_all(),
        admin.invitations.list_all(),
        admin.grants.list_all(expiring=True),
    )
    owned = (item for kind in kinds for item in kind if item.recipient_id in recipients)
    return select_expirations(chain(recipients.values(), owned), now, until)


def select_expirations(items: Iterable[Expiring], now: datetime, until: datetime) -> list[Expiration]:
    """Return the expirations of the given items of the catalog that are between `now` and `until`, sorted by time."""
    expirations = (_expiration_of(item, now) for item in items)
    return sorted(item for item in expirations if item is not None and now < item.ends_at <= until)


def _expiration_of(item: Expiring, now: datetime) -> Expiration | None:
    match item:
        case Recipient(ends_at=datetime() as end):
            return Expiration(end, item.name, "recipient", "")
        case Token() if item.state(now) == "live":
            return Expiration(item.expires_at, item.recipient, "token", item.id)
        case Invitation() if item.state(now) == "open":
            return Expiration(item.expires_at, item.recipient, "link", item.id)
        case Grant(ends_at=datetime() as end):
            return Expiration(end, item.recipient, "grant", item.share)
        case _:
            return None


def _list_items(admin: CatalogAdmin, now: datetime) -> Iterator[Expiring]:
    for recipient in admin.recipients.list():
        if not recipient.has_ended(now):
            yield recipient
            yield from admin.tokens.list(recipient.id)
            yield from admin.invitations.list(recipient.id)
            yield from admin.grants.of_recipient(recipient.name)
