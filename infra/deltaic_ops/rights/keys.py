"""The keys by which a recipient comes, and what of what it holds ends soon."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.items import Invitation, OAuthClient, Policy, Recipient, Token
from deltaic.scheduled.endings import Ending, endings_of
from deltaic.sign_in.jwt_bearers import logged_id

SOON = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Keys:
    """What opens a recipient's door now."""

    tokens: Sequence[Token]
    """Those that are live."""

    links: Sequence[Invitation]
    """Those that are open."""

    clients: Sequence[OAuthClient]
    policies: Sequence[Policy]

    @property
    def logged(self) -> Iterator[str]:
        """The ids of tokens, clients and policies as logs of requests have them."""
        yield from (token.id for token in self.tokens)
        yield from (logged_id(one) for one in self.clients)
        yield from (logged_id(one) for one in self.policies)


def keys_of(admin: CatalogAdmin, person: Recipient, now: datetime) -> Keys:
    """Return the keys that open the door now."""
    return Keys(
        [token for token in admin.tokens.list(person.id) if token.state(now) == "live"],
        [link for link in admin.invitations.list(person.id) if link.state(now) == "open"],
        admin.clients.list(person.id),
        admin.federation.list(person.id),
    )


def ends_soon(admin: CatalogAdmin, person: Recipient, keys: Keys, now: datetime) -> list[Ending]:
    """Return what of a recipient's ends within thirty days, the first to end first."""
    grants = admin.grants.of_recipient(person.name)
    return endings_of([person, *keys.tokens, *keys.links, *grants], now, now + SOON)
