"""Decides which tables are looked at for a checkpoint, and in which order: the longest waiting first."""

import time
from collections.abc import Callable, Iterator

import msgspec

from deltaic.catalog import keys
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.items import Share, Storage, Table
from deltaic.catalog.records import DELETING
from deltaic.catalog.writes import update
from deltaic.errors import NotFound
from deltaic.storage.locations import Location


class CheckpointedTable(msgspec.Struct, frozen=True):
    """Where a table lies that takes part: as `s3://bucket/folder`, and the name of its storage."""

    location: str
    storage: str


class Checkpointing:
    """The tables of a catalog whose entries say that the stack's function writes their checkpoints."""

    def __init__(self, table: str, dynamo: Dynamo | None = None, clock: Callable[[], float] = time.time) -> None:
        self._table = table
        self._dynamo = dynamo or Dynamo()
        self._clock = clock

    def places(self) -> list[CheckpointedTable]:
        """Return where tables lie that take part, once each, those first that were looked at longest ago, or never."""
        wanted = {place: keys.checkpointing(place.location, place.storage) for place in self._wanted()}
        looked = self._dynamo.batch_get(self._table, list(wanted.values()))
        return sorted(wanted, key=lambda place: looked.get(wanted[place], {}).get("looked", 0))

    def looked_at(self, place: CheckpointedTable) -> None:
        """Record that a place was looked at now, whatever came of it: the others are next."""
        key = keys.checkpointing(place.location, place.storage)
        assign = {"location": place.location, "looked": int(self._clock() * 1000)}
        self._dynamo.transact([update(self._table, key, assign=assign, create=True)])

    def storage(self, name: str) -> Storage:
        """Return a storage; raises NotFound."""
        item = self._dynamo.get(self._table, keys.storage(name))
        if item is None:
            raise NotFound(f"storage '{name}' not found")
        return Storage.read(item)

    def _wanted(self) -> Iterator[CheckpointedTable]:
        for share in self._dynamo.query(self._table, keys.shares()):
            if share.get("state") == DELETING:
                continue
            for item in self._dynamo.query(self._table, keys.all_tables(Share.read(share).name)):
                table = Table.read(item)
                if table.checkpoint:
                    yield CheckpointedTable(Location.parse(table.location).uri, table.storage)
