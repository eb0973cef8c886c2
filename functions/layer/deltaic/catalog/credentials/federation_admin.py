"""Create and remove federation policies, by which JWTs of another issuer authenticate a recipient."""

import json
from hashlib import sha256
from typing import Final, Literal

from deltaic.catalog import keys
from deltaic.catalog.aws_errors import ConditionFailed
from deltaic.catalog.credentials.recipient_lists import RecipientList
from deltaic.catalog.credentials.token_admin import TokenAdmin
from deltaic.catalog.dynamo import Attributes, Dynamo
from deltaic.catalog.items import Policy, Recipient, now
from deltaic.catalog.writes import delete, put_new, update
from deltaic.errors import AlreadyExists, InvalidParameter
from deltaic.protocol import names

LONGEST: Final = 512
"""Maximum number of characters of the audience (claim `aud`) or the subject of a federation policy."""
_ID_CHARACTERS: Final = 12

Claim = Literal["sub", "oid", "azp", "groups"]


def checked_name(text: str) -> str:
    """Return the audience (claim `aud`) or subject of a policy if it is valid; raises InvalidParameter."""
    if not text or len(text) > LONGEST or not text.isprintable():
        raise InvalidParameter(f"must have 1 to {LONGEST} printable characters, as in the token")
    return text


def policy_id(issuer: str, audience: str, claim: Claim, subject: str) -> str:
    """Return the id of a federation policy: a hash of issuer, audience, claim and subject, without the recipient."""
    return sha256(json.dumps([issuer, _subject_key(audience, claim, subject)]).encode()).hexdigest()[:_ID_CHARACTERS]


def _subject_key(audience: str, claim: Claim, subject: str) -> str:
    return json.dumps([audience, claim, subject])


class Federation(RecipientList[Policy]):
    """Create, list and remove federation policies. Callers must check the issuer's URL first (`check_issuer`)."""

    kind = "policy"
    command = "policies"

    def __init__(self, tokens_table: str, dynamo: Dynamo, tokens: TokenAdmin) -> None:
        super().__init__(Policy, tokens_table, dynamo, tokens)

    def create(  # noqa: PLR0913 -- the attributes of a policy
        self,
        recipient: Recipient,
        issuer: str,
        *,
        audience: str,
        claim: Claim,
        subject: str,
        comment: str = "",
    ) -> Policy:
        """Create a policy: JWTs of `issuer` with this audience (`aud`) and subject authenticate the recipient.

        Raises InvalidParameter, AlreadyExists if any recipient has the same policy, and NotFound if the recipient does
        not exist.
        """
        for kind, text in (("an audience", audience), ("a subject", subject)):
            try:
                checked_name(text)
            except InvalidParameter as error:
                raise InvalidParameter(f"{kind} {error.message}") from None
        policy = Policy(
            id=policy_id(issuer, audience, claim, subject),
            recipient_id=recipient.id,
            recipient=recipient.name,
            issuer=issuer,
            audience=audience,
            subject_claim=claim,
            subject=subject,
            comment=names.check_comment(comment),
            created_at=now(),
        )
        key = keys.policy(issuer, _subject_key(audience, claim, subject))
        entry = {**policy.attributes(), "issuer_key": key.pk, "policy_key": key.sk}
        try:
            self._tokens.transact(recipient, [
                put_new(self._table, key, policy.attributes()),
                put_new(self._table, keys.recipient_entry("policy", recipient.id, policy.id), entry),
            ])  # fmt: skip
        except ConditionFailed as failed:
            holder = (failed.item or entry).get("recipient", recipient.name)
            raise AlreadyExists(
                f"recipient '{holder}' has this policy already ({policy.id}): remove it, or choose another subject"
            ) from None
        return policy

    def update(self, recipient: Recipient, policy_id: str, *, comment: str) -> Policy:
        """Change the comment of a policy; raises NotFound, InvalidParameter."""
        entry = self._existing(recipient, policy_id)
        note = {"comment": names.check_comment(comment)}
        try:
            self._dynamo.transact([update(self._table, key, assign=note) for key in _item_keys(entry)])
        except ConditionFailed:
            raise self._missing(recipient, policy_id) from None
        return Policy.read(entry | note)

    def remove(self, recipient: Recipient, policy_id: str) -> Policy:
        """Remove a policy, so that the server rejects the JWTs that match the policy; raises NotFound."""
        entry = self._existing(recipient, policy_id)
        self._remove(entry)
        return Policy.read(entry)

    def _remove(self, entry: Attributes) -> None:
        self._dynamo.transact([delete(self._table, key, present=False) for key in _item_keys(entry)])


def _item_keys(entry: Attributes) -> tuple[keys.Key, keys.Key]:
    return keys.Key(entry["issuer_key"], entry["policy_key"]), keys.Key(entry["pk"], entry["sk"])
