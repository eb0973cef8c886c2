"""List the locations of shared tables, and store what scheduled functions know about each location."""

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
    """Location of a shared table, `s3://bucket/folder`, and the name of its storage (empty: AWS S3)."""

    location: str
    storage: str


class SharedLocations:
    """Locations of shared tables, each with its last checkpoint check and its last reported version."""

    def __init__(self, table: str, dynamo: Dynamo | None = None, clock: Callable[[], float] = time.time) -> None:
        self._table = table
        self._dynamo = dynamo or Dynamo()
        self._clock = clock

    def entries(self) -> Iterator[tuple[SharedLocation, Table]]:
        """Yield each Delta table that recipients can see, with its location; skips shares that are being deleted."""
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
        """Return the locations of the tables for which the stack writes checkpoints, without duplicates.

        Sorted by the time of the last check; locations that were never checked come first.
        """
        state_keys = {shared: _key("checkpoint", shared) for shared, table in self.entries() if table.checkpoint}
        states = self._dynamo.batch_get(self._table, list(state_keys.values()))
        return sorted(state_keys, key=lambda shared: states.get(state_keys[shared], {}).get("looked", 0))

    def record_check(self, shared: SharedLocation) -> None:
        """Store that the checkpoint of a location is checked now, so that other locations come first next time."""
        self._store("checkpoint", shared, {"looked": int(self._clock() * 1000)})

    def stored_versions(self, locations: Sequence[SharedLocation]) -> dict[SharedLocation, int]:
        """Return the last reported version of each location; omits locations without one."""
        by_key = {_key("version", shared): shared for shared in locations}
        return {by_key[key]: item["version"] for key, item in self._dynamo.batch_get(self._table, list(by_key)).items()}

    def store_version(self, shared: SharedLocation, version: int) -> None:
        """Store the last version of the table at a location that notices (events for the provider) have reported."""
        self._store("version", shared, {"version": version})

    def _store(self, kind: str, shared: SharedLocation, state: Mapping[str, int]) -> None:
        assign = {"location": shared.location, **state}
        self._dynamo.transact([update(self._table, _key(kind, shared), assign=assign, create=True)])


def _key(kind: str, shared: SharedLocation) -> keys.Key:
    return keys.location_state(kind, shared.location, shared.storage)
