"""Look up bearer tokens by the hash of their secret."""

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
"""Prefix of the secrets of bearer tokens, by which secret scanners recognize a leaked token."""

CHECK: Final = "check-"
"""Prefix of the ids of temporary tokens for an operator's checks."""

SECRET_BYTES: Final = 32
_SECRET: Final = re.compile(r"dlt_[A-Za-z0-9_-]{43}")
_REFUSAL: Final = "the bearer token is unknown, expired or revoked: ask your share provider for a new profile"


class TokenStore:
    """Read tokens for the authorizer, and record the first use of a token that an invitation link created."""

    def __init__(self, table: str, dynamo: Dynamo | None = None, clock: Callable[[], float] = time.time) -> None:
        self._table = table
        self._dynamo = (dynamo or Dynamo()).for_recipients()
        self._clock = clock

    def authenticate(self, bearer: str) -> Token:
        """Return the active token with the given secret (without the word `Bearer`).

        Uses one strongly consistent read, so that it rejects a token as soon as it is revoked. Raises Unauthenticated
        with the same message for unknown, expired and revoked tokens. Reads nothing for a malformed token.
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
    """Convert stored attributes to a token."""
    return Token.read({**item, "expires_at": expiry_of(item)})


def expiry_of(item: dict[str, Any]) -> int:
    """Return a token's expiry (seconds since the epoch) from the authorizer's item or the recipient's list."""
    return int(item.get("expires_at", item["expires"]))


def to_item(token: Token) -> dict[str, Any]:
    """Convert a token to the attributes that the authorizer reads; they do not contain its secret."""
    item = token.attributes()
    return {**item, "expires": item.pop("expires_at")}


def to_time(seconds: float) -> datetime:
    """Convert seconds since the epoch to a time in whole seconds, the precision of the Tokens table."""
    return datetime.fromtimestamp(int(seconds), UTC)
