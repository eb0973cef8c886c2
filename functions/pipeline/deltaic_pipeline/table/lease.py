"""Decides who may write a table: the one job that holds its lease, for as long as it can prove that it does.

Spark commits to S3 with an unconditional PUT: two drivers lose each other's acknowledged commits, and no setting
prevents it. So a job takes the table's lease before it reads the log, a thread renews it meanwhile, and the job stops
itself well before the lease could pass to somebody else: when a third of the time to live is left and no renewal has
come through, its Spark jobs are cancelled. What it wrote is acknowledged only after one more renewal has succeeded.
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
    """Say who holds a lease, so that the refused one knows whom to ask; no two calls give the same name."""
    attempt = uuid.uuid4().hex[:8]
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        user = str(os.getuid())
    return f"run {run_id} of {user}@{socket.gethostname()} (pid {os.getpid()}, attempt {attempt})"


class Lease:
    """A table's lease that this job holds; thread-safe."""

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
        """Call `action` once, from another thread, when the lease is lost (at once if it already is)."""
        self._on_loss.append(action)
        if self._lost:
            action()

    def confirm(self) -> None:
        """Prove by a round trip that the lease is held; raises `LeaseLost` otherwise."""
        if not self._lost:
            try:
                self._renew()
            except DeltaicError as failure:
                self._lose(failure.message)
        self.require()

    def require(self) -> None:
        """Raise `LeaseLost` if the lease is known to be lost; asks nobody."""
        if self._lost:
            raise LeaseLost(
                f"the writer lease of {self._location} was lost ({self._lost}): nothing is acknowledged; "
                "run the job again with the same --run-id, which makes no second append."
            )

    def _renew(self) -> None:
        asked = time.monotonic()
        self._leases.renew(self._location, self._holder, self._ttl)
        self._renewed = asked  # the time to live counts from the earliest moment at which the store may have begun it

    def _lose(self, reason: str) -> None:
        if not self._lost:
            self._lost = reason
            for action in self._on_loss:
                action()

    def _keep(self) -> None:
        """Renew every third of the time to live; give up when only a third is left."""
        third = self._ttl.total_seconds() / 3
        pause = third
        while not self._ended.wait(pause):
            try:
                self._renew()
                pause = third
            except Conflict as taken:
                return self._lose(taken.message)
            except Exception as failure:  # noqa: BLE001 -- any other failure may pass; the clock decides
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
    """Acquire the lease of a table's location for the block, and give it back at its end.

    While somebody else has it this waits up to `wait`, calling `waiting` with who that is, and then raises `Conflict`
    that names them. The block must call `Lease.confirm` before it acknowledges what it wrote.
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
            left = deadline - time.monotonic()
            if left <= 0:
                raise
            waiting(refusal.message)
            time.sleep(min(RETRY_SECONDS, left))
    renewal = threading.Thread(target=lease._keep, name="lease", daemon=True)  # noqa: SLF001 -- its own factory
    renewal.start()
    try:
        yield lease
    finally:
        lease._ended.set()  # noqa: SLF001 -- its own factory
        renewal.join()
        with contextlib.suppress(DeltaicError):  # it expires by itself; the job's own outcome matters more
            leases.release(location, holder)
