"""Lock on a catalog while a command applies declaration files: a lease that every transaction checks."""

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
"""Time until an unrenewed lock expires, for example after a crash. Longer than one step of a command takes."""


class LockLost(Conflict):
    """Error: another process has taken the lock on the catalog, so this process cannot write any more."""


class LockedDynamo(Dynamo):
    """DynamoDB client for the holder of the catalog lock; every transaction checks the lock."""

    def __init__(self, dynamo: Dynamo, table: str, leases: Leases, holder: str) -> None:
        super().__init__(lambda: dynamo.client)
        self._leases = leases
        self._holder = holder
        self._lock_check = check(table, self._leases.key(CATALOG), {"holder": holder})

    def transact(self, writes: Iterable[Mapping[str, Any]]) -> None:
        """Write everything or nothing; raises ConditionFailed, or LockLost if this process lost the lock."""
        try:
            super().transact([self._lock_check, *writes])
        except ConditionFailed as failed:
            if failed.index == 0:
                raise LockLost("another operator has taken the lock on the catalog: run the command again") from None
            raise ConditionFailed(failed.index - 1, failed.item) from None

    def prolong(self) -> None:
        """Extend the lock to two minutes from now; raises LockLost."""
        try:
            self._leases.renew(CATALOG, self._holder, _TTL)
        except Conflict as lost:
            raise LockLost(lost.message) from None


@contextmanager
def locked(dynamo: Dynamo, table: str, holder: str, clock: Callable[[], float] = time.time) -> Iterator[LockedDynamo]:
    """Hold the catalog lock during a `with` block; raises Conflict, which names the other holder.

    `holder` must be unique to one run of a command. If the holder crashes, its lock expires after two minutes.
    """
    leases = Leases(table, dynamo, clock)
    leases.acquire(CATALOG, holder, _TTL)
    try:
        yield LockedDynamo(dynamo, table, leases, holder)
    finally:
        leases.release(CATALOG, holder)
