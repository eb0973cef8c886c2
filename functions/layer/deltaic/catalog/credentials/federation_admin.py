"""Federation: whose JWTs are which recipient's. What one policy says is said of one recipient, whoever races for it."""

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
"""Characters of an audience or a subject."""
_ID_CHARACTERS: Final = 12

Claim = Literal["sub", "oid", "azp", "groups"]


def checked_name(text: str) -> str:
    """Return an audience or a subject; raises InvalidParameter for what no policy can say."""
    if not text or len(text) > LONGEST or not text.isprintable():
        raise InvalidParameter(f"is 1 to {LONGEST} printable characters, as the token has it")
    return text


def policy_id(issuer: str, audience: str, claim: Claim, subject: str) -> str:
    """Return the id of the policy that says this: it has one, whosever it is."""
    return sha256(json.dumps([issuer, _meant(audience, claim, subject)]).encode()).hexdigest()[:_ID_CHARACTERS]


def _meant(audience: str, claim: Claim, subject: str) -> str:
    return json.dumps([audience, claim, subject])


class Federation(RecipientList[Policy]):
    """Creates, lists and removes policies; the issuer's own spelling was checked by the caller."""

    kind = "policy"
    command = "policies"

    def __init__(self, tokens_table: str, dynamo: Dynamo, tokens: TokenAdmin) -> None:
        super().__init__(Policy, tokens_table, dynamo, tokens)

    def create(  # noqa: PLR0913 -- what a policy holds
        self,
        recipient: Recipient,
        issuer: str,
        *,
        audience: str,
        claim: Claim,
        subject: str,
        comment: str = "",
    ) -> Policy:
        """Take the JWTs of an issuer for a recipient's from now on.

        Raises InvalidParameter, AlreadyExists for a policy that is there, be it another recipient's, and NotFound if
        the recipient is gone.
        """
        for what, text in (("an audience", audience), ("a subject", subject)):
            try:
                checked_name(text)
            except InvalidParameter as wrong:
                raise InvalidParameter(f"{what} {wrong.message}") from None
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
        key = keys.policy(issuer, _meant(audience, claim, subject))
        entry = {**policy.attributes(), "issuer_key": key.pk, "policy_key": key.sk}
        try:
            self._tokens.transact(recipient, [
                put_new(self._table, key, policy.attributes()),
                put_new(self._table, keys.recipient_entry("policy", recipient.id, policy.id), entry),
            ])  # fmt: skip
        except ConditionFailed as failed:
            whose = (failed.item or entry).get("recipient", recipient.name)
            raise AlreadyExists(
                f"'{whose}' has policy {policy.id}, which says the same: deltaic recipient policies lists them"
            ) from None
        return policy

    def update(self, recipient: Recipient, policy_id: str, *, comment: str) -> Policy:
        """Change the note of a policy, which says what it says for ever; raises NotFound, InvalidParameter."""
        entry = self._existing(recipient, policy_id)
        note = {"comment": names.check_comment(comment)}
        try:
            self._dynamo.transact([update(self._table, place, assign=note) for place in _places(entry)])
        except ConditionFailed:
            raise self._missing(recipient, policy_id) from None
        return Policy.read(entry | note)

    def remove(self, recipient: Recipient, policy_id: str) -> Policy:
        """Remove a policy, and with it end the JWTs that it lets in; raises NotFound."""
        entry = self._existing(recipient, policy_id)
        self._remove(entry)
        return Policy.read(entry)

    def _remove(self, entry: Attributes) -> None:
        self._dynamo.transact([delete(self._table, place, present=False) for place in _places(entry)])


def _places(entry: Attributes) -> tuple[keys.Key, keys.Key]:
    return keys.Key(entry["issuer_key"], entry["policy_key"]), keys.Key(entry["pk"], entry["sk"])
