"""Which notices are put: what ends on the days to come, and each new version until its notice is on the bus."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from deltaic.catalog.admin.table_locations import SharedLocation, SharedLocations
from deltaic.errors import Unavailable
from deltaic.scheduled.notices import tell_endings, tell_versions
from pipeline.place import BUCKET, CATALOG

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from deltaic.catalog.items import Table
    from deltaic.storage.event_bus import BusEvent
    from maintenance.conftest import Tables


class Bus:
    """Keeps what is put on it, or breaks."""

    def __init__(self) -> None:
        self.details: list[dict[str, Any]] = []
        self.broken = False

    def put(self, events: Sequence[BusEvent]) -> None:
        if self.broken:
            raise Unavailable("EventBridge took no notice")
        self.details += [dict(event.detail) for event in events]

    def taken(self) -> list[dict[str, Any]]:
        taken, self.details = self.details, []
        return taken


@pytest.fixture
def bus() -> Bus:
    return Bus()


class OfOneTest(SharedLocations):
    """The tables of one test among those of the catalog, which tests share."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(CATALOG, tables.dynamo)
        self._folder = tables.location("")

    def entries(self) -> Iterator[tuple[SharedLocation, Table]]:
        return ((place, table) for place, table in super().entries() if place.location.startswith(self._folder))


def look(tables: Tables, bus: Bus, remaining: float = 900.0) -> dict[str, int]:
    versions = OfOneTest(tables)
    return tell_versions(versions, lambda place: tables.log(place)[0], bus.put, lambda: remaining, lambda *_: None)


def counts(changed: int = 0, unchanged: int = 0, failed: int = 0, left: int = 0) -> dict[str, int]:
    return {"changed": changed, "unchanged": unchanged, "failed": failed, "left": left}


def test_a_new_version_is_told_for_every_name_of_its_place_and_then_no_more(tables: Tables, bus: Bus) -> None:
    tables.write("one", 1)
    tables.share("one")
    tables.admin.tables.create(tables.folder, "default", "alias", tables.location("one"))
    assert (look(tables, bus), bus.taken()) == (counts(unchanged=1), [])
    tables.write("one", 2)
    assert look(tables, bus) == counts(changed=1)
    told = bus.taken()
    assert sorted(one["table"] for one in told) == ["alias", "one"]
    assert {(one["previousVersion"], one["version"]) for one in told} == {(0, 2)}
    assert len({one["id"] for one in told}) == 2
    assert (look(tables, bus), bus.taken()) == (counts(unchanged=1), [])


def test_what_the_bus_did_not_take_is_told_by_the_next_round(tables: Tables, bus: Bus) -> None:
    tables.write("one", 1)
    tables.share("one")
    look(tables, bus)
    tables.write("one", 1)
    bus.broken = True
    assert look(tables, bus) == counts(failed=1)
    bus.broken = False
    assert look(tables, bus) == counts(changed=1)
    assert [one["version"] for one in bus.taken()] == [1]


def test_who_dies_before_remembering_tells_it_again_by_the_same_id(tables: Tables, bus: Bus) -> None:
    tables.write("one", 1)
    tables.share("one")
    look(tables, bus)
    tables.write("one", 1)

    def dying(events: Sequence[BusEvent]) -> None:
        bus.put(events)
        raise Unavailable("the invocation ends here")

    versions = OfOneTest(tables)
    tell_versions(versions, lambda place: tables.log(place)[0], dying, lambda: 900.0, lambda *_: None)
    look(tables, bus)
    first, second = bus.taken()
    assert first == second


def test_a_table_made_anew_is_told_and_its_versions_have_other_ids(tables: Tables, bus: Bus) -> None:
    tables.write("one", 1)
    tables.share("one")
    look(tables, bus)
    tables.write("one", 1)
    look(tables, bus)
    [before] = bus.taken()
    for name in tables.objects("one"):
        tables.s3.delete_object(Bucket=BUCKET, Key=f"{tables.folder}/one/_delta_log/{name}")
    shutil.rmtree(tables.disk / "one")
    tables.write("one", 1)
    look(tables, bus)
    assert [(one["previousVersion"], one["version"]) for one in bus.taken()] == [(1, 0)]
    tables.write("one", 1)
    look(tables, bus)
    [after] = bus.taken()
    assert after["version"] == before["version"]
    assert after["id"] != before["id"]


def test_without_time_tables_are_left_and_one_that_fails_takes_none_with_it(tables: Tables, bus: Bus) -> None:
    tables.write("one", 1)
    for name in ("one", "empty"):
        tables.share(name)
    assert look(tables, bus, remaining=59.0) == counts(left=2)
    assert look(tables, bus) == counts(unchanged=1, failed=1)


def test_what_ends_is_told_once_on_each_of_the_last_days(tables: Tables, bus: Bus) -> None:
    now = datetime.now(UTC).replace(hour=6, minute=0)
    someone = tables.admin.recipients.create(f"r-{tables.folder}")
    midnight = (now + timedelta(days=3)).replace(hour=0, minute=0, second=0, microsecond=0)
    tables.admin.recipients.update(someone.name, ends_at=midnight)
    days = []
    for late in range(5):
        # The schedule is not exact: a day's call may come before its hour, and be repeated.
        for moment in (now + timedelta(days=late, seconds=-late), now + timedelta(days=late, minutes=1)):
            tell_endings(tables.admin, bus.put, 2, moment)
            days.append([one for one in bus.taken() if one["recipient"] == someone.name])
    assert [[one["daysLeft"] for one in some] for some in days] == [[], [], [2], [2], [1], [1], [], [], [], []]
    assert days[2] == days[3]
    assert days[2][0]["id"] != days[4][0]["id"]
    assert (days[2][0]["kind"], days[2][0]["endsAt"]) == ("recipient", f"{midnight:%Y-%m-%dT%H:%M:%SZ}")
    tables.admin.recipients.delete(someone.name)
