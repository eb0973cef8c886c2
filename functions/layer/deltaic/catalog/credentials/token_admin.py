"""Decides when a token may be made, shortened or revoked: at most two live ones a recipient, whoever races for them."""

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
from deltaic.catalog.credentials.tokens import CHECK, PREFIX, SECRET_BYTES, ends, from_item, moment, to_item
from deltaic.catalog.dynamo import Attributes, Dynamo
from deltaic.catalog.items import Recipient, Token
from deltaic.catalog.writes import ABSENT, Write, Writes, check, delete, put_new, update
from deltaic.errors import Conflict, InvalidParameter, NotFound

LIVE_TOKENS: Final = 2
DEFAULT_LIFE: Final = timedelta(days=90)
LONGEST_LIFE: Final = timedelta(days=365)
LISTED_AFTER: Final = timedelta(days=90)
"""How long a token stays in its recipient's list after it has ended."""

CHECK_LIFE: Final = timedelta(minutes=15)
_ID_CHARACTERS: Final = 12
_RACES: Final = 50


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new token with its secret, which is shown once and stored nowhere."""

    token: Token
    secret: str = field(repr=False)


class _TokenList(msgspec.Struct, frozen=True):
    revision: int | None
    entries: Sequence[Attributes]


class TokenAdmin:
    """Creates, gets, lists and revokes tokens, and lends one for a round of checks.

    Every change of a recipient's tokens also raises the revision of its list, on the condition that it is still the
    one that was read: two racing changes cannot both count the same live tokens. Tokens are made only for recipients
    that exist, by a condition in the same transaction.
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

    def create(  # noqa: PLR0913 -- what a token is made by
        self,
        recipient: Recipient,
        life: timedelta = DEFAULT_LIFE,
        *,
        overlap: timedelta | None = None,
        comment: str = "",
        also: Callable[[Token], Write] | None = None,
        link_secret: str = "",
    ) -> IssuedToken:
        """Issue a token; raises Conflict when the recipient has two live ones, NotFound when it is gone.

        With `overlap` the live ones end after it, or at their own expiry if that comes first; with none of it they are
        revoked at once. With `also` this write is done with it or not at all; raises ConditionFailed if its own
        condition fails. With `link_secret` the token can be shown again until it is first used (`secret_of`).
        """
        self.check_life(life)
        if overlap is not None and overlap < timedelta(0):
            raise InvalidParameter("the overlap must not be negative: use 0 to end the old tokens at once")
        for _ in range(_RACES):
            issued = self._new(recipient, life, comment, link_secret=link_secret)
            tokens = self._read(recipient.id)
            others = [] if also is None else [also(issued.token)]
            revision = ABSENT if tokens.revision is None else tokens.revision
            place, expect = keys.token_list(recipient.id), {"revision": revision}
            writes = [
                *others,
                update(self._tokens, place, add={"revision": 1}, expect=expect, create=True),
                *self._put(issued),
                *self._ended(recipient, tokens, overlap),
            ]
            try:
                self.transact(recipient, writes)
            except ConditionFailed as failed:
                if failed.index == len(others):
                    raise
            else:
                return issued
        raise Conflict(f"others keep changing the tokens of '{recipient.name}': try again in a moment")

    def list(self, recipient_id: str) -> Sequence[Token]:
        """Return the recipient's tokens, dead ones included until the table forgets them, the newest first."""
        tokens = [from_item(entry) for entry in self._read(recipient_id).entries]
        return sorted(tokens, key=lambda token: (token.created_at, token.id), reverse=True)

    def list_all(self) -> Iterator[Token]:
        """Yield the tokens of all recipients, those of one together (`Dynamo.scan`)."""
        return map(from_item, self._dynamo.scan(self._tokens, keys.TOKEN_ENTRIES))

    def get(self, recipient: Recipient, token_id: str) -> Token:
        """Return one token; raises NotFound."""
        return from_item(self._entry(recipient, token_id))

    def revoke(self, recipient: Recipient, token_id: str) -> Token:
        """End a token at once (but for the authorizer's cache of a minute); to do so twice is no error."""
        forgotten = 0
        for _ in range(_RACES):
            entry = self._entry(recipient, token_id)
            if entry["revoked"]:
                return from_item(entry)
            try:
                self._dynamo.transact(self._alter(entry, {"revoked": True})[forgotten:])
            except ConditionFailed as failed:
                # Somebody else changed it: look again. Or it has ended, and only the list still has it.
                forgotten = int(failed.item is None and failed.index == 0)
                continue
            return from_item({**entry, "revoked": True})
        raise Conflict("others keep changing this token: try again in a moment")

    def revoke_all(self, recipient: Recipient) -> None:
        """End every live token of a recipient."""
        for token in self.list(recipient.id):
            if token.state() == "live":
                self.revoke(recipient, token.id)

    @contextmanager
    def for_checks(self, recipient: Recipient) -> Iterator[str]:
        """Give a token of this recipient for as long as the block lasts; raises NotFound when it is gone.

        It is in no list and counts as none of the two. Its id says what it is, and with it every log that names it.
        """
        issued = self._new(recipient, CHECK_LIFE, id_prefix=CHECK)
        key = keys.token(issued.secret)
        self.transact(recipient, [put_new(self._tokens, key, to_item(issued.token))])
        try:
            yield issued.secret
        finally:
            self._remove(key)

    def remove_all(self, recipient_id: str) -> None:
        """Delete every token of a recipient for which no more can be made."""
        for entry in self._read(recipient_id).entries:
            self._remove(keys.Key(entry["token_key"], "token"))
            self._remove(keys.recipient_entry("token", recipient_id, entry["id"]))
        self._remove(keys.token_list(recipient_id))

    def _remove(self, key: keys.Key) -> None:
        self._dynamo.transact([delete(self._tokens, key, present=False)])

    def _ended(self, recipient: Recipient, tokens: _TokenList, overlap: timedelta | None) -> Writes:
        """Return what ends the live tokens after `overlap`; raises Conflict where a new one has no room beside them."""
        now = self._clock()
        live = [entry for entry in tokens.entries if not entry["revoked"] and ends(entry) > now]
        if overlap != timedelta(0) and len(live) >= LIVE_TOKENS:
            ids = " and ".join(sorted(entry["id"] for entry in live))
            raise Conflict(
                f"'{recipient.name}' has two live tokens already, {ids}: revoke one of them first, "
                "or rotate with no overlap (--overlap 0)"
            )
        if overlap is None:
            return []
        end = moment(now + overlap.total_seconds())
        assign: dict[str, Any] = {"expires": end} if overlap else {"revoked": True}
        longer = [entry for entry in live if not overlap or ends(entry) > end.timestamp()]
        return [write for entry in longer for write in self._alter(entry, assign)]

    def _new(
        self, recipient: Recipient, life: timedelta, comment: str = "", *, id_prefix: str = "", link_secret: str = ""
    ) -> IssuedToken:
        now = self._clock()
        random = secrets.token_urlsafe(SECRET_BYTES)
        secret = secret_of(link_secret, random) if link_secret else PREFIX + random
        token = Token(
            # The beginning of the hash: whoever finds a token can tell by it which one to revoke.
            id=id_prefix + keys.token(secret).pk.removeprefix("token/")[:_ID_CHARACTERS],
            recipient_id=recipient.id,
            recipient=recipient.name,
            created_at=moment(now),
            expires_at=moment(now + life.total_seconds()),
            comment=comment,
            salt=random if link_secret else "",
        )
        return IssuedToken(token, secret)

    def transact(self, recipient: Recipient, writes: Sequence[Write]) -> None:
        """Make all the writes if there is such a recipient; raises NotFound, and ConditionFailed, counted from 1."""
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
        listed = {**item, **_listed(issued.token.expires_at), "token_key": key.pk}
        return [put_new(self._tokens, key, item), put_new(self._tokens, entry, listed)]

    def _alter(self, entry: Attributes, assign: dict[str, Any]) -> Writes:
        """Change a token in both its places, on the condition that it is as it was read."""
        known, listed = ({"revoked": False, "expires": expires} for expires in (ends(entry), entry["expires"]))
        in_list = {**assign, **_listed(assign["expires"])} if "expires" in assign else assign
        return [
            update(self._tokens, keys.Key(entry["token_key"], "token"), assign=assign, expect=known),
            update(self._tokens, keys.Key(entry["pk"], entry["sk"]), assign=in_list, expect=listed),
        ]

    def _read(self, recipient_id: str) -> _TokenList:
        # The revision first: whatever changes between the two reads makes the revision old.
        item = self._dynamo.get(self._tokens, keys.token_list(recipient_id))
        entries = list(self._dynamo.query(self._tokens, keys.of_recipient("token", recipient_id)))
        return _TokenList(None if item is None else item["revision"], entries)

    def _entry(self, recipient: Recipient, token_id: str) -> Attributes:
        entry = self._dynamo.get(self._tokens, keys.recipient_entry("token", recipient.id, token_id))
        if entry is None:
            raise NotFound(f"recipient '{recipient.name}' has no token '{token_id}': list its tokens to see which")
        return entry

    def check_life(self, life: timedelta) -> None:
        """Raise InvalidParameter for a life that no token may have."""
        if life < timedelta(seconds=1):
            raise InvalidParameter("a token must live for at least a second")
        if life > self._longest_life:
            raise InvalidParameter(f"a token may live for {self._longest_life.days} days at most: choose less")


def secret_of(link_secret: str, salt: str) -> str:
    """Return the secret of the token that a link makes, by the salt that is stored until the token is first used."""
    digest = hmac.digest(link_secret.encode(), salt.encode(), "sha256")
    return PREFIX + urlsafe_b64encode(digest).rstrip(b"=").decode()


def _listed(expires: datetime) -> dict[str, datetime]:
    """Return until when the list has a token: the table forgets items by `expires`, so the list tells its end apart."""
    return {"expires_at": expires, "expires": expires + LISTED_AFTER}
