"""Create, expire and revoke bearer tokens; each recipient can have two active tokens."""

import hmac
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from deltaic.catalog import keys
from deltaic.catalog.aws_errors import ConditionFailed
from deltaic.catalog.credentials.tokens import CHECK, PREFIX, SECRET_BYTES, expiry_of, from_item, to_item, to_time
from deltaic.catalog.dynamo import Attributes, Dynamo
from deltaic.catalog.items import Recipient, Token
from deltaic.catalog.writes import ABSENT, Write, Writes, check, delete, put_new, update
from deltaic.errors import Conflict, InvalidParameter, NotFound

LIVE_TOKENS: Final = 2
DEFAULT_LIFE: Final = timedelta(days=90)
LONGEST_LIFE: Final = timedelta(days=365)
LIST_RETENTION: Final = timedelta(days=90)
"""How long an expired token stays in its recipient's list."""

CHECK_LIFE: Final = timedelta(minutes=15)
_ID_CHARACTERS: Final = 12
_RACES: Final = 50


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new token and its secret, which is shown once and never stored."""

    token: Token
    secret: str = field(repr=False)


class _TokenList(msgspec.Struct, frozen=True):
    revision: int | None
    entries: Sequence[Attributes]


class TokenAdmin:
    """Create, get, list and revoke tokens, and create temporary tokens for an operator's checks.

    Every new token increments the revision of its recipient's list, on the condition that the revision has not changed
    since the list was read. So concurrent calls cannot create more than two active tokens. Another condition ensures
    that the recipient exists.
    """

    def __init__(
        self,
        catalog_table: str,
        tokens_table: str,
        dynamo: Dynamo | None = None,
        *,
        longest_life: timedelta = LONGEST_LIFE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._catalog = catalog_table
        self._tokens = tokens_table
        self._dynamo = dynamo or Dynamo()
        self._longest_life = longest_life
        self._clock = clock

    def create(  # noqa: PLR0913 -- the attributes of a token
        self,
        recipient: Recipient,
        life: timedelta = DEFAULT_LIFE,
        *,
        overlap: timedelta | None = None,
        comment: str = "",
        also: Callable[[Token], Write] | None = None,
        link_secret: str = "",
    ) -> IssuedToken:
        """Issue a token; raises Conflict if the recipient has two active tokens, and NotFound.

        With `overlap`, the other active tokens expire after this time at the latest. With an overlap of 0, they are
        revoked immediately. `also` returns a write for the same transaction; raises ConditionFailed if its condition
        fails. With `link_secret`, the token can be shown again until it is first used (`secret_of`).
        """
        self.check_life(life)
        if overlap is not None and overlap < timedelta(0):
            raise InvalidParameter("the overlap is negative: use 0 to revoke the old tokens now, or a positive time")
        for _ in range(_RACES):
            issued = self._new(recipient, life, comment, link_secret=link_secret)
            tokens = self._read(recipient.id)
            also_writes = [] if also is None else [also(issued.token)]
            revision = ABSENT if tokens.revision is None else tokens.revision
            list_key, expect = keys.token_list(recipient.id), {"revision": revision}
            writes = [
                *also_writes,
                update(self._tokens, list_key, add={"revision": 1}, expect=expect, create=True),
                *self._put(issued),
                *self._end_live(recipient, tokens, overlap),
            ]
            try:
                self.transact(recipient, writes)
            except ConditionFailed as failed:
                if failed.index == len(also_writes):
                    raise
            else:
                return issued
        raise Conflict(f"other processes keep changing the tokens of '{recipient.name}': try again later")

    def list(self, recipient_id: str) -> Sequence[Token]:
        """Return a recipient's tokens, newest first, including expired ones until DynamoDB deletes them."""
        tokens = [from_item(entry) for entry in self._read(recipient_id).entries]
        return sorted(tokens, key=lambda token: (token.created_at, token.id), reverse=True)

    def list_all(self) -> Iterator[Token]:
        """Yield the tokens of all recipients, grouped by recipient (`Dynamo.scan`)."""
        return map(from_item, self._dynamo.scan(self._tokens, keys.TOKEN_ENTRIES))

    def get(self, recipient: Recipient, token_id: str) -> Token:
        """Return one token of a recipient; raises NotFound."""
        return from_item(self._entry(recipient, token_id))

    def revoke(self, recipient: Recipient, token_id: str) -> Token:
        """Revoke a token; authorizers with a cache may accept it for up to a minute more."""
        skipped = 0
        for _ in range(_RACES):
            entry = self._entry(recipient, token_id)
            if entry["revoked"]:
                return from_item(entry)
            try:
                self._dynamo.transact(self._change(entry, {"revoked": True})[skipped:])
            except ConditionFailed as failed:
                # Another process changed it, so read it again. Or it has ended, and only the list still contains it.
                skipped = int(failed.item is None and failed.index == 0)
                continue
            return from_item({**entry, "revoked": True})
        raise Conflict(f"other processes keep changing token {token_id}: try again later")

    def revoke_all(self, recipient: Recipient) -> None:
        """Revoke every active token of a recipient."""
        for token in self.list(recipient.id):
            if token.state() == "live":
                self.revoke(recipient, token.id)

    @contextmanager
    def for_checks(self, recipient: Recipient) -> Iterator[str]:
        """Yield the secret of a temporary token, which is deleted after the `with` block; raises NotFound.

        The token is not in the recipient's list, and does not count as an active token. In logs, its id has the prefix
        `check-`.
        """
        issued = self._new(recipient, CHECK_LIFE, id_prefix=CHECK)
        key = keys.token(issued.secret)
        self.transact(recipient, [put_new(self._tokens, key, to_item(issued.token))])
        try:
            yield issued.secret
        finally:
            self._remove(key)

    def remove_all(self, recipient_id: str) -> None:
        """Delete every token of a recipient whose own deletion has begun."""
        for entry in self._read(recipient_id).entries:
            self._remove(keys.Key(entry["token_key"], "token"))
            self._remove(keys.recipient_entry("token", recipient_id, entry["id"]))
        self._remove(keys.token_list(recipient_id))

    def _remove(self, key: keys.Key) -> None:
        self._dynamo.transact([delete(self._tokens, key, present=False)])

    def _end_live(self, recipient: Recipient, tokens: _TokenList, overlap: timedelta | None) -> Writes:
        """Return the writes that make active tokens expire after `overlap`; raises Conflict if there are too many."""
        now = self._clock()
        live = [entry for entry in tokens.entries if not entry["revoked"] and expiry_of(entry) > now]
        if overlap != timedelta(0) and len(live) >= LIVE_TOKENS:
            ids = " and ".join(sorted(entry["id"] for entry in live))
            raise Conflict(
                f"'{recipient.name}' has two active tokens already, {ids}: revoke one of them first, "
                "or rotate without overlap (--overlap 0)"
            )
        if overlap is None:
            return []
        end = to_time(now + overlap.total_seconds())
        assign: dict[str, Any] = {"expires": end} if overlap else {"revoked": True}
        longer = [entry for entry in live if not overlap or expiry_of(entry) > end.timestamp()]
        return [write for entry in longer for write in self._change(entry, assign)]

    def _new(
        self, recipient: Recipient, life: timedelta, comment: str = "", *, id_prefix: str = "", link_secret: str = ""
    ) -> IssuedToken:
        now = self._clock()
        random = secrets.token_urlsafe(SECRET_BYTES)
        secret = secret_of(link_secret, random) if link_secret else PREFIX + random
        token = Token(
            # The first characters of the hash, so that anyone who finds a token knows which one to revoke.
            id=id_prefix + keys.token(secret).pk.removeprefix("token/")[:_ID_CHARACTERS],
            recipient_id=recipient.id,
            recipient=recipient.name,
            created_at=to_time(now),
            expires_at=to_time(now + life.total_seconds()),
            comment=comment,
            salt=random if link_secret else "",
        )
        return IssuedToken(token, secret)

    def transact(self, recipient: Recipient, writes: Sequence[Write]) -> None:
        """Write all or nothing; raises NotFound for a deleted recipient, ConditionFailed with a position from 1."""
        exists = check(self._catalog, keys.recipient_id(recipient.id), {"state": ABSENT})
        try:
            self._dynamo.transact([exists, *writes])
        except ConditionFailed as failed:
            if failed.index == 0:
                raise NotFound(f"recipient '{recipient.name}' not found") from None
            raise

    def _put(self, issued: IssuedToken) -> Writes:
        key = keys.token(issued.secret)
        item = to_item(issued.token)
        entry = keys.recipient_entry("token", issued.token.recipient_id, issued.token.id)
        listed = {**item, **_list_expiry(issued.token.expires_at), "token_key": key.pk}
        return [put_new(self._tokens, key, item), put_new(self._tokens, entry, listed)]

    def _change(self, entry: Attributes, assign: dict[str, Any]) -> Writes:
        """Return the writes that change a token's items for the authorizer and the list, if both are unchanged."""
        token, listed = ({"revoked": False, "expires": expires} for expires in (expiry_of(entry), entry["expires"]))
        in_list = {**assign, **_list_expiry(assign["expires"])} if "expires" in assign else assign
        return [
            update(self._tokens, keys.Key(entry["token_key"], "token"), assign=assign, expect=token),
            update(self._tokens, keys.Key(entry["pk"], entry["sk"]), assign=in_list, expect=listed),
        ]

    def _read(self, recipient_id: str) -> _TokenList:
        # Read the revision first, so that a change between the two reads makes it outdated.
        item = self._dynamo.get(self._tokens, keys.token_list(recipient_id))
        entries = list(self._dynamo.query(self._tokens, keys.of_recipient("token", recipient_id)))
        return _TokenList(None if item is None else item["revision"], entries)

    def _entry(self, recipient: Recipient, token_id: str) -> Attributes:
        entry = self._dynamo.get(self._tokens, keys.recipient_entry("token", recipient.id, token_id))
        if entry is None:
            raise NotFound(
                f"recipient '{recipient.name}' has no token '{token_id}': deltaic token list shows its tokens"
            )
        return entry

    def check_life(self, life: timedelta) -> None:
        """Raise InvalidParameter if a lifetime is too short or too long for a token."""
        if not timedelta(seconds=1) <= life <= self._longest_life:
            raise InvalidParameter(
                f"a token cannot be valid for {life}: choose 1 second to {self._longest_life.days} days"
            )


def secret_of(link_secret: str, salt: str) -> str:
    """Derive the secret of a link's token from the link's secret and a salt."""
    digest = hmac.digest(link_secret.encode(), salt.encode(), "sha256")
    return PREFIX + urlsafe_b64encode(digest).rstrip(b"=").decode()


def _list_expiry(expires: datetime) -> dict[str, datetime]:
    # DynamoDB deletes an item after `expires`, so the item in the list stores the token's end separately.
    return {"expires_at": expires, "expires": expires + LIST_RETENTION}
