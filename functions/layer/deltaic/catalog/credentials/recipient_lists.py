"""Base class for lists of a recipient's federation policies, invitations or OAuth clients."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar, Generic, TypeVar

from deltaic.catalog import keys
from deltaic.catalog.credentials.token_admin import TokenAdmin
from deltaic.catalog.dynamo import Attributes, Dynamo
from deltaic.catalog.items import Invitation, OAuthClient, Policy, Recipient
from deltaic.errors import NotFound

_Item = TypeVar("_Item", Policy, Invitation, OAuthClient)


class RecipientList(ABC, Generic[_Item]):
    """List and delete a recipient's items of one type: policies, invitations or clients."""

    kind: ClassVar[str]
    command: ClassVar[str]
    """The subcommand of `deltaic recipient` that lists these items."""

    def __init__(self, item: type[_Item], tokens_table: str, dynamo: Dynamo, tokens: TokenAdmin) -> None:
        self._item: type[_Item] = item
        self._table = tokens_table
        self._dynamo = dynamo
        self._tokens = tokens

    def list(self, recipient_id: str) -> Sequence[_Item]:
        """Return a recipient's policies, invitations or clients, newest first, also expired ones that still exist."""
        items = map(self._item.read, self._entries(recipient_id))
        return sorted(items, key=lambda item: (item.created_at, item.id), reverse=True)

    def list_all(self) -> Iterator[_Item]:
        """Yield the policies, invitations or clients of all recipients, grouped by recipient (`Dynamo.scan`)."""
        return map(self._item.read, self._dynamo.scan(self._table, keys.KeyPrefix("recipient/", f"{self.kind}/")))

    def remove_all(self, recipient_id: str) -> None:
        """Delete all policies, invitations or clients of a recipient whose own deletion has begun."""
        for entry in self._entries(recipient_id):
            self._remove(entry)

    def _entries(self, recipient_id: str) -> Sequence[Attributes]:
        return [*self._dynamo.query(self._table, keys.of_recipient(self.kind, recipient_id))]

    def _existing(self, recipient: Recipient, identifier: str) -> Attributes:
        for entry in self._entries(recipient.id):
            if entry["id"] == identifier:
                return entry
        raise self._missing(recipient, identifier)

    def _missing(self, recipient: Recipient, identifier: str) -> NotFound:
        return NotFound(
            f"recipient '{recipient.name}' has no {self.kind} '{identifier}': "
            f"deltaic recipient {self.command} {recipient.name} lists the existing ones"
        )

    @abstractmethod
    def _remove(self, entry: Attributes) -> None: ...
