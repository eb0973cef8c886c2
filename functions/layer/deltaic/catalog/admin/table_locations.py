"""The locations of shared tables, and what scheduled functions store about each location."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from deltaic.catalog import keys
from deltaic.catalog.admin.records import DELETING
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.items import Share, Storage, Table
from deltaic.catalog.writes import update
from deltaic.errors import NotFound
from deltaic.storage.locations import Location


class SharedLocation(msgspec.Struct, frozen=True):
    """A location as `s3://bucket/folder`, and the name of its storage (empty: AWS S3)."""

    location: str
    storage: str


class SharedLocations:
    """The locations of shared tables, when each was last checked for a checkpoint, and its stored version."""

    def __init__(self, table: str, dynamo: Dynamo | None = None, clock: Callable[[], float] = time.time) -> None:
        self._table = table
        self._dynamo = dynamo or Dynamo()
        self._clock = clock

    def entries(self) -> Iterator[tuple[SharedLocation, Table]]:
        """Yield each listed Delta table of shares that are not being deleted; tables can have the same location."""
        for share in self._dynamo.query(self._table, keys.all_of("share")):
            if share.get("state") == DELETING:
                continue
            for item in self._dynamo.query(self._table, keys.in_share("table", Share.read(share).name)):
                table = Table.read(item)
                if table.format != "delta" or table.unlisted:
                    continue
                yield SharedLocation(Location.parse(table.location).uri, table.storage), table

    def storage(self, name: str) -> Storage:
        """Return a storage; raises NotFound."""
        item = self._dynamo.get(self._table, keys.catalog_entry("storage", name))
        if item is None:
            raise NotFound(f"storage '{name}' not found")
        return Storage.read(item)

    def due_for_checkpoint(self) -> list[SharedLocation]:
        """Return the locations whose checkpoints the stack writes, without duplicates.

        Locations that were never checked come first, then those unchecked for longest.
        """
        wanted = {
            place: keys.location_state("checkpoint", place.location, place.storage)
            for place, table in self.entries()
            if table.checkpoint
        }
        looked = self._dynamo.batch_get(self._table, list(wanted.values()))
        return sorted(wanted, key=lambda place: looked.get(wanted[place], {}).get("looked", 0))

    def record_check(self, place: SharedLocation) -> None:
        """Record that a location was checked now, so that the others come first next time."""
        self._keep("checkpoint", place, {"looked": int(self._clock() * 1000)})

    def stored_versions(self, places: Sequence[SharedLocation]) -> dict[SharedLocation, int]:
        """Return the stored versions; a location without one is not in the result."""
        wanted = {keys.location_state("version", place.location, place.storage): place for place in places}
        return {wanted[key]: item["version"] for key, item in self._dynamo.batch_get(self._table, list(wanted)).items()}

    def store_version(self, place: SharedLocation, version: int) -> None:
        """Store the newest version that was reported."""
        self._keep("version", place, {"version": version})

    def _keep(self, kind: str, place: SharedLocation, facts: Mapping[str, int]) -> None:
        key, assign = keys.location_state(kind, place.location, place.storage), {"location": place.location, **facts}
        self._dynamo.transact([update(self._table, key, assign=assign, create=True)])
