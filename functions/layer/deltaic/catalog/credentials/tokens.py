"""Look up bearer tokens by their hash, with one read."""

import re
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from deltaic.catalog import keys
from deltaic.catalog.aws_errors import ConditionFailed
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.items import Token
from deltaic.catalog.writes import update
from deltaic.errors import Unauthenticated

PREFIX: Final = "dlt_"
"""Prefix by which secret scanners recognize a published token."""

CHECK: Final = "check-"
"""Prefix of the ids of tokens that the operator uses for checks."""

SECRET_BYTES: Final = 32
_SECRET: Final = re.compile(r"dlt_[A-Za-z0-9_-]{43}")
_REFUSAL: Final = "the bearer token is unknown, expired or revoked: ask your share provider for a new profile"


class TokenStore:
    """Read tokens for the authorizer, and record the first use of a link's token."""

    def __init__(self, table: str, dynamo: Dynamo | None = None, clock: Callable[[], float] = time.time) -> None:
        self._table = table
        self._dynamo = (dynamo or Dynamo()).for_recipients()
        self._clock = clock

    def authenticate(self, bearer: str) -> Token:
        """Return the live token with this secret (without the word `Bearer`).

        Uses one strongly consistent read, so a revocation is effective from the next read on. Raises Unauthenticated,
        with one message for unknown, expired and revoked tokens. Does not look up a text in another form than a token.
        """
        item = self._dynamo.get(self._table, keys.token(bearer)) if _SECRET.fullmatch(bearer) else None
        # DynamoDB deletes expired items only days later (time to live), so compare the expiry here.
        if item is None or item.get("revoked") is not False or item["expires"] <= self._clock():
            raise Unauthenticated(_REFUSAL)
        token = from_item(item)
        # Remove the salt, so that the link cannot show the token again: first from the list, which links read.
        listed = keys.recipient_entry("token", token.recipient_id, token.id)
        for key in (listed, keys.token(bearer)) if token.salt else ():
            with suppress(ConditionFailed):  # deleted in between
                self._dynamo.update(update(self._table, key, assign={"salt": None}))
        return token


def from_item(item: dict[str, Any]) -> Token:
    """Return a stored token."""
    return Token.read({**item, "expires_at": expiry_of(item)})


def expiry_of(item: dict[str, Any]) -> int:
    """Return the end of a stored token, which items in lists store separately."""
    return int(item.get("expires_at", item["expires"]))


def to_item(token: Token) -> dict[str, Any]:
    """Return the stored attributes of a token, without its secret."""
    item = token.attributes()
    return {**item, "expires": item.pop("expires_at")}


def to_time(seconds: float) -> datetime:
    """Return the time of a Unix timestamp in whole seconds, as the table stores it."""
    return datetime.fromtimestamp(int(seconds), UTC)
