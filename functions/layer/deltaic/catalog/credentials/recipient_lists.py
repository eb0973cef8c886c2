"""The list of a recipient's policies, links or clients: how it is read, and emptied with the recipient."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar, Generic, TypeVar

from deltaic.catalog import keys
from deltaic.catalog.credentials.token_admin import TokenAdmin
from deltaic.catalog.dynamo import Attributes, Dynamo
from deltaic.catalog.items import Invitation, OAuthClient, Policy, Recipient
from deltaic.errors import NotFound

_Listed = TypeVar("_Listed", Policy, Invitation, OAuthClient)


class RecipientList(ABC, Generic[_Listed]):
    """What recipients get in by, of one kind."""

    kind: ClassVar[str]
    command: ClassVar[str]
    """The command of `deltaic recipient` that lists it."""

    def __init__(self, item: type[_Listed], tokens_table: str, dynamo: Dynamo, tokens: TokenAdmin) -> None:
        self._item: type[_Listed] = item
        self._table = tokens_table
        self._dynamo = dynamo
        self._tokens = tokens

    def list(self, recipient_id: str) -> Sequence[_Listed]:
        """Return what a recipient has, ended ones included until the table forgets them, the newest first."""
        found = map(self._item.read, self._entries(recipient_id))
        return sorted(found, key=lambda one: (one.created_at, one.id), reverse=True)

    def list_all(self) -> Iterator[_Listed]:
        """Yield what all recipients have, that of one together (`Dynamo.scan`)."""
        return map(self._item.read, self._dynamo.scan(self._table, keys.KeyPrefix("recipient/", f"{self.kind}/")))

    def remove_all(self, recipient_id: str) -> None:
        """Delete all that a recipient has for which no more can be made."""
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
            f"recipient '{recipient.name}' has no {self.kind} '{identifier}': deltaic recipient {self.command} "
            f"{recipient.name} lists them"
        )

    @abstractmethod
    def _remove(self, entry: Attributes) -> None: ...
