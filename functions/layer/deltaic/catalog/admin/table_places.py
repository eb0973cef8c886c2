"""Where the shared tables of a catalog lie, for functions that look at all of them."""

from collections.abc import Iterator

import msgspec

from deltaic.catalog import keys
from deltaic.catalog.admin.records import DELETING
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.items import Share, Storage, Table
from deltaic.errors import NotFound
from deltaic.storage.locations import Location


class TablePlace(msgspec.Struct, frozen=True):
    """Where a table lies: as `s3://bucket/folder`, and the name of its storage."""

    location: str
    storage: str


class TablePlaces:
    """The tables of a catalog, and what is kept of where they lie."""

    def __init__(self, table: str, dynamo: Dynamo | None = None) -> None:
        self._table = table
        self._dynamo = dynamo or Dynamo()

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
        item = self._dynamo.get(self._table, keys.storage(name))
        if item is None:
            raise NotFound(f"storage '{name}' not found")
        return Storage.read(item)
