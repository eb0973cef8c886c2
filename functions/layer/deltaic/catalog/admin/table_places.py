"""Where the shared tables of a catalog lie, and what scheduled functions remember of each place."""

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


class TablePlace(msgspec.Struct, frozen=True):
    """Where a table lies: as `s3://bucket/folder`, and the name of its storage."""

    location: str
    storage: str


class TablePlaces:
    """The tables of a catalog, and what is kept of where they lie: when it was looked at, and its known version."""

    def __init__(self, table: str, dynamo: Dynamo | None = None, clock: Callable[[], float] = time.time) -> None:
        self._table = table
        self._dynamo = dynamo or Dynamo()
        self._clock = clock

    def entries(self) -> Iterator[tuple[TablePlace, Table]]:
        """Yield every Delta table that is listed, of every share that is not going; several may lie in one place."""
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
        item = self._dynamo.get(self._table, keys.named("storage", name))
        if item is None:
            raise NotFound(f"storage '{name}' not found")
        return Storage.read(item)

    def to_checkpoint(self) -> list[TablePlace]:
        """Return where tables lie whose checkpoints the stack's function writes, each once.

        Those come first that were looked at longest ago, or never.
        """
        wanted = {
            place: keys.place("checkpoint", place.location, place.storage)
            for place, table in self.entries()
            if table.checkpoint
        }
        looked = self._dynamo.batch_get(self._table, list(wanted.values()))
        return sorted(wanted, key=lambda place: looked.get(wanted[place], {}).get("looked", 0))

    def looked_at(self, place: TablePlace) -> None:
        """Record that a place was looked at now, whatever came of it: the others are next."""
        self._keep("checkpoint", place, {"looked": int(self._clock() * 1000)})

    def known(self, places: Sequence[TablePlace]) -> dict[TablePlace, int]:
        """Return the known versions; a place that nobody looked at before has none."""
        wanted = {keys.place("version", place.location, place.storage): place for place in places}
        return {wanted[key]: item["version"] for key, item in self._dynamo.batch_get(self._table, list(wanted)).items()}

    def remember(self, place: TablePlace, version: int) -> None:
        """Record that a version is known."""
        self._keep("version", place, {"version": version})

    def _keep(self, kind: str, place: TablePlace, facts: Mapping[str, int]) -> None:
        key, assign = keys.place(kind, place.location, place.storage), {"location": place.location, **facts}
        self._dynamo.transact([update(self._table, key, assign=assign, create=True)])
