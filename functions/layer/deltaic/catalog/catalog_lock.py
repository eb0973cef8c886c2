"""The lock of a catalog, for whoever changes much of it at once: a lease, without which none of its writes is made.

Commands that change one thing do not ask for it.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

from deltaic.catalog.aws_errors import ConditionFailed
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.leases import CATALOG, Leases
from deltaic.catalog.writes import check
from deltaic.errors import Conflict

_TTL: Final = timedelta(minutes=2)
"""Longer than a step takes; whoever takes longer and meets nobody goes on, and of two the second waits this long."""


class LockLost(Conflict):
    """The lock has passed to somebody else: nothing more is written."""


class LockedDynamo(Dynamo):
    """DynamoDB for the holder of a catalog's lock: no transaction is made once the lock has passed to somebody else."""

    def __init__(self, dynamo: Dynamo, table: str, leases: Leases, holder: str) -> None:
        super().__init__(lambda: dynamo.client)
        self._leases = leases
        self._holder = holder
        self._is_held = check(table, self._leases.key(CATALOG), {"holder": holder})

    def transact(self, writes: Iterable[Mapping[str, Any]]) -> None:
        """Make all the writes or none, and none without the lock; raises ConditionFailed, LockLost."""
        try:
            super().transact([self._is_held, *writes])
        except ConditionFailed as failed:
            if failed.index == 0:
                raise LockLost("another operator took the lock of the catalog meanwhile: begin again") from None
            raise ConditionFailed(failed.index - 1, failed.item) from None

    def prolong(self) -> None:
        """Hold the lock for as long again from now; raises LockLost."""
        try:
            self._leases.renew(CATALOG, self._holder, _TTL)
        except Conflict as lost:
            raise LockLost(lost.message) from None


@contextmanager
def locked(dynamo: Dynamo, table: str, holder: str, clock: Callable[[], float] = time.time) -> Iterator[LockedDynamo]:
    """Hold the lock of a catalog; raises Conflict, which names the other holder. `holder` is unique to one run.

    Of a holder that died the lock is free after two minutes.
    """
    leases = Leases(table, dynamo, clock)
    leases.acquire(CATALOG, holder, _TTL)
    try:
        yield LockedDynamo(dynamo, table, leases, holder)
    finally:
        leases.release(CATALOG, holder)
