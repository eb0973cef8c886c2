"""Bearer tokens by their hash: one read tells whose a token is, or that it is nobody's."""

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
"""By this, secret scanners recognise a token that was published."""

CHECK: Final = "check-"
"""By this an id, in the catalog and in every log, says that its token was the operator's, for a round of checks."""

SECRET_BYTES: Final = 32
_SECRET: Final = re.compile(r"dlt_[A-Za-z0-9_-]{43}")
_REFUSAL: Final = "the bearer token is unknown, expired or revoked: ask your share provider for a new profile"


class TokenStore:
    """The tokens as the authorizer reads them: GetItem on one table, and a mark at the first use of a link's token."""

    def __init__(self, table: str, dynamo: Dynamo | None = None, clock: Callable[[], float] = time.time) -> None:
        self._table = table
        self._dynamo = (dynamo or Dynamo()).for_recipients()
        self._clock = clock

    def authenticate(self, bearer: str) -> Token:
        """Return the live token whose secret this is (without the word `Bearer`).

        One strongly consistent read, so that a revocation holds from its next read on. Raises Unauthenticated, in the
        same words whether the token is unknown, expired or revoked. What cannot be a token is not looked up: the
        form of a token is public, so this tells a stranger nothing.
        """
        item = self._dynamo.get(self._table, keys.token(bearer)) if _SECRET.fullmatch(bearer) else None
        # Deletion of expired items lags by days (DynamoDB time to live), so the expiry is compared here.
        if item is None or item.get("revoked") is not False or item["expires"] <= self._clock():
            raise Unauthenticated(_REFUSAL)
        token = from_item(item)
        # Without the salt the link cannot show the token again; the list first, by which the link goes.
        listed = keys.recipient_entry("token", token.recipient_id, token.id)
        for key in (listed, keys.token(bearer)) if token.salt else ():
            with suppress(ConditionFailed):  # deleted in between
                self._dynamo.update(update(self._table, key, assign={"salt": None}))
        return token


def from_item(item: dict[str, Any]) -> Token:
    """Return a stored token."""
    return Token.read({**item, "expires_at": ends(item)})


def ends(item: dict[str, Any]) -> int:
    """Return when a stored token ends; what a list has ends before the table forgets it."""
    return int(item.get("expires_at", item["expires"]))


def to_item(token: Token) -> dict[str, Any]:
    """Return how a token is stored; its secret is nowhere in it."""
    item = token.attributes()
    return {**item, "expires": item.pop("expires_at")}


def moment(seconds: float) -> datetime:
    """Return a time in whole seconds, as the table keeps it."""
    return datetime.fromtimestamp(int(seconds), UTC)
