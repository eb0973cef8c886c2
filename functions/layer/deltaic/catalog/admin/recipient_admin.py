"""Administration of recipients, each with an id that never changes.

Limits and properties are stored twice: under the name for administrators, and under the id for the API functions.
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

SignInMethods = TokenAdmin | Invitations | Federation | OAuthClients
"""Admin objects of recipients' sign-in methods: tokens, invitation links, federation policies and OAuth clients."""


class RecipientAdmin:
    """Create, get, list, update and delete recipients, with their grants and sign-in methods."""

    def __init__(
        self,
        records: Records,
        grants: GrantAdmin,
        sign_in_methods: Sequence[SignInMethods],
        requests: ViewRequests,
        answers_ipv6: Callable[[], bool],
    ) -> None:
        self._records = records
        self._grants = grants
        self._sign_in_methods = sign_in_methods
        self._requests = requests
        self._answers_ipv6 = answers_ipv6

    def create(self, name: str, *, comment: str = "", properties: Mapping[str, str] | None = None) -> Recipient:
        """Create a recipient with a new id; raises AlreadyExists, InvalidParameter."""
        check_lists(properties or {})
        recipient = Recipient(
            name=names.check_name("recipient", name),
            id=str(uuid4()),
            comment=names.check_comment(comment),
            properties=names.check_properties(properties or {}),
            created_at=now(),
        )
        copied = {"recipient": name, "properties": recipient.properties}
        writes = [
            self._records.put_new(keys.catalog_entry("recipient", name), recipient.attributes()),
            self._records.put_new(keys.recipient_id(recipient.id), copied),
        ]
        if not self._records.attempt(writes):
            raise AlreadyExists(f"recipient '{name}' exists already: choose another name, or use it")
        return recipient

    def get(self, name: str) -> Recipient:
        """Return a recipient; raises NotFound."""
        return self._records.recipient(name)

    def list(self, excerpt: Excerpt = EVERY) -> Iterator[Recipient]:
        """Yield the recipients that `excerpt` selects (by default all), sorted by name."""
        return map(Recipient.read, self._records.all(keys.all_of("recipient"), excerpt, include_deleting=False))

    def update(
        self,
        name: str,
        *,
        comment: str | None = None,
        add_properties: Mapping[str, str] | None = None,
        remove_properties: tuple[str, ...] = (),
        **limits: Unpack[restrictions.Limits],
    ) -> Recipient:
        """Change the given settings of a recipient, and keep the others; raises NotFound, InvalidParameter.

        If properties change, requests a refresh of the granted views that have no rows for the recipient. `limits` are
        changes of the recipient's restrictions (`restrictions.Limits`).
        """
        check_lists(add_properties or {})
        ipv6 = [network for network in limits.get("add_addresses", ()) if ":" in network]
        if ipv6 and not self._answers_ipv6():
            raise InvalidParameter(
                f"'{ipv6[0]}' is an IPv6 network, but the endpoint supports only IPv4, so no request can come from it: "
                "deploy the stack with IpAddressType=dualstack first, or name an IPv4 network"
            )

        def change(item: Attributes) -> dict[str, Any]:
            assign = {} if comment is None else {"comment": names.check_comment(comment)}
            merged = merged_properties(item["properties"], add_properties, remove_properties)
            return {**assign, "properties": merged, **restrictions.changed_attributes(Recipient.read(item), limits)}

        changed = self._change(name, change)
        if add_properties or remove_properties:
            self._requests.for_recipient(name, [grant.share for grant in self._grants.of_recipient(name)])
        return changed

    def mark_cut_off(self, name: str) -> Recipient:
        """Make the server reject every request of a recipient; raises NotFound."""
        return self._change(name, lambda item: {"cut_off_at": item.get("cut_off_at") or now()})

    def restore(self, name: str) -> Recipient:
        """Undo `mark_cut_off`: accept the recipient's requests again, except with revoked tokens; raises NotFound."""
        return self._change(name, lambda _: {"cut_off_at": None})

    def _change(self, name: str, change: Change) -> Recipient:
        """Change a recipient, and the copy of its limits and properties that the API functions read."""

        def update_copy(before: Attributes, after: Mapping[str, Any]) -> Writes:
            assign = restrictions.copied_attributes(after)
            return [self._records.update(keys.recipient_id(before["id"]), assign=assign)] if assign else []

        missing = f"recipient '{name}' not found"
        return Recipient.read(
            self._records.change(keys.catalog_entry("recipient", name), missing, change, also=update_copy)
        )

    def delete(self, name: str, *, resume: bool = False) -> Recipient:
        """Delete a recipient with its grants, tokens, invitation links, policies and clients; raises NotFound.

        After the deletion has begun, none of these can be created for the recipient. If the call is interrupted, repeat
        it. With `resume`, only finishes a deletion that has begun, and deletes no new recipient with this name.
        """
        key = keys.catalog_entry("recipient", name)
        recipient = Recipient.read(self._records.get_any(key, f"recipient '{name}' not found", resume=resume))
        same = {"id": recipient.id}
        mark = {"state": DELETING}
        try:
            self._records.transact([
                self._records.update(key, assign=mark, expect=same),
                self._records.update(keys.recipient_id(recipient.id), assign=mark),
            ])  # fmt: skip
            for method in self._sign_in_methods:
                method.remove_all(recipient.id)
            self._grants.remove_all(keys.of_recipient("grant", recipient.id))
            self._records.transact([
                self._records.delete(key, same),
                self._records.delete(keys.recipient_id(recipient.id)),
            ])  # fmt: skip
        except ConditionFailed:
            pass  # deleted by another process at the same time
        return recipient
