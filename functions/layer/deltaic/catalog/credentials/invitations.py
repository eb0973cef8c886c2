"""Invitations: links that recipients can use once to create their token.

The link contains a secret, which is not stored: the invitation's key in the recipient's list contains its hash. One
transaction creates the token and marks the link as used. Until the token is first used, the link shows the same token
again, because the first response may have been lost.
"""

import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final
from uuid import UUID

from deltaic.catalog import keys
from deltaic.catalog.aws_errors import ConditionFailed
from deltaic.catalog.credentials.recipient_lists import RecipientList
from deltaic.catalog.credentials.token_admin import DEFAULT_LIFE, LIST_RETENTION, IssuedToken, TokenAdmin, secret_of
from deltaic.catalog.credentials.tokens import SECRET_BYTES, to_time
from deltaic.catalog.dynamo import Attributes, Dynamo
from deltaic.catalog.items import Invitation, Recipient, Token
from deltaic.catalog.writes import Write, delete, put_new, update
from deltaic.errors import Conflict, InvalidParameter, NotFound

LIFE: Final = timedelta(hours=72)
LONGEST_LIFE: Final = timedelta(days=30)
_SECRET: Final = re.compile(r"([0-9a-f]{32})[A-Za-z0-9_-]{43}")
_ID_CHARACTERS: Final = 12


class LinkGone(Exception):
    """Error: an invitation link is unknown, used, cancelled or expired; callers must not reveal which of these."""


@dataclass(frozen=True, slots=True)
class IssuedInvitation:
    """A new invitation, and the secret of its link, which is shown once and never stored."""

    invitation: Invitation
    secret: str = field(repr=False)

    @property
    def link(self) -> str:
        """URL to send to the recipient."""
        return f"{self.invitation.endpoint}/activate/{self.secret}"


class Invitations(RecipientList[Invitation]):
    """Create, list, find and cancel invitations, and create the tokens of used links."""

    kind = "invitation"
    command = "invites"

    def __init__(
        self, tokens_table: str, dynamo: Dynamo, tokens: TokenAdmin, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(Invitation, tokens_table, dynamo, tokens)
        self._clock = clock

    def create(  # noqa: PLR0913 -- the attributes of an invitation
        self,
        recipient: Recipient,
        endpoint: str,
        life: timedelta = LIFE,
        *,
        token_life: timedelta = DEFAULT_LIFE,
        overlap: timedelta | None = None,
        comment: str = "",
    ) -> IssuedInvitation:
        """Create an invitation. Using its link shortens the recipient's other tokens to `overlap`, if given.

        Raises InvalidParameter, and NotFound if the recipient does not exist.
        """
        self._tokens.check_life(token_life)
        if not timedelta(minutes=1) <= life <= LONGEST_LIFE:
            raise InvalidParameter(f"a link cannot be valid for {life}: choose 1 minute to {LONGEST_LIFE.days} days")
        now = self._clock()
        secret = UUID(recipient.id).hex + secrets.token_urlsafe(SECRET_BYTES)
        key = keys.invitation(recipient.id, secret)
        invitation = Invitation(
            id=key.sk.removeprefix("invitation/")[:_ID_CHARACTERS],
            recipient_id=recipient.id,
            recipient=recipient.name,
            endpoint=endpoint,
            token_seconds=int(token_life.total_seconds()),
            overlap_seconds=None if overlap is None else int(overlap.total_seconds()),
            comment=comment,
            created_at=to_time(now),
            expires_at=to_time(now + life.total_seconds()),
        )
        # DynamoDB deletes items after `expires`, so that links stay in the list as long as tokens.
        stored = {**invitation.attributes(), "expires": invitation.expires_at + LIST_RETENTION}
        self._tokens.transact(recipient, [put_new(self._table, key, stored)])
        return IssuedInvitation(invitation, secret)

    def cancel(self, recipient: Recipient, invitation_id: str) -> Invitation:
        """Cancel an invitation whose link is unused; raises NotFound, or Conflict for a used link."""
        item = self._existing(recipient, invitation_id)
        key = keys.Key(item["pk"], item["sk"])
        try:
            self._dynamo.transact([update(self._table, key, assign={"cancelled": True}, expect={"token_id": ""})])
        except ConditionFailed:
            raise Conflict(
                "the link was used already: revoke its token instead with deltaic token revoke; "
                f"deltaic recipient invites {item['recipient']} shows the token"
            ) from None
        return Invitation.read({**item, "cancelled": True})

    def _remove(self, entry: Attributes) -> None:
        self._dynamo.transact([delete(self._table, keys.Key(entry["pk"], entry["sk"]), present=False)])

    def find(self, secret: str) -> Invitation:
        """Return the invitation of a link, if the link can still create or show a token; raises LinkGone otherwise."""
        return self._open(secret)[0]

    def use(self, secret: str) -> IssuedToken:
        """Create the token of a link, or return the same token again until it is first used.

        Raises LinkGone, or Conflict if the recipient has two active tokens. The link stays valid after a Conflict.
        """
        invitation, token = self._open(secret)
        if token is None:
            try:
                return self._create_token(invitation, secret)
            except (ConditionFailed, Conflict, NotFound) as error:
                _, token = self._open(secret)
                if token is None:  # no concurrent use of the link has created it
                    raise (error if isinstance(error, Conflict) else LinkGone) from None
        return IssuedToken(token, secret_of(secret, token.salt))

    def _open(self, secret: str) -> tuple[Invitation, Token | None]:
        """Return the invitation of a usable link, and its token if the link was used; raises LinkGone."""
        key, now = _key(secret), to_time(self._clock())
        item = None if key is None else self._dynamo.get(self._table, key)
        invitation = None if item is None else Invitation.read(item)
        if invitation is None or invitation.expires_at <= now or invitation.state(now) == "cancelled":
            raise LinkGone
        if not invitation.token_id:
            return invitation, None
        try:
            token = self._tokens.get(_recipient(invitation), invitation.token_id)
        except NotFound:
            raise LinkGone from None
        if not token.salt or token.state(now) != "live":
            raise LinkGone
        return invitation, token

    def _create_token(self, invitation: Invitation, secret: str) -> IssuedToken:
        key, recipient = keys.invitation(invitation.recipient_id, secret), _recipient(invitation)

        def mark_used(token: Token) -> Write:
            return update(
                self._table,
                key,
                assign={"used_at": token.created_at, "token_id": token.id},
                expect={"token_id": "", "cancelled": False},
            )

        life, seconds = timedelta(seconds=invitation.token_seconds), invitation.overlap_seconds
        overlap = None if seconds is None else timedelta(seconds=seconds)
        return self._tokens.create(
            recipient, life, overlap=overlap, comment=invitation.comment, also=mark_used, link_secret=secret
        )


def _recipient(invitation: Invitation) -> Recipient:
    return Recipient(name=invitation.recipient, id=invitation.recipient_id, created_at=invitation.created_at)


def _key(secret: str) -> keys.Key | None:
    match = _SECRET.fullmatch(secret)
    return None if match is None else keys.invitation(str(UUID(match[1])), secret)
