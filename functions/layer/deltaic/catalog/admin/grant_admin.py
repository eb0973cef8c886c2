"""The grants of the catalog: who holds which share; each lies the same with recipient and share, or with neither."""

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
from deltaic.catalog.restrictions import end
from deltaic.catalog.writes import ABSENT, Writes
from deltaic.errors import AlreadyExists, NotFound


class GrantAdmin:
    """Creates, gets, lists, updates and revokes grants."""

    def __init__(self, records: Records, requests: ViewRequests) -> None:
        self._records = records
        self._requests = requests

    def create(
        self, recipient: str, share: str, *, partition_filter: str = "", ends_at: datetime | None = None
    ) -> Grant:
        """Grant a share to a recipient, all that it shares or the rows that a filter leaves of it.

        Views of the share that have no rows for the recipient yet are asked to be refreshed.
        The filter is not compared with the share's tables. Raises NotFound for share or recipient, AlreadyExists for a
        grant that is there, InvalidParameter for a filter that is none.
        """
        rows = checked_filter(partition_filter)
        holder = self._records.recipient(recipient)
        entry = self._records.share(share)
        grant = Grant(
            recipient=holder.name,
            recipient_id=holder.id,
            share=entry.name,
            share_id=entry.id,
            partition_filter=rows,
            created_at=now(),
            ends_at=None if ends_at is None else end(ends_at),
        )
        try:
            writes = [
                self._records.check(keys.catalog_entry("share", entry.name), {"id": entry.id, "state": ABSENT}),
                self._records.check(keys.recipient_id(holder.id), {"state": ABSENT}),
                self._records.put_new(keys.recipient_entry("grant", holder.id, entry.name), grant.attributes()),
                self._records.put_new(keys.share_entry("grant", entry.name, holder.id), grant.attributes()),
            ]
            self._records.transact_checked(writes, partial(self._check_folders, entry.name, rows))
        except ConditionFailed as failed:
            if failed.index == 0:
                raise NotFound(f"share '{share}' not found") from None
            if failed.index == 1:
                raise NotFound(f"recipient '{recipient}' not found") from None
            raise AlreadyExists(f"'{holder.name}' holds '{entry.name}' already") from None
        self._requests.for_recipient(holder.name, [entry.name])
        return grant

    def get(self, recipient: str, share: str) -> Grant:
        """Return one grant; raises NotFound."""
        key = keys.recipient_entry("grant", self._records.recipient(recipient).id, share)
        return Grant.read(self._records.existing(key, _missing(recipient, share)))

    def update(
        self, recipient: str, share: str, *, partition_filter: str | None = None, ends_at: datetime | None = None
    ) -> Grant:
        """Give a grant another filter, or with "" none, or another end, or with NEVER none; None keeps what it has.

        The filter is not compared with the share's tables. Raises NotFound, and InvalidParameter for what is no
        filter.
        """
        assign: dict[str, Any] = {} if ends_at is None else {"ends_at": end(ends_at)}
        if partition_filter is not None:
            assign["partition_filter"] = checked_filter(partition_filter)
        missing = _missing(recipient, share)

        def both(before: Attributes, after: Mapping[str, Any]) -> Writes:
            other = keys.share_entry("grant", before["share"], before["recipient_id"])
            same = {"share_id": before["share_id"]}
            return [self._records.update(other, assign=after, add={"revision": 1}, expect=same)]

        try:
            key = keys.recipient_entry("grant", self._records.recipient(recipient).id, share)
            check = partial(self._check_folders, share, assign.get("partition_filter", ""))
            return Grant.read(self._records.change(key, missing, lambda _: assign, both, check))
        except ConditionFailed:
            raise NotFound(missing) from None

    def revoke(self, recipient: str, share: str) -> Grant:
        """Take a share away from a recipient: its next request is refused; raises NotFound."""
        grant = self.get(recipient, share)
        if not self._remove(grant):
            raise NotFound(_missing(recipient, share))
        return grant

    def of_recipient(self, recipient: str, excerpt: Excerpt = EVERY) -> Iterator[Grant]:
        """Yield the grants of a recipient, in the order of the shares' names; raises NotFound."""
        return self._in(keys.of_recipient("grant", self._records.recipient(recipient).id), excerpt)

    def of_share(self, share: str, excerpt: Excerpt = EVERY) -> Iterator[Grant]:
        """Yield the grants of a share, by the recipients' ids, which an excerpt goes by too; raises NotFound."""
        return self._in(keys.of_share("grant", self._records.share(share).name), excerpt)

    def list_all(self, *, expiring: bool = False) -> Iterator[Grant]:
        """Yield the grants of all recipients, or those that have an end, those of one together (`Dynamo.scan`)."""
        return map(Grant.read, self._records.everywhere(keys.ENDING_GRANTS if expiring else keys.GRANTS))

    def remove_all(self, stretch: keys.KeyRange) -> None:
        """Delete both sides of every grant of a stretch, for a share or a recipient to which no more can be made."""
        for grant in tuple(self._in(stretch)):
            self._remove(grant)

    def _check_folders(self, share: str, rows: str, *_: object) -> Writes:
        """Refuse a filter on a share of whose tables another entry's credentials would read all rows."""
        return check_folders(self._records, filtered=share) if rows else []

    def _in(self, stretch: keys.KeyRange, excerpt: Excerpt = EVERY) -> Iterator[Grant]:
        return map(Grant.read, self._records.all(stretch, excerpt))

    def _remove(self, grant: Grant) -> bool:
        same = {"share_id": grant.share_id}
        return self._records.attempt([
            self._records.delete(keys.recipient_entry("grant", grant.recipient_id, grant.share), same),
            self._records.delete(keys.share_entry("grant", grant.share, grant.recipient_id), same),
        ])  # fmt: skip


def _missing(recipient: str, share: str) -> str:
    return f"'{recipient}' does not hold '{share}': list the recipient's grants to see what it holds"
