"""Lock of a catalog while commands apply files: a lease that every write checks."""

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
"""Longer than one step takes. After a crash of its holder, the lock is free after this time."""


class LockLost(Conflict):
    """Another process has taken the lock: nothing more is written."""


class LockedDynamo(Dynamo):
    """DynamoDB for the holder of a lock; every transaction checks the lock."""

    def __init__(self, dynamo: Dynamo, table: str, leases: Leases, holder: str) -> None:
        super().__init__(lambda: dynamo.client)
        self._leases = leases
        self._holder = holder
        self._lock_check = check(table, self._leases.key(CATALOG), {"holder": holder})

    def transact(self, writes: Iterable[Mapping[str, Any]]) -> None:
        """Write all or nothing, and nothing without the lock; raises ConditionFailed, LockLost."""
        try:
            super().transact([self._lock_check, *writes])
        except ConditionFailed as failed:
            if failed.index == 0:
                raise LockLost("another operator took the lock of the catalog: start again") from None
            raise ConditionFailed(failed.index - 1, failed.item) from None

    def prolong(self) -> None:
        """Renew the lock for its full time; raises LockLost."""
        try:
            self._leases.renew(CATALOG, self._holder, _TTL)
        except Conflict as lost:
            raise LockLost(lost.message) from None


@contextmanager
def locked(dynamo: Dynamo, table: str, holder: str, clock: Callable[[], float] = time.time) -> Iterator[LockedDynamo]:
    """Hold the lock of a catalog; raises Conflict, which names the other holder.

    `holder` must be unique to one run. If a holder crashes, its lock is free after two minutes.
    """
    leases = Leases(table, dynamo, clock)
    leases.acquire(CATALOG, holder, _TTL)
    try:
        yield LockedDynamo(dynamo, table, leases, holder)
    finally:
        leases.release(CATALOG, holder)
