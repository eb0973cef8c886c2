"""Invitations: links by which a recipient makes its own token, once, whoever opens them first and however many at once.

A link's secret names its recipient and is not stored: an invitation lies under the secret's hash, in the recipient's
list. The token and the mark that the link is used are written together or not at all. Until the token is first used
the link shows it again: an answer may be lost on its way.
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
from deltaic.catalog.credentials.token_admin import DEFAULT_LIFE, LISTED_AFTER, IssuedToken, TokenAdmin, secret_of
from deltaic.catalog.credentials.tokens import SECRET_BYTES, moment
from deltaic.catalog.dynamo import Attributes, Dynamo
from deltaic.catalog.items import Invitation, Recipient, Token
from deltaic.catalog.writes import Write, delete, put_new, update
from deltaic.errors import Conflict, InvalidParameter, NotFound

LIFE: Final = timedelta(hours=72)
LONGEST_LIFE: Final = timedelta(days=30)
_SECRET: Final = re.compile(r"([0-9a-f]{32})[A-Za-z0-9_-]{43}")
_ID_CHARACTERS: Final = 12


class LinkGone(Exception):
    """There is no such link, or it is used up, cancelled or expired: which of these a stranger is not told."""


@dataclass(frozen=True, slots=True)
class IssuedInvitation:
    """A new invitation with its link's secret, which is shown once and stored nowhere."""

    invitation: Invitation
    secret: str = field(repr=False)

    @property
    def link(self) -> str:
        """What the recipient opens."""
        return f"{self.invitation.endpoint}/activate/{self.secret}"


class Invitations(RecipientList[Invitation]):
    """Creates, lists, cancels and finds invitations, and makes the token of one."""

    kind = "invitation"
    command = "invites"

    def __init__(
        self, tokens_table: str, dynamo: Dynamo, tokens: TokenAdmin, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(Invitation, tokens_table, dynamo, tokens)
        self._clock = clock

    def create(  # noqa: PLR0913 -- what an invitation holds
        self,
        recipient: Recipient,
        endpoint: str,
        life: timedelta = LIFE,
        *,
        token_life: timedelta = DEFAULT_LIFE,
        overlap: timedelta | None = None,
        comment: str = "",
    ) -> IssuedInvitation:
        """Make a link for a token of `token_life`; with `overlap` the recipient's other tokens end so long after it.

        Raises InvalidParameter, and NotFound if the recipient is gone.
        """
        self._tokens.check_life(token_life)
        if not timedelta(minutes=1) <= life <= LONGEST_LIFE:
            raise InvalidParameter(f"a link may live from a minute to {LONGEST_LIFE.days} days: choose between them")
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
            created_at=moment(now),
            expires_at=moment(now + life.total_seconds()),
        )
        # The table forgets items by `expires`: a link is listed for as long after its end as a token.
        stored = {**invitation.attributes(), "expires": invitation.expires_at + LISTED_AFTER}
        self._tokens.transact(recipient, [put_new(self._table, key, stored)])
        return IssuedInvitation(invitation, secret)

    def cancel(self, recipient: Recipient, invitation_id: str) -> Invitation:
        """End an open link at once; raises NotFound, and Conflict for one that has been used."""
        item = self._existing(recipient, invitation_id)
        key = keys.Key(item["pk"], item["sk"])
        try:
            self._dynamo.transact([update(self._table, key, assign={"cancelled": True}, expect={"token_id": ""})])
        except ConditionFailed:
            raise Conflict(
                "the link has been used: end its token instead, with deltaic token revoke; "
                f"deltaic recipient invites {item['recipient']} says which"
            ) from None
        return Invitation.read({**item, "cancelled": True})

    def _remove(self, entry: Attributes) -> None:
        self._dynamo.transact([delete(self._table, keys.Key(entry["pk"], entry["sk"]), present=False)])

    def find(self, secret: str) -> Invitation:
        """Return the invitation of a link that makes a token or shows it again; raises LinkGone."""
        return self._open(secret)[0]

    def use(self, secret: str) -> IssuedToken:
        """Make the link's token, or show it again if nobody has used it yet.

        Raises LinkGone, or Conflict where the recipient has two live tokens: the link stays.
        """
        invitation, token = self._open(secret)
        if token is None:
            try:
                return self._make(invitation, secret)
            except (ConditionFailed, Conflict, NotFound) as refusal:
                _, token = self._open(secret)
                if token is None:  # no other click on the same link was quicker
                    raise (refusal if isinstance(refusal, Conflict) else LinkGone) from None
        return IssuedToken(token, secret_of(secret, token.salt))

    def _open(self, secret: str) -> tuple[Invitation, Token | None]:
        """Return a link's invitation, and its token if it has made one."""
        key, now = _key(secret), moment(self._clock())
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

    def _make(self, invitation: Invitation, secret: str) -> IssuedToken:
        key, recipient = keys.invitation(invitation.recipient_id, secret), _recipient(invitation)

        def used(token: Token) -> Write:
            return update(
                self._table,
                key,
                assign={"used_at": token.created_at, "token_id": token.id},
                expect={"token_id": "", "cancelled": False},
            )

        life, how = timedelta(seconds=invitation.token_seconds), {"comment": invitation.comment, "link_secret": secret}
        seconds = invitation.overlap_seconds
        overlap = None if seconds is None else timedelta(seconds=seconds)
        return self._tokens.create(recipient, life, **how, overlap=overlap, also=used)


def _recipient(invitation: Invitation) -> Recipient:
    return Recipient(name=invitation.recipient, id=invitation.recipient_id, created_at=invitation.created_at)


def _key(secret: str) -> keys.Key | None:
    form = _SECRET.fullmatch(secret)
    return None if form is None else keys.invitation(str(UUID(form[1])), secret)
