"""What of a catalog has an end, and when: tokens, open links, grants and recipients."""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from deltaic.catalog.admin import CatalogAdmin


class Ending(NamedTuple):
    """Something that ends."""

    ends_at: datetime
    recipient: str
    kind: str
    what: str
    """An id or the name of a share; empty: the recipient itself."""


def endings(admin: CatalogAdmin, now: datetime, until: datetime) -> list[Ending]:
    """Return what ends from now to then, the first to end first; of whom nothing is answered any more, nothing."""
    return sorted(one for one in _all(admin, now) if now < one.ends_at <= until)


def _all(admin: CatalogAdmin, now: datetime) -> Iterator[Ending]:
    for person in admin.recipients.list():
        if person.has_ended(now):
            continue
        if person.ends_at is not None:
            yield Ending(person.ends_at, person.name, "recipient", "")
        for token in admin.tokens.list(person.id):
            if token.state(now) == "live":
                yield Ending(token.expires_at, person.name, "token", token.id)
        for link in admin.invitations.list(person.id):
            if link.state(now) == "open":
                yield Ending(link.expires_at, person.name, "link", link.id)
        for grant in admin.grants.of_recipient(person.name):
            if grant.ends_at is not None:
                yield Ending(grant.ends_at, person.name, "grant", grant.share)
