"""The recipients of the catalog: the id is for ever, and with the recipient go its tokens, links, policies and grants.

The properties lie with the name, for administrators, and with the id, where functions may read them; always the same.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Unpack
from uuid import uuid4

from deltaic.catalog import keys, restrictions
from deltaic.catalog.admin.grant_admin import GrantAdmin
from deltaic.catalog.admin.records import DELETING, EVERY, Change, Excerpt, Records, merged_properties
from deltaic.catalog.admin.view_requests import ViewRequests
from deltaic.catalog.aws_errors import ConditionFailed
from deltaic.catalog.credentials.federation_admin import Federation
from deltaic.catalog.credentials.invitations import Invitations
from deltaic.catalog.credentials.oauth_clients import OAuthClients
from deltaic.catalog.credentials.token_admin import TokenAdmin
from deltaic.catalog.dynamo import Attributes
from deltaic.catalog.items import Recipient, now
from deltaic.catalog.writes import Writes
from deltaic.errors import AlreadyExists, InvalidParameter
from deltaic.partition_filters.properties import check_lists
from deltaic.protocol import names

Entrances = TokenAdmin | Invitations | Federation | OAuthClients
"""What a recipient gets in by: tokens, links, policies and clients."""


class RecipientAdmin:
    """Creates, gets, lists, updates and deletes recipients; with one go its grants and all that it gets in by."""

    def __init__(
        self,
        records: Records,
        grants: GrantAdmin,
        entrances: Sequence[Entrances],
        requests: ViewRequests,
        answers_ipv6: Callable[[], bool],
    ) -> None:
        self._records = records
        self._grants = grants
        self._entrances = entrances
        self._requests = requests
        self._answers_ipv6 = answers_ipv6

    def create(self, name: str, *, comment: str = "", properties: Mapping[str, str] | None = None) -> Recipient:
        """Make a recipient with an id of its own; raises AlreadyExists, InvalidParameter."""
        check_lists(properties or {})
        recipient = Recipient(
            name=names.check_name("recipient", name),
            id=str(uuid4()),
            comment=names.check_comment(comment),
            properties=names.check_properties(properties or {}),
            created_at=now(),
        )
        try:
            self._records.transact([
                self._records.put_new(keys.catalog_entry("recipient", name), recipient.attributes()),
                self._records.put_new(
                    keys.recipient_id(recipient.id), {"recipient": name, "properties": recipient.properties}
                ),
            ])  # fmt: skip
        except ConditionFailed:
            raise AlreadyExists(f"there is a recipient '{name}' already: choose another name, or use it") from None
        return recipient

    def get(self, name: str) -> Recipient:
        """Return a recipient; raises NotFound."""
        return self._records.recipient(name)

    def list(self, excerpt: Excerpt = EVERY) -> Iterator[Recipient]:
        """Yield the recipients, or an excerpt, in the order of their names."""
        return map(Recipient.read, self._records.all(keys.all_of("recipient"), excerpt, with_those_in_deletion=False))

    def update(
        self,
        name: str,
        *,
        comment: str | None = None,
        add_properties: Mapping[str, str] | None = None,
        remove_properties: tuple[str, ...] = (),
        **limits: Unpack[restrictions.Limits],
    ) -> Recipient:
        """Change what is given and keep the rest; raises NotFound, InvalidParameter.

        Views of its shares that have no rows for its properties are asked to be refreshed. `limits` are what
        `restrictions.changed` takes.
        """
        check_lists(add_properties or {})
        ipv6 = [network for network in limits.get("add_addresses", ()) if ":" in network]
        if ipv6 and not self._answers_ipv6():
            raise InvalidParameter(
                f"'{ipv6[0]}' is IPv6, and the endpoint answers IPv4 only: nobody could come from there. Deploy the "
                "stack with IpAddressType=dualstack first, or name an IPv4 network"
            )

        def change(item: Attributes) -> dict[str, Any]:
            assign = {} if comment is None else {"comment": names.check_comment(comment)}
            merged = merged_properties(item["properties"], add_properties, remove_properties)
            return {**assign, "properties": merged, **restrictions.changed(Recipient.read(item), limits)}

        changed = self._change(name, change)
        if add_properties or remove_properties:
            self._requests.for_recipient(name, [grant.share for grant in self._grants.of_recipient(name)])
        return changed

    def mark_cut_off(self, name: str) -> Recipient:
        """Have nothing answered to a recipient from its next request on, by whatever key; raises NotFound."""
        return self._change(name, lambda item: {"cut_off_at": item.get("cut_off_at") or now()})

    def restore(self, name: str) -> Recipient:
        """Take the mark away; tokens stay revoked, links and other keys work again. Raises NotFound."""
        return self._change(name, lambda _: {"cut_off_at": None})

    def _change(self, name: str, change: Change) -> Recipient:
        """Change a recipient, and with it the record that endpoints read."""

        def both(before: Attributes, after: Mapping[str, Any]) -> Writes:
            assign = restrictions.of_record(after)
            return [self._records.update(keys.recipient_id(before["id"]), assign=assign)] if assign else []

        missing = f"recipient '{name}' not found"
        return Recipient.read(self._records.change(keys.catalog_entry("recipient", name), missing, change, also=both))

    def delete(self, name: str, *, resume: bool = False) -> Recipient:
        """Delete a recipient, its grants and all that it gets in by; raises NotFound.

        `begun` as for shares.

        From the first step on nothing of these can be made for it. What was interrupted is finished by doing it
        again.
        """
        key = keys.catalog_entry("recipient", name)
        recipient = Recipient.read(self._records.existing(key, f"recipient '{name}' not found", resume=resume))
        same = {"id": recipient.id}
        mark = {"state": DELETING}
        try:
            self._records.transact([
                self._records.update(key, assign=mark, expect=same),
                self._records.update(keys.recipient_id(recipient.id), assign=mark),
            ])  # fmt: skip
            for some in self._entrances:
                some.remove_all(recipient.id)
            self._grants.remove_all(keys.of_recipient("grant", recipient.id))
            self._records.transact([
                self._records.delete(key, same),
                self._records.delete(keys.recipient_id(recipient.id)),
            ])  # fmt: skip
        except ConditionFailed:
            pass  # somebody else deletes it at the same moment, and was faster
        return recipient
