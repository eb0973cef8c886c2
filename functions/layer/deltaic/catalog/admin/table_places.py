"""The locations of shared tables, and what scheduled functions store about each location."""

import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

from deltaic.catalog import keys
from deltaic.catalog.admin.records import DELETING
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.items import Share, Storage, Table
from deltaic.catalog.writes import update
from deltaic.errors import NotFound
from deltaic.storage.locations import Location


class TablePlace(msgspec.Struct, frozen=True):
    """A location as `s3://bucket/folder`, and the name of its storage (empty: AWS S3)."""

    location: str
    storage: str


class TablePlaces:
    """The locations of the tables in a catalog."""

    def __init__(self, table: str, dynamo: Dynamo | None = None) -> None:
        self._table = table
        self._dynamo = dynamo or Dynamo()

    def entries(self) -> Iterator[tuple[TablePlace, Table]]:
        """Yield each listed Delta table of shares that are not being deleted; tables can have the same location."""
        for share in self._dynamo.query(self._table, keys.all_of("share")):
            if share.get("state") == DELETING:
                continue
            for item in self._dynamo.query(self._table, keys.in_share("table", Share.read(share).name)):
                table = Table.read(item)
                if table.format != "delta" or table.unlisted:
                    continue
                yield TablePlace(Location.parse(table.location).uri, table.storage), table

    def storage(self, name: str) -> Storage:
        """Return a storage; raises NotFound."""
        item = self._dynamo.get(self._table, keys.storage(name))
        if item is None:
            raise NotFound(f"storage '{name}' not found")
        return Storage.read(item)


class Checkpointing(TablePlaces):
    """The tables whose checkpoints the stack's function writes."""

    def __init__(self, table: str, dynamo: Dynamo | None = None, clock: Callable[[], float] = time.time) -> None:
        super().__init__(table, dynamo)
        self._clock = clock

    def places(self) -> list[TablePlace]:
        """Return their locations without duplicates: those never checked first, then the longest unchecked."""
        wanted = {
            place: keys.place("checkpoint", place.location, place.storage)
            for place, table in self.entries()
            if table.checkpoint
        }
        looked = self._dynamo.batch_get(self._table, list(wanted.values()))
        return sorted(wanted, key=lambda place: looked.get(wanted[place], {}).get("looked", 0))

    def looked_at(self, place: TablePlace) -> None:
        """Record that a location was checked now, so that the others come first next time."""
        key = keys.place("checkpoint", place.location, place.storage)
        assign = {"location": place.location, "looked": int(self._clock() * 1000)}
        self._dynamo.transact([update(self._table, key, assign=assign, create=True)])


class KnownVersions(TablePlaces):
    """The newest version of each table that was already reported."""

    def known(self, places: Sequence[TablePlace]) -> dict[TablePlace, int]:
        """Return the stored versions; a location without one is not in the result."""
        wanted = {keys.place("version", place.location, place.storage): place for place in places}
        return {wanted[key]: item["version"] for key, item in self._dynamo.batch_get(self._table, list(wanted)).items()}

    def remember(self, place: TablePlace, version: int) -> None:
        """Store a version."""
        key = keys.place("version", place.location, place.storage)
        assign = {"location": place.location, "version": version}
        self._dynamo.transact([update(self._table, key, assign=assign, create=True)])
