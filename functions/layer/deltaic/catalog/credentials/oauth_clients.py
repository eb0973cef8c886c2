"""OAuth clients: pairs of an id and a secret that programs of a recipient exchange for short-lived tokens.

Only the SHA-256 of the secret is stored, in an item whose key contains the client's id. Each client also occupies one
of five slots in its recipient's list, so that concurrent requests cannot create more than five clients.
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

MOST_CLIENTS: Final = 5
ID: Final = re.compile(r"dlc_[0-9a-f]{24}")
SECRET_PREFIX: Final = "dls_"  # noqa: S105 -- what a secret begins with
_UNKNOWN: Final = sha256(secrets.token_bytes()).hexdigest()


@dataclass(frozen=True, slots=True)
class IssuedClient:
    """A new OAuth client and its secret, which is shown once and never stored."""

    client: OAuthClient
    secret: str = field(repr=False)


class ClientStore:
    """Read OAuth clients for the token endpoint and the authorizer, only with GetItem on the Tokens table."""

    def __init__(self, table: str, dynamo: Dynamo) -> None:
        self._table = table
        self._dynamo = dynamo.for_recipients()

    def get(self, client_id: str) -> OAuthClient | None:
        """Return a client, or None if it is unknown or revoked, with a strongly consistent read."""
        item = self._item(client_id)
        return None if item is None else OAuthClient.read(item)

    def authenticate(self, client_id: str, secret: str) -> OAuthClient | None:
        """Return the OAuth client with the given id and secret, or None; compares secrets in constant time."""
        item = self._item(client_id)
        is_valid = compare_digest(_digest(secret), _UNKNOWN if item is None else item["secret_hash"])
        return OAuthClient.read(item) if item is not None and is_valid else None

    def _item(self, client_id: str) -> dict[str, Any] | None:
        return self._dynamo.get(self._table, keys.oauth_client(client_id)) if ID.fullmatch(client_id) else None


class OAuthClients(RecipientList[OAuthClient]):
    """Create, list and revoke OAuth clients."""

    kind = "client"
    command = "clients"

    def __init__(self, tokens_table: str, dynamo: Dynamo, tokens: TokenAdmin) -> None:
        super().__init__(OAuthClient, tokens_table, dynamo, tokens)

    def create(self, recipient: Recipient, *, comment: str = "") -> IssuedClient:
        """Create a client; raises Conflict if the recipient has five clients, and NotFound."""
        client = OAuthClient(
            id=f"dlc_{secrets.token_hex(12)}",
            recipient_id=recipient.id,
            recipient=recipient.name,
            comment=names.check_comment(comment),
            created_at=now(),
        )
        secret = SECRET_PREFIX + secrets.token_urlsafe(SECRET_BYTES)
        stored = {**client.attributes(), "secret_hash": _digest(secret)}
        for slot in range(MOST_CLIENTS):
            with suppress(ConditionFailed):
                self._tokens.transact(recipient, [
                    put_new(self._table, keys.oauth_client(client.id), stored),
                    put_new(self._table, keys.recipient_entry("client", recipient.id, str(slot)), client.attributes()),
                ])  # fmt: skip
                return IssuedClient(client, secret)
        raise Conflict(f"'{recipient.name}' has {MOST_CLIENTS} clients already: revoke one of them first")

    def revoke(self, recipient: Recipient, client_id: str) -> OAuthClient:
        """Revoke a client, so that the server also rejects its tokens; raises NotFound."""
        entry = self._existing(recipient, client_id)
        self._remove(entry)
        return OAuthClient.read(entry)

    def _remove(self, entry: Attributes) -> None:
        with suppress(ConditionFailed):  # removed by another process; the slot may have a new client
            self._dynamo.transact([
                delete(self._table, keys.oauth_client(entry["id"]), present=False),
                delete(self._table, keys.Key(entry["pk"], entry["sk"]), {"id": entry["id"]}),
            ])  # fmt: skip


def _digest(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
