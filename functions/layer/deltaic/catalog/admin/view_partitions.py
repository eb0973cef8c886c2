"""Store which audiences (recipients with equal properties) have a partition in a view, and since which version."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

from deltaic.catalog import keys
from deltaic.catalog.admin.records import DELETING, Records
from deltaic.catalog.items import Table, View, ViewPartition
from deltaic.catalog.writes import ABSENT, Writes
from deltaic.errors import Conflict

_Element = TypeVar("_Element")

BATCH_SIZE: Final = 90
"""Partitions per transaction. DynamoDB accepts 100 writes, and each transaction also needs a few others."""


class ViewPartitions:
    """List, add and remove the partitions of views.

    A partition is added after its rows are committed and removed before they are deleted, so its rows always exist.
    """

    def __init__(self, records: Records) -> None:
        self._records = records

    def list(self, share: str, table_id: str) -> list[ViewPartition]:
        """Return all partitions of a view."""
        return [ViewPartition.read(item) for item in self._records.all(keys.view_partitions(share, table_id))]

    def put(self, view: View, partitions: Sequence[ViewPartition]) -> None:
        """Add partitions whose rows were committed to the view's table.

        Raises Conflict if the view was deleted, or if its SQL has changed since the rows were computed from `view`.
        """
        same = {"table_id": view.table_id, "sql": view.sql, "state": ABSENT}
        view_key = keys.asset("view", view.share, view.schema_name, view.name)
        for batch in _batches(partitions):
            partition_keys = [keys.view_partition(view.share, each.table_id, each.audience) for each in batch]
            writes = [
                # A change of the SQL removes the partitions, so it must not run at the same time.
                self._records.update(view_key, add={"revision": 1}, expect=same),
                *(
                    self._records.put_new(key, partition.attributes())
                    for key, partition in zip(partition_keys, batch, strict=True)
                ),
            ]
            if not self._records.attempt(writes):
                raise Conflict(f"'{view.title}' was changed while it was refreshed: refresh it again")

    def remove(self, share: str, table_id: str, audiences: Iterable[str]) -> None:
        """Remove a view's partitions for the given audiences (names for recipients with equal properties)."""
        for batch in _batches(list(audiences)):
            self._records.transact(self.removals(share, table_id, batch))

    def removals(self, share: str, table_id: str, audiences: Iterable[str]) -> Writes:
        """Return the writes that remove a view's partitions for audiences (recipients with equal properties)."""
        return [
            self._records.delete(keys.view_partition(share, table_id, audience), present=False)
            for audience in audiences
        ]

    def remove_all(self, table: Table) -> None:
        """Mark a view as being deleted, so that no partitions can be added, and remove its partitions."""
        key = keys.asset("view", table.share, table.schema_name, table.name)
        same = {"table_id": table.id}  # fails if the view was deleted, or a new view has its name
        self._records.attempt([self._records.update(key, assign={"state": DELETING}, expect=same)])
        self.remove(table.share, table.id, [each.audience for each in self.list(table.share, table.id)])


def _batches(elements: Sequence[_Element]) -> Iterator[Sequence[_Element]]:
    for start in range(0, len(elements), BATCH_SIZE):
        yield elements[start : start + BATCH_SIZE]
