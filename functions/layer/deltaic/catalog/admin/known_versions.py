"""Which version of each shared table was told last, so that a new one can be told."""

from collections.abc import Sequence

from deltaic.catalog import keys
from deltaic.catalog.admin.table_places import TablePlace, TablePlaces
from deltaic.catalog.writes import update


class KnownVersions(TablePlaces):
    """The shared tables of a catalog, and for each place the version that is known."""

    def known(self, places: Sequence[TablePlace]) -> dict[TablePlace, int]:
        """Return the known versions; a place that nobody looked at before has none."""
        wanted = {keys.place("version", place.location, place.storage): place for place in places}
        return {wanted[key]: item["version"] for key, item in self._dynamo.batch_get(self._table, list(wanted)).items()}

    def remember(self, place: TablePlace, version: int) -> None:
        """Record that a version is known."""
        key = keys.place("version", place.location, place.storage)
        assign = {"location": place.location, "version": version}
        self._dynamo.transact([update(self._table, key, assign=assign, create=True)])
