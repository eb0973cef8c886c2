"""The partitions of views: the audiences that a view has the rows of, and since which of its versions."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

from deltaic.catalog import keys
from deltaic.catalog.admin.records import DELETING, Records
from deltaic.catalog.aws_errors import ConditionFailed
from deltaic.catalog.items import Table, View, ViewPartition
from deltaic.catalog.writes import ABSENT, Writes
from deltaic.errors import Conflict

_Each = TypeVar("_Each")

AT_ONCE: Final = 90
"""Partitions of one transaction: DynamoDB takes 100 writes, and others are beside them."""


class ViewPartitions:
    """Lists, puts and removes partitions.

    A partition is put after the commit that holds its rows and removed before they go, so whoever finds it finds rows.
    """

    def __init__(self, records: Records) -> None:
        self._records = records

    def list(self, share: str, table_id: str) -> list[ViewPartition]:
        """Return the partitions of a view."""
        return [ViewPartition.read(item) for item in self._records.all(keys.view_partitions(share, table_id))]

    def put(self, view: View, partitions: Sequence[ViewPartition]) -> None:
        """Say that a view has the rows of these audiences, which it had not before.

        Raises Conflict when the view is gone or has another SQL than `view`: then the rows are not what it shows.
        """
        same = {"table_id": view.table_id, "sql": view.sql, "state": ABSENT}
        place = keys.asset("view", view.share, view.schema_name, view.name)
        for some in _some(partitions):
            try:
                self._records.transact([
                    # Whoever changes the SQL takes the partitions away that there are: none may come in between.
                    self._records.update(place, add={"revision": 1}, expect=same),
                    *(
                        self._records.put_new(
                            keys.view_partition(view.share, each.table_id, each.audience), each.attributes()
                        )
                        for each in some
                    ),
                ])  # fmt: skip
            except ConditionFailed:
                title = view.title
                raise Conflict(f"'{title}' was changed while it was refreshed: refresh it again") from None

    def remove(self, share: str, table_id: str, audiences: Iterable[str]) -> None:
        """Say that a view has the rows of these audiences no more."""
        for some in _some(list(audiences)):
            self._records.transact(self.removals(share, table_id, some))

    def removals(self, share: str, table_id: str, audiences: Iterable[str]) -> Writes:
        """Return the writes that remove partitions, for a transaction."""
        return [
            self._records.delete(keys.view_partition(share, table_id, audience), present=False)
            for audience in audiences
        ]

    def end(self, table: Table) -> None:
        """Begin the deletion of a view: no partition can be put from now on, and there is none."""
        place = keys.asset("view", table.share, table.schema_name, table.name)
        same = {"table_id": table.id}  # else the view is gone, or another one has its name
        self._records.attempt([self._records.update(place, assign={"state": DELETING}, expect=same)])
        self.remove(table.share, table.id, [each.audience for each in self.list(table.share, table.id)])


def _some(all_: Sequence[_Each]) -> Iterator[Sequence[_Each]]:
    for start in range(0, len(all_), AT_ONCE):
        yield all_[start : start + AT_ONCE]
