"""Decides which tables are looked at for a checkpoint, and in which order: the longest waiting first."""

import time
from collections.abc import Callable

from deltaic.catalog import keys
from deltaic.catalog.admin.table_places import TablePlace, TablePlaces
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.writes import update


class Checkpointing(TablePlaces):
    """The tables of a catalog whose entries say that the stack's function writes their checkpoints."""

    def __init__(self, table: str, dynamo: Dynamo | None = None, clock: Callable[[], float] = time.time) -> None:
        super().__init__(table, dynamo)
        self._clock = clock

    def places(self) -> list[TablePlace]:
        """Return where tables lie that take part, once each, those first that were looked at longest ago, or never."""
        wanted = {
            place: keys.place("checkpoint", place.location, place.storage)
            for place, table in self.entries()
            if table.checkpoint
        }
        looked = self._dynamo.batch_get(self._table, list(wanted.values()))
        return sorted(wanted, key=lambda place: looked.get(wanted[place], {}).get("looked", 0))

    def looked_at(self, place: TablePlace) -> None:
        """Record that a place was looked at now, whatever came of it: the others are next."""
        key = keys.place("checkpoint", place.location, place.storage)
        assign = {"location": place.location, "looked": int(self._clock() * 1000)}
        self._dynamo.transact([update(self._table, key, assign=assign, create=True)])
