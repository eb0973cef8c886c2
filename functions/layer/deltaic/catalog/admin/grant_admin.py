"""Administration of grants, which are stored twice: once for their recipient and once for their share."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from deltaic.catalog import keys
from deltaic.catalog.admin.filter_rules import check_folders, checked_filter
from deltaic.catalog.admin.records import EVERY, Excerpt, Records
from deltaic.catalog.admin.view_requests import ViewRequests
from deltaic.catalog.aws_errors import ConditionFailed
from deltaic.catalog.dynamo import Attributes
from deltaic.catalog.items import Grant, now
from deltaic.catalog.restrictions import stored_end
from deltaic.catalog.writes import ABSENT, Writes
from deltaic.errors import AlreadyExists, NotFound


class GrantAdmin:
    """Create, get, list, update and revoke grants."""

    def __init__(self, records: Records, requests: ViewRequests) -> None:
        self._records = records
        self._requests = requests

    def create(
        self, recipient: str, share: str, *, partition_filter: str = "", ends_at: datetime | None = None
    ) -> Grant:
        """Grant a recipient access to all rows of a share, or to the rows that `partition_filter` selects.

        Requests a refresh of those views in the share that have no rows for the recipient yet. Does not check whether
        the tables have the columns of the filter. Raises NotFound for the share or the recipient, AlreadyExists for an
        existing grant, InvalidParameter for an invalid filter.
        """
        row_filter = checked_filter(partition_filter)
        holder = self._records.recipient(recipient)
        entry = self._records.share(share)
        grant = Grant(
            recipient=holder.name,
            recipient_id=holder.id,
            share=entry.name,
            share_id=entry.id,
            partition_filter=row_filter,
            created_at=now(),
            ends_at=None if ends_at is None else stored_end(ends_at),
        )
        try:
            writes = [
                self._records.check(keys.catalog_entry("share", entry.name), {"id": entry.id, "state": ABSENT}),
                self._records.check(keys.recipient_id(holder.id), {"state": ABSENT}),
                self._records.put_new(keys.recipient_entry("grant", holder.id, entry.name), grant.attributes()),
                self._records.put_new(keys.share_entry("grant", entry.name, holder.id), grant.attributes()),
            ]
            self._records.transact_checked(writes, partial(self._check_folders, entry.name, row_filter))
        except ConditionFailed as failed:
            if failed.index == 0:
                raise NotFound(f"share '{share}' not found") from None
            if failed.index == 1:
                raise NotFound(f"recipient '{recipient}' not found") from None
            raise AlreadyExists(
                f"share '{entry.name}' is granted to '{holder.name}' already: update the existing grant"
            ) from None
        self._requests.for_recipient(holder.name, [entry.name])
        return grant

    def get(self, recipient: str, share: str) -> Grant:
        """Return one grant; raises NotFound."""
        key = keys.recipient_entry("grant", self._records.recipient(recipient).id, share)
        return Grant.read(self._records.get_any(key, _missing(recipient, share)))

    def update(
        self, recipient: str, share: str, *, partition_filter: str | None = None, ends_at: datetime | None = None
    ) -> Grant:
        """Change the filter or expiry of a grant; pass "" to remove the filter, `NEVER` to remove the expiry.

        None keeps a value. Does not check whether the tables have the columns of the filter. Raises NotFound, and
        InvalidParameter for an invalid filter.
        """
        assign: dict[str, Any] = {} if ends_at is None else {"ends_at": stored_end(ends_at)}
        if partition_filter is not None:
            assign["partition_filter"] = checked_filter(partition_filter)
        missing = _missing(recipient, share)

        def update_copy(before: Attributes, after: Mapping[str, Any]) -> Writes:
            copy = keys.share_entry("grant", before["share"], before["recipient_id"])
            same = {"share_id": before["share_id"]}
            return [self._records.update(copy, assign=after, add={"revision": 1}, expect=same)]

        try:
            key = keys.recipient_entry("grant", self._records.recipient(recipient).id, share)
            check = partial(self._check_folders, share, assign.get("partition_filter", ""))
            return Grant.read(self._records.change(key, missing, lambda _: assign, update_copy, check))
        except ConditionFailed:
            raise NotFound(missing) from None

    def revoke(self, recipient: str, share: str) -> Grant:
        """Revoke a grant, so that the server rejects the recipient's next request for the share; raises NotFound."""
        grant = self.get(recipient, share)
        if not self._remove(grant):
            raise NotFound(_missing(recipient, share))
        return grant

    def of_recipient(self, recipient: str, excerpt: Excerpt = EVERY) -> Iterator[Grant]:
        """Yield the grants of a recipient, sorted by share name; raises NotFound."""
        return self._list(keys.of_recipient("grant", self._records.recipient(recipient).id), excerpt)

    def of_share(self, share: str, excerpt: Excerpt = EVERY) -> Iterator[Grant]:
        """Yield the grants of a share, sorted by recipient id; `excerpt` selects by this id. Raises NotFound."""
        return self._list(keys.of_share("grant", self._records.share(share).name), excerpt)

    def list_all(self, *, expiring: bool = False) -> Iterator[Grant]:
        """Yield the grants of all recipients, or only those with an expiry, grouped by recipient (`Dynamo.scan`)."""
        return map(Grant.read, self._records.scan(keys.ENDING_GRANTS if expiring else keys.GRANTS))

    def remove_all(self, key_range: keys.KeyRange) -> None:
        """Delete all grants in a key range: those of a share or a recipient whose deletion has begun."""
        for grant in tuple(self._list(key_range)):
            self._remove(grant)

    def _check_folders(self, share: str, row_filter: str, *_: object) -> Writes:
        """Raise InvalidParameter if credentials for an overlapping folder would bypass a grant's filter."""
        return check_folders(self._records, filtered_share=share) if row_filter else []

    def _list(self, key_range: keys.KeyRange, excerpt: Excerpt = EVERY) -> Iterator[Grant]:
        return map(Grant.read, self._records.all(key_range, excerpt))

    def _remove(self, grant: Grant) -> bool:
        same = {"share_id": grant.share_id}
        return self._records.attempt([
            self._records.delete(keys.recipient_entry("grant", grant.recipient_id, grant.share), same),
            self._records.delete(keys.share_entry("grant", grant.share, grant.recipient_id), same),
        ])  # fmt: skip


def _missing(recipient: str, share: str) -> str:
    return f"share '{share}' is not granted to '{recipient}': deltaic grant list shows the existing grants"
