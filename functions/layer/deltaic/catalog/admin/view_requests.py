"""Request refreshes of views, for example if a view does not have rows for a recipient yet."""

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
    """Store requests for refreshes of views in the catalog."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def request(self, share: str, schema: str, name: str) -> View:
        """Request a refresh of one view; raises NotFound."""
        missing = f"view '{share}.{schema}.{name}' not found"
        return View.read(self._records.change(keys.asset("view", share, schema, name), missing, refresh_request))

    def for_recipient(self, name: str, shares: Iterable[str]) -> None:
        """Request a refresh of each view in the given shares that has no rows for the recipient; raises NotFound.

        Call it after a change of the recipient or of a grant. It reads the recipient again, so that if both change at
        the same time, the later call sees both changes.
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
    """Return the attribute that requests a view's refresh: a time after all earlier requests and refreshes."""
    earlier = [item[name] for name in ("requested_at", "refreshed_at") if item.get(name)]
    return {"requested_at": max([now(), *(datetime.fromtimestamp(seconds, UTC) + _TICK for seconds in earlier)])}
