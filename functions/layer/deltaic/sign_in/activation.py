"""Show what an invitation link offers, and create its token and the profile file."""

import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Final, NamedTuple

from deltaic.catalog.credentials.invitations import Invitations, LinkGone
from deltaic.catalog.credentials.token_admin import IssuedToken, TokenAdmin
from deltaic.catalog.items import Invitation, Restrictions, Share, Table
from deltaic.catalog.process_connection import dynamo
from deltaic.catalog.reader import CatalogReader
from deltaic.settings import settings

__all__ = ["LinkGone", "Offer", "iceberg_field", "open_link", "profile", "profile_name", "use_link"]

MOST_NAMES: Final = 50
"""Maximum number of tables, and of shares, that the activation page lists."""

_PROFILE_NAME: Final = 60
"""Maximum number of characters of a profile's file name; common file systems allow 255 bytes."""


class Offer(NamedTuple):
    """A usable invitation, with the first tables that its recipient may read."""

    invitation: Invitation
    tables: Sequence[tuple[Share, Sequence[Table]]]
    """Each share with its first tables."""
    more: bool
    token_ends: datetime
    """Expiry of the link's token, or the expiry that it would have if it was created now."""


@cache
def _stores() -> tuple[Invitations, CatalogReader]:
    config, connection = settings(), dynamo().for_recipients()
    tokens = TokenAdmin(config.catalog_table, config.tokens_table, connection)
    return Invitations(config.tokens_table, connection, tokens), CatalogReader(config.catalog_table, connection)


def open_link(secret: str, admit: Callable[[Restrictions], None]) -> Offer:
    """Return what a link offers without using the link; raises LinkGone and the errors of `admit`."""
    invitations, reader = _stores()
    invitation, catalog = invitations.find(secret), reader.with_admission(admit)
    shares = catalog.list_shares(invitation.recipient_id, None, MOST_NAMES + 1)
    tables: list[tuple[Share, Sequence[Table]]] = []
    room, more = MOST_NAMES, len(shares) > MOST_NAMES
    for share in shares[:MOST_NAMES]:
        page = catalog.list_tables(invitation.recipient_id, share.name, None, None, room + 1) if room else []
        tables.append((share, page[:room]))
        more |= len(page) > room
        room = max(room - len(page), 0)
    start = invitation.used_at or datetime.now(UTC).replace(microsecond=0)
    return Offer(invitation, tables, more, start + timedelta(seconds=invitation.token_seconds))


def use_link(secret: str) -> IssuedToken:
    """Create the token of a link; raises LinkGone, or Conflict if the recipient has too many tokens."""
    return _stores()[0].use(secret)


def profile(endpoint: str, issued: IssuedToken, *, serves_iceberg: bool = False) -> str:
    """Return the content of a profile file (version 1) with the token's secret.

    The published Python client accepts bearer tokens only in version 1 (PROTOCOL.md, "Profile File Format").
    """
    fields = {
        "shareCredentialsVersion": 1,
        "endpoint": endpoint,
        **iceberg_field(endpoint, serves_iceberg=serves_iceberg),
        "bearerToken": issued.secret,
        "expirationTime": f"{issued.token.expires_at:%Y-%m-%dT%H:%M:%S}.0Z",
    }
    return json.dumps(fields, indent=2) + "\n"


def iceberg_field(endpoint: str, *, serves_iceberg: bool) -> dict[str, str]:
    """Return the profile field for Iceberg clients, or {} without Iceberg (OpenSharing, "Profile File Format")."""
    return {"icebergEndpoint": f"{endpoint}/iceberg"} if serves_iceberg else {}


def profile_name(recipient: str) -> str:
    """Return a file name for the recipient's profile that every operating system accepts."""
    return (re.sub(r"[^\w.-]+", "_", recipient).strip("._")[:_PROFILE_NAME] or "profile") + ".share"
