"""Notices for the provider, as events: what ends soon, and tables with a new version. They hold names and no data."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Final

from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.admin.table_locations import SharedLocation, SharedLocations
from deltaic.catalog.items import Table
from deltaic.delta.segment import Segment, find_segment
from deltaic.delta.store import TableStore
from deltaic.scheduled.expirations import endings
from deltaic.storage.event_bus import BusEvent

EXPIRING: Final = "deltaic.recipient.expiring"
CHANGED: Final = "deltaic.table.changed"

LEAST_SECONDS: Final = 60.0
"""No table is begun with less of the invocation's time left."""

Put = Callable[[Sequence[BusEvent]], None]


def tell_endings(admin: CatalogAdmin, put: Put, days: int, now: datetime) -> int:
    """Put an event for each that ends today or on one of the next `days` days (UTC); return how many.

    Nothing is remembered: called once a day it tells each once a day, until it was prolonged or has ended. A second
    call of the same day makes events with the ids of the first one's.
    """
    today = now.date()
    found = endings(admin, now, datetime.combine(today + timedelta(days), time.max, UTC))
    events = []
    for ends_at, recipient, kind, what in found:
        end = f"{ends_at:%Y-%m-%dT%H:%M:%SZ}"
        told = {"recipient": recipient, "kind": kind, "what": what, "endsAt": end}
        identity = f"{recipient}/{kind}/{what}/{end}/{today}"
        events.append(BusEvent(EXPIRING, {"id": identity, **told, "daysLeft": (ends_at.date() - today).days}))
    put(events)
    return len(events)


def tell_versions(
    versions: SharedLocations,
    log: Callable[[SharedLocation], TableStore],
    put: Put,
    remaining: Callable[[], float],
    report: Callable[[SharedLocation, Exception], None],
) -> dict[str, int]:
    """Put an event for each shared table whose version is another than was told last; the first one seen is not told.

    Return how many places have `changed`, are `unchanged`, `failed` or were `left` for want of time.
    A version is remembered when its events are on the bus: whoever dies in between tells it again, by the same ids.
    `remaining` says how many seconds there are, `report` is called with what one table's look failed with: the others
    are looked at all the same, in no order, so that none is left for ever. Raises what the catalog raises when it
    cannot say which tables are shared.
    """
    entries: dict[SharedLocation, list[Table]] = {}
    for place, table in versions.entries():
        entries.setdefault(place, []).append(table)
    places = list(entries)
    random.shuffle(places)
    known = versions.stored_versions(places)
    came = Counter(dict.fromkeys(("changed", "unchanged", "failed"), 0))
    for place in places:
        if remaining() < LEAST_SECONDS:
            break
        try:
            segment, before = find_segment(log(place)), known.get(place)
            changed = before is not None and before != segment.version
            if changed:
                put(_changes(entries[place], segment, before))
            if before != segment.version:
                versions.store_version(place, segment.version)
            came["changed" if changed else "unchanged"] += 1
        except Exception as error:  # noqa: BLE001 -- the other tables are not to blame
            report(place, error)
            came["failed"] += 1
    return {**came, "left": len(places) - came.total()}


def _changes(tables: Sequence[Table], segment: Segment, before: int | None) -> list[BusEvent]:
    # A table that was made anew comes to the same numbers, by commits of another time.
    made = segment.own.modified if segment.own else 0
    return [
        BusEvent(
            CHANGED,
            {
                "id": f"{table.share}/{table.schema_name}/{table.name}/{segment.version}/{made}",
                "share": table.share,
                "schema": table.schema_name,
                "table": table.name,
                "version": segment.version,
                "previousVersion": before,
            },
        )
        for table in tables
    ]
