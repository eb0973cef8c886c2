"""Test notices: expirations of the next days, and each new version until its notice is sent."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from deltaic.catalog.admin.table_locations import SharedLocation, SharedLocations
from deltaic.errors import Unavailable
from deltaic.scheduled.notices import send_change_notices, send_expiration_notices
from pipeline.place import BUCKET, CATALOG

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from deltaic.catalog.items import Table
    from deltaic.storage.event_bus import BusEvent
    from maintenance.conftest import Tables


class Bus:
    """Event bus that stores events, or fails if `broken`."""

    def __init__(self) -> None:
        self.details: list[dict[str, Any]] = []
        self.broken = False

    def put(self, events: Sequence[BusEvent]) -> None:
        if self.broken:
            raise Unavailable("EventBridge did not accept a notice")
        self.details += [dict(event.detail) for event in events]

    def take_details(self) -> list[dict[str, Any]]:
        details, self.details = self.details, []
        return details


@pytest.fixture
def bus() -> Bus:
    return Bus()


class LocationsOfTest(SharedLocations):
    """The locations of one test, in the catalog that all tests share."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(CATALOG, tables.dynamo)
        self._folder = tables.location("")

    def entries(self) -> Iterator[tuple[SharedLocation, Table]]:
        return (
            (location, entry) for location, entry in super().entries() if location.location.startswith(self._folder)
        )


def send_notices(tables: Tables, bus: Bus, remaining: float = 900.0) -> dict[str, int]:
    versions = LocationsOfTest(tables)
    return send_change_notices(
        versions, lambda location: tables.log(location)[0], bus.put, lambda: remaining, lambda *_: None
    )


def counts(changed: int = 0, unchanged: int = 0, failed: int = 0, left: int = 0) -> dict[str, int]:
    return {"changed": changed, "unchanged": unchanged, "failed": failed, "left": left}


def test_new_version_is_reported_once_for_every_entry_of_its_location(tables: Tables, bus: Bus) -> None:
    tables.write("one", 1)
    tables.share("one")
    tables.admin.tables.create(tables.folder, "default", "alias", tables.location("one"))
    assert (send_notices(tables, bus), bus.take_details()) == (counts(unchanged=1), [])
    tables.write("one", 2)
    assert send_notices(tables, bus) == counts(changed=1)
    events = bus.take_details()
    assert sorted(event["table"] for event in events) == ["alias", "one"]
    assert {(event["previousVersion"], event["version"]) for event in events} == {(0, 2)}
    assert len({event["id"] for event in events}) == 2
    assert (send_notices(tables, bus), bus.take_details()) == (counts(unchanged=1), [])


def test_notice_that_failed_is_sent_by_the_next_run(tables: Tables, bus: Bus) -> None:
    tables.write("one", 1)
    tables.share("one")
    send_notices(tables, bus)
    tables.write("one", 1)
    bus.broken = True
    assert send_notices(tables, bus) == counts(failed=1)
    bus.broken = False
    assert send_notices(tables, bus) == counts(changed=1)
    assert [event["version"] for event in bus.take_details()] == [1]


def test_notice_that_was_not_stored_is_sent_again_with_the_same_id(tables: Tables, bus: Bus) -> None:
    tables.write("one", 1)
    tables.share("one")
    send_notices(tables, bus)
    tables.write("one", 1)

    def dying(events: Sequence[BusEvent]) -> None:
        bus.put(events)
        raise Unavailable("the invocation ends here")

    versions = LocationsOfTest(tables)
    send_change_notices(versions, lambda location: tables.log(location)[0], dying, lambda: 900.0, lambda *_: None)
    send_notices(tables, bus)
    first, second = bus.take_details()
    assert first == second


def test_recreated_table_is_reported_with_other_ids(tables: Tables, bus: Bus) -> None:
    tables.write("one", 1)
    tables.share("one")
    send_notices(tables, bus)
    tables.write("one", 1)
    send_notices(tables, bus)
    [first] = bus.take_details()
    for name in tables.objects("one"):
        tables.s3.delete_object(Bucket=BUCKET, Key=f"{tables.folder}/one/_delta_log/{name}")
    shutil.rmtree(tables.disk / "one")
    tables.write("one", 1)
    send_notices(tables, bus)
    assert [(event["previousVersion"], event["version"]) for event in bus.take_details()] == [(1, 0)]
    tables.write("one", 1)
    send_notices(tables, bus)
    [second] = bus.take_details()
    assert second["version"] == first["version"]
    assert second["id"] != first["id"]


def test_tables_are_left_without_time_and_a_failure_affects_no_other_table(tables: Tables, bus: Bus) -> None:
    tables.write("one", 1)
    for name in ("one", "empty"):
        tables.share(name)
    assert send_notices(tables, bus, remaining=59.0) == counts(left=2)
    assert send_notices(tables, bus) == counts(unchanged=1, failed=1)


def test_expiration_is_reported_on_each_of_the_last_days(tables: Tables, bus: Bus) -> None:
    now = datetime.now(UTC).replace(hour=6, minute=0)
    recipient = tables.admin.recipients.create(f"r-{tables.folder}")
    midnight = (now + timedelta(days=3)).replace(hour=0, minute=0, second=0, microsecond=0)
    tables.admin.recipients.update(recipient.name, ends_at=midnight)
    days = []
    for day in range(5):
        # The schedule is not exact: a day's call can be early, and can be repeated.
        for time in (now + timedelta(days=day, seconds=-day), now + timedelta(days=day, minutes=1)):
            send_expiration_notices(tables.admin, bus.put, 2, time)
            days.append([event for event in bus.take_details() if event["recipient"] == recipient.name])
    assert [[event["daysLeft"] for event in events] for events in days] == [[], [], [2], [2], [1], [1], [], [], [], []]
    assert days[2] == days[3]
    assert days[2][0]["id"] != days[4][0]["id"]
    assert (days[2][0]["kind"], days[2][0]["endsAt"]) == ("recipient", f"{midnight:%Y-%m-%dT%H:%M:%SZ}")
    tables.admin.recipients.delete(recipient.name)
