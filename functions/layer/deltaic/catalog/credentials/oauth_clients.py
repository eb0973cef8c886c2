"""Clients of ours: an id and a secret by which a recipient's program gets tokens of minutes; at most five a recipient.

The secret is stored nowhere, only its SHA-256, where the client is found by its id. A client has one of five places in
its recipient's list, so that whoever races for the last one, one gets it.
"""

import re
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Final

from deltaic.catalog import keys
from deltaic.catalog.aws_errors import ConditionFailed
from deltaic.catalog.credentials.recipient_lists import RecipientList
from deltaic.catalog.credentials.token_admin import TokenAdmin
from deltaic.catalog.credentials.tokens import SECRET_BYTES
from deltaic.catalog.dynamo import Attributes, Dynamo
from deltaic.catalog.items import OAuthClient, Recipient, now
from deltaic.catalog.writes import delete, put_new
from deltaic.errors import Conflict
from deltaic.protocol import names

PLACES: Final = 5
ID: Final = re.compile(r"dlc_[0-9a-f]{24}")
SECRET_PREFIX: Final = "dls_"  # noqa: S105 -- what a secret begins with
_NOBODY: Final = sha256(secrets.token_bytes()).hexdigest()


@dataclass(frozen=True, slots=True)
class IssuedClient:
    """A new client with its secret, which is shown once and stored nowhere."""

    client: OAuthClient
    secret: str = field(repr=False)


class ClientStore:
    """The clients as the token endpoint and the authorizer read them: GetItem on one table, nothing else."""

    def __init__(self, table: str, dynamo: Dynamo) -> None:
        self._table = table
        self._dynamo = dynamo.for_recipients()

    def get(self, client_id: str) -> OAuthClient | None:
        """Return a client that has not been revoked, by a strongly consistent read."""
        item = self._item(client_id)
        return None if item is None else OAuthClient.read(item)

    def authenticate(self, client_id: str, secret: str) -> OAuthClient | None:
        """Return the client whose id and secret these are; the comparison takes as long for every secret."""
        item = self._item(client_id)
        right = compare_digest(_digest(secret), _NOBODY if item is None else item["secret_hash"])
        return OAuthClient.read(item) if item is not None and right else None

    def _item(self, client_id: str) -> dict[str, Any] | None:
        return self._dynamo.get(self._table, keys.oauth_client(client_id)) if ID.fullmatch(client_id) else None


class OAuthClients(RecipientList[OAuthClient]):
    """Creates, lists and revokes clients."""

    kind = "client"
    command = "clients"

    def __init__(self, tokens_table: str, dynamo: Dynamo, tokens: TokenAdmin) -> None:
        super().__init__(OAuthClient, tokens_table, dynamo, tokens)

    def create(self, recipient: Recipient, *, comment: str = "") -> IssuedClient:
        """Make a client; raises Conflict when the recipient has five, NotFound when it is gone."""
        client = OAuthClient(
            id=f"dlc_{secrets.token_hex(12)}",
            recipient_id=recipient.id,
            recipient=recipient.name,
            comment=names.check_comment(comment),
            created_at=now(),
        )
        secret = SECRET_PREFIX + secrets.token_urlsafe(SECRET_BYTES)
        stored = {**client.attributes(), "secret_hash": _digest(secret)}
        for place in range(PLACES):
            with suppress(ConditionFailed):
                self._tokens.transact(recipient, [
                    put_new(self._table, keys.oauth_client(client.id), stored),
                    put_new(self._table, keys.recipient_entry("client", recipient.id, str(place)), client.attributes()),
                ])  # fmt: skip
                return IssuedClient(client, secret)
        raise Conflict(f"'{recipient.name}' has {PLACES} clients already: revoke one of them first")

    def revoke(self, recipient: Recipient, client_id: str) -> OAuthClient:
        """End a client and the tokens that it was given; raises NotFound."""
        entry = self._existing(recipient, client_id)
        self._remove(entry)
        return OAuthClient.read(entry)

    def _remove(self, entry: Attributes) -> None:
        with suppress(ConditionFailed):  # somebody else was faster, and the place may have another client
            self._dynamo.transact([
                delete(self._table, keys.oauth_client(entry["id"]), present=False),
                delete(self._table, keys.Key(entry["pk"], entry["sk"]), {"id": entry["id"]}),
            ])  # fmt: skip


def _digest(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
