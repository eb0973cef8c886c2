"""Clients of ours: an id and a secret by which a recipient's program gets tokens of minutes; at most five a recipient.

The secret is stored nowhere, only its SHA-256, where the client is found by its id. A client has one of five places in
its recipient's list, so that whoever races for the last one, one gets it.
"""

import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Final

from deltaic.catalog import keys
from deltaic.catalog.aws_errors import ConditionFailed
from deltaic.catalog.credentials.token_admin import TokenAdmin
from deltaic.catalog.credentials.tokens import SECRET_BYTES
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.items import OAuthClient, Recipient, now
from deltaic.catalog.writes import delete, put_new
from deltaic.errors import Conflict, NotFound
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


class OAuthClients:
    """Creates, lists and revokes clients."""

    def __init__(self, tokens_table: str, dynamo: Dynamo, tokens: TokenAdmin) -> None:
        self._table = tokens_table
        self._dynamo = dynamo
        self._tokens = tokens

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
            try:
                self._dynamo.transact([
                    self._tokens.exists(recipient),
                    put_new(self._table, keys.oauth_client(client.id), stored),
                    put_new(self._table, keys.recipient_entry("client", recipient.id, str(place)), client.attributes()),
                ])  # fmt: skip
            except ConditionFailed as failed:
                if failed.index == 0:
                    raise NotFound(f"recipient '{recipient.name}' not found") from None
            else:
                return IssuedClient(client, secret)
        raise Conflict(f"'{recipient.name}' has {PLACES} clients already: revoke one of them first")

    def list(self, recipient_id: str) -> Sequence[OAuthClient]:
        """Return the recipient's clients, the newest first."""
        found = [OAuthClient.read(item) for item in self._entries(recipient_id)]
        return sorted(found, key=lambda client: (client.created_at, client.id), reverse=True)

    def of_all(self) -> Iterator[OAuthClient]:
        """Yield the clients of all recipients, those of one together (`Dynamo.scan`)."""
        return map(OAuthClient.read, self._dynamo.scan(self._table, keys.OAUTH_CLIENT_ENTRIES))

    def revoke(self, recipient: Recipient, client_id: str) -> OAuthClient:
        """End a client and the tokens that it was given; raises NotFound."""
        for item in self._entries(recipient.id):
            if item["id"] == client_id:
                self._remove(item)
                return OAuthClient.read(item)
        raise NotFound(
            f"recipient '{recipient.name}' has no client '{client_id}': deltaic recipient clients {recipient.name} "
            "lists them"
        )

    def remove_all(self, recipient_id: str) -> None:
        """Delete every client of a recipient for which no more can be made."""
        for item in self._entries(recipient_id):
            self._remove(item)

    def _entries(self, recipient_id: str) -> Sequence[dict[str, Any]]:
        return [*self._dynamo.query(self._table, keys.of_recipient("client", recipient_id))]

    def _remove(self, item: dict[str, Any]) -> None:
        try:
            self._dynamo.transact([
                delete(self._table, keys.oauth_client(item["id"]), present=False),
                delete(self._table, keys.Key(item["pk"], item["sk"]), {"id": item["id"]}),
            ])  # fmt: skip
        except ConditionFailed:
            return  # somebody else was faster, and the place may have another client


def _digest(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
