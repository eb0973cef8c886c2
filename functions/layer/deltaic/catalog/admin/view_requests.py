"""Request refreshes of views that do not yet have rows for a recipient."""

from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from deltaic.catalog import keys
from deltaic.catalog.admin.records import Records
from deltaic.catalog.dynamo import Attributes
from deltaic.catalog.items import Table, View, now
from deltaic.catalog.keys import Key
from deltaic.errors import NotFound
from deltaic.partition_filters.audiences import audience

_TICK = timedelta(seconds=1)


class ViewRequests:
    """Request refreshes of views."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def request(self, share: str, schema: str, name: str) -> View:
        """Request a refresh of one view; raises NotFound."""
        missing = f"view '{share}.{schema}.{name}' not found"
        return View.read(self._records.change(keys.asset("view", share, schema, name), missing, refresh_request))

    def for_recipient(self, name: str, shares: Iterable[str]) -> None:
        """Request refreshes of views in granted shares without rows for the recipient; raises NotFound.

        Call it after the change. It reads the recipient again: if recipient and grant change at the same time, the
        later call sees both changes.
        """
        shares = list(shares)
        recipient = self._records.recipient(name)
        views: dict[Key, View] = {}
        for share in shares:
            items = self._records.all(keys.of_share("view", share))
            for view in (View.read(item) for item in items if "state" not in item):
                views[keys.asset("table", view.share, view.schema_name, view.name)] = view
        by_partition: dict[Key, View] = {}
        for key, item in self._records.find_many(views).items():
            audience_name = audience(Table.read(item).view_properties or (), recipient.properties)
            if audience_name is not None:
                by_partition[keys.view_partition(views[key].share, views[key].table_id, audience_name)] = views[key]
        existing = self._records.find_many(by_partition)
        for key, view in by_partition.items():
            if key not in existing:
                with suppress(NotFound):  # deleted at the same time
                    self.request(view.share, view.schema_name, view.name)


def refresh_request(item: Attributes) -> dict[str, Any]:
    """Return the change that requests a refresh, with a time after all earlier ones."""
    earlier = [item[name] for name in ("requested_at", "refreshed_at") if item.get(name)]
    return {"requested_at": max([now(), *(datetime.fromtimestamp(seconds, UTC) + _TICK for seconds in earlier)])}
