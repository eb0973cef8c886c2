"""Send the provider events about expirations and new table versions; they contain names, but no table data."""

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
from deltaic.scheduled.expirations import list_expirations
from deltaic.storage.event_bus import BusEvent

EXPIRING: Final = "deltaic.recipient.expiring"
CHANGED: Final = "deltaic.table.changed"

LEAST_SECONDS: Final = 60.0
"""The function starts with another table only if its invocation has at least this much time left."""

PutEvents = Callable[[Sequence[BusEvent]], None]


def send_expiration_notices(admin: CatalogAdmin, put: PutEvents, days: int, now: datetime) -> int:
    """Send an event for each expiration today or in the next `days` days (UTC), and return the number of events.

    Stores nothing: each daily call reports an expiration again, until it is postponed or past. Calls on the same day
    send events with the same ids.
    """
    today = now.date()
    expirations = list_expirations(admin, now, datetime.combine(today + timedelta(days), time.max, UTC))
    events = []
    for ends_at, recipient, kind, target in expirations:
        end = f"{ends_at:%Y-%m-%dT%H:%M:%SZ}"
        fields = {"recipient": recipient, "kind": kind, "what": target, "endsAt": end}
        identity = f"{recipient}/{kind}/{target}/{end}/{today}"
        events.append(BusEvent(EXPIRING, {"id": identity, **fields, "daysLeft": (ends_at.date() - today).days}))
    put(events)
    return len(events)


def send_change_notices(
    versions: SharedLocations,
    log: Callable[[SharedLocation], TableStore],
    put: PutEvents,
    remaining: Callable[[], float],
    report: Callable[[SharedLocation, Exception], None],
) -> dict[str, int]:
    """Send an event for each shared table whose version differs from the version in the last event.

    For a new table, stores the version without an event. Returns the number of locations that are `changed`,
    `unchanged`, `failed`, or `left` at the time limit. A version is stored after its events are sent: if the function
    stops in between, the next run sends events with the same ids. `remaining` returns the seconds that are left.
    `report` gets the exception of a table; the others are still checked. Raises errors of the catalog's listings.
    """
    entries: dict[SharedLocation, list[Table]] = {}
    for location, table in versions.entries():
        entries.setdefault(location, []).append(table)
    locations = list(entries)
    random.shuffle(locations)
    stored_versions = versions.stored_versions(locations)
    counts = Counter(dict.fromkeys(("changed", "unchanged", "failed"), 0))
    for location in locations:
        if remaining() < LEAST_SECONDS:
            break
        try:
            segment, previous = find_segment(log(location)), stored_versions.get(location)
            changed = previous is not None and previous != segment.version
            if changed:
                put(_changed_events(entries[location], segment, previous))
            if previous != segment.version:
                versions.store_version(location, segment.version)
            counts["changed" if changed else "unchanged"] += 1
        except Exception as error:  # noqa: BLE001 -- the other tables can still be checked
            report(location, error)
            counts["failed"] += 1
    return {**counts, "left": len(locations) - counts.total()}


def _changed_events(tables: Sequence[Table], segment: Segment, previous: int | None) -> list[BusEvent]:
    # A table that was created again has the same version numbers, but other commit times.
    created_ms = segment.commit_file.modified if segment.commit_file else 0
    return [
        BusEvent(
            CHANGED,
            {
                "id": f"{table.share}/{table.schema_name}/{table.name}/{segment.version}/{created_ms}",
                "share": table.share,
                "schema": table.schema_name,
                "table": table.name,
                "version": segment.version,
                "previousVersion": previous,
            },
        )
        for table in tables
    ]
