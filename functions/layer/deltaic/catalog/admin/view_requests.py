"""Requests for refreshes: a recipient whose rows a view does not have yet asks for them by coming to hold the share."""

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
    """Says of views that a refresh is wanted."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def request(self, share: str, schema: str, name: str) -> View:
        """Say of one view that a refresh is wanted from now on; raises NotFound."""
        missing = f"view '{share}.{schema}.{name}' not found"
        return View.read(self._records.change(keys.asset("view", share, schema, name), missing, refresh_request))

    def for_recipient(self, name: str, shares: Iterable[str]) -> None:
        """Ask for the rows that a recipient lacks of the views of these shares, which it holds.

        It is read anew here, after what was changed: of two who change recipient and grant at once, the later one sees
        both. Raises NotFound.
        """
        shares = list(shares)
        recipient = self._records.recipient(name)
        views: dict[Key, View] = {}
        for share in shares:
            found = [View.read(item) for item in self._records.all(keys.of_share("view", share)) if "state" not in item]
            views |= {keys.asset("table", each.share, each.schema_name, each.name): each for each in found}
        wanted: dict[Key, View] = {}
        for place, item in self._records.several(views).items():
            named = audience(Table.read(item).view_properties or (), recipient.properties)
            if named is not None:
                wanted[keys.view_partition(views[place].share, views[place].table_id, named)] = views[place]
        there = self._records.several(wanted)
        for place, view in wanted.items():
            if place not in there:
                with suppress(NotFound):  # deleted at the same moment
                    self.request(view.share, view.schema_name, view.name)


def refresh_request(item: Attributes) -> dict[str, Any]:
    """Return the change that requests a refresh: by a moment of its own, so that no refresh takes it for another."""
    known = [item[name] for name in ("requested_at", "refreshed_at") if item.get(name)]
    return {"requested_at": max([now(), *(datetime.fromtimestamp(one, UTC) + _TICK for one in known)])}
