"""Acquire the writer lease of a table: only the job that holds it writes the table.

Spark commits to S3 with an unconditional PUT: two drivers can overwrite each other's commits, and no setting prevents
it. So a job acquires the table's lease before it reads the log, and a thread renews it. If no renewal has succeeded
when a third of the time to live remains, the job cancels its Spark jobs, before another job can acquire the lease. The
job acknowledges its commit only after one more successful renewal.
"""

import contextlib
import getpass
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from deltaic.catalog.leases import Leases
from deltaic.errors import Conflict, DeltaicError

from deltaic_pipeline.failures import LeaseLost

TIME_TO_LIVE = timedelta(seconds=60)
RETRY_SECONDS = 1.0


def holder_name(run_id: str) -> str:
    """Return a unique name for a lease holder, shown to other jobs that cannot acquire the lease."""
    attempt = uuid.uuid4().hex[:8]
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        user = str(os.getuid())
    return f"run {run_id} of {user}@{socket.gethostname()} (pid {os.getpid()}, attempt {attempt})"


class Lease:
    """Lease of a table that this job holds; thread-safe."""

    def __init__(self, leases: Leases, location: str, holder: str, ttl: timedelta) -> None:
        self._leases = leases
        self._location = location
        self._holder = holder
        self._ttl = ttl
        self._ended = threading.Event()
        self._lost: str = ""
        self._renewed = 0.0
        self._on_loss: list[Callable[[], None]] = []

    def on_loss(self, action: Callable[[], None]) -> None:
        """Call `action` once when the lease is lost, possibly in another thread; immediately if it is already lost."""
        self._on_loss.append(action)
        if self._lost:
            action()

    def confirm(self) -> None:
        """Renew the lease to prove that this job still holds it; raises `LeaseLost` otherwise."""
        if not self._lost:
            try:
                self._renew()
            except DeltaicError as failure:
                self._lose(failure.message)
        self.require()

    def require(self) -> None:
        """Raise `LeaseLost` if the lease is known to be lost, without a request to DynamoDB."""
        if self._lost:
            raise LeaseLost(
                f"the writer lease of {self._location} was lost ({self._lost}), so the job stopped, and its commit "
                "is not confirmed. Run it again with the same --run-id: rows are not written twice."
            )

    def _renew(self) -> None:
        before = time.monotonic()
        self._leases.renew(self._location, self._holder, self._ttl)
        self._renewed = before  # the store can have started the time to live at any time after the request

    def _lose(self, reason: str) -> None:
        if not self._lost:
            self._lost = reason
            for action in self._on_loss:
                action()

    def _keep(self) -> None:
        """Renew the lease every third of its time to live; give up when only a third remains."""
        third = self._ttl.total_seconds() / 3
        pause = third
        while not self._ended.wait(pause):
            try:
                self._renew()
                pause = third
            except Conflict as conflict:
                return self._lose(conflict.message)
            except Exception as failure:  # noqa: BLE001 -- a retry can fix any other failure until time is up
                if time.monotonic() - self._renewed >= 2 * third:
                    return self._lose(f"it could not be renewed in time: {failure}")
                pause = min(RETRY_SECONDS, third / 4)
        return None


@contextmanager
def acquire(  # noqa: PLR0913 -- what, who, and three durations with defaults
    leases: Leases,
    location: str,
    holder: str,
    *,
    wait: timedelta = timedelta(0),
    ttl: timedelta = TIME_TO_LIVE,
    waiting: Callable[[str], None] = lambda _: None,
) -> Iterator[Lease]:
    """Acquire the lease of a table's location for the block, and release it afterwards.

    While another job holds the lease, waits up to `wait`, and calls `waiting` with a message that names that job. Then
    raises `Conflict`. The block must call `Lease.confirm` before it acknowledges a commit.
    """
    began = time.monotonic()
    deadline = began + wait.total_seconds()
    while True:
        lease = Lease(leases, location, holder, ttl)
        lease._renewed = time.monotonic()  # noqa: SLF001 -- its own factory
        try:
            leases.acquire(location, holder, ttl)
            break
        except Conflict as refusal:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise
            waiting(refusal.message)
            time.sleep(min(RETRY_SECONDS, remaining))
    renewal = threading.Thread(target=lease._keep, name="lease", daemon=True)  # noqa: SLF001 -- its own factory
    renewal.start()
    try:
        yield lease
    finally:
        lease._ended.set()  # noqa: SLF001 -- its own factory
        renewal.join()
        with contextlib.suppress(DeltaicError):  # the lease expires by itself; an error of the job matters more
            leases.release(location, holder)
