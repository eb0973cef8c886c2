"""One round through the tables that take part: each under its writer's lease, the longest waiting first."""

import contextlib
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal, get_args

from deltaic.catalog.admin.table_locations import SharedLocation, SharedLocations
from deltaic.catalog.leases import Leases
from deltaic.delta.paths import LAST_CHECKPOINT
from deltaic.delta.segment import find_segment, read_hint
from deltaic.delta.store import TableStore
from deltaic.errors import Conflict, DeltaicError, InvalidParameter, UnsupportedOperation
from deltaic.storage.log_writer import LogWriter

from deltaic_checkpoint.checkpoint_creation import make

COMMITS: Final = 10
"""After the last checkpoint, before the next one is written; Delta's own interval."""

LEASE: Final = timedelta(minutes=5)
"""Several times what the largest table takes here; it is renewed before anything is sent."""

LEAST_SECONDS: Final = 240.0
"""No table is begun with less of the invocation's time left."""

REMEDY: Final = "write its checkpoints with `deltaic pipeline maintain` instead, and say --no-checkpoint here"

Did = Literal["written", "not due", "held", "refused", "failed"]


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What a round works with."""

    checkpointing: SharedLocations
    leases: Leases
    log: Callable[[SharedLocation], tuple[TableStore, LogWriter]]
    """Return the log of a place to read and to write; raises DeltaicError."""

    remaining: Callable[[], float]
    """Seconds that this invocation has left."""

    clock: Callable[[], float] = time.time
    """Seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one table."""

    location: str
    did: Did
    version: int | None = None
    commits: int | None = None
    """Since the last checkpoint, when it was looked at."""

    why: str = ""
    error: BaseException | None = None
    """What it failed with."""


def go_round(dependencies: Dependencies, holder: str, report: Callable[[Outcome], None]) -> dict[str, int]:
    """Look at every table that takes part, while there is time, and return of how many tables each came.

    `report` is called with what came of each; those for which no time was `left` come first in the next round. One
    table's trouble is its own: whatever is raised for it becomes its outcome. Raises what the catalog raises when it
    cannot say which tables take part.
    """
    counts, places = dict.fromkeys([*get_args(Did), "left"], 0), dependencies.checkpointing.due_for_checkpoint()
    for number, place in enumerate(places):
        if dependencies.remaining() < LEAST_SECONDS:
            counts["left"] = len(places) - number
            break
        outcome = _outcome(dependencies, place, f"{holder} (attempt {uuid.uuid4().hex[:8]})")
        report(outcome)
        counts[outcome.did] += 1
    return counts


def _outcome(dependencies: Dependencies, place: SharedLocation, holder: str) -> Outcome:
    try:
        # Before it is tried: a table at which an invocation dies must not be the first one of every round.
        dependencies.checkpointing.record_check(place)
        return _tend(dependencies, place, holder)
    except Exception as error:  # noqa: BLE001 -- the other tables are not to blame
        why = error.message if isinstance(error, DeltaicError) else "an unexpected failure"
        return Outcome(place.location, "failed", why=why, error=error)


def _tend(dependencies: Dependencies, place: SharedLocation, holder: str) -> Outcome:
    store, writer = dependencies.log(place)
    segment = find_segment(store)
    if len(segment.commits) < COMMITS:
        return Outcome(place.location, "not due", segment.version, len(segment.commits))
    try:
        dependencies.leases.acquire(place.location, holder, LEASE)
        try:
            return _checkpoint(dependencies, place, holder, store, writer)
        finally:
            with contextlib.suppress(DeltaicError):  # it expires by itself; what came of the table matters more
                dependencies.leases.release(place.location, holder)
    except Conflict as other:
        return Outcome(place.location, "held", segment.version, len(segment.commits), other.message)


def _checkpoint(
    dependencies: Dependencies, place: SharedLocation, holder: str, store: TableStore, writer: LogWriter
) -> Outcome:
    """Make and send the checkpoint of the latest version, with the lease held."""
    segment = find_segment(store)
    if len(segment.commits) < COMMITS:
        return Outcome(place.location, "not due", segment.version, len(segment.commits))
    try:
        made = make(store, segment, int(dependencies.clock() * 1000))
    except (UnsupportedOperation, InvalidParameter) as refusal:
        why = f"{refusal.message}: {REMEDY}"
        return Outcome(place.location, "refused", segment.version, len(segment.commits), why)
    dependencies.leases.renew(place.location, holder, LEASE)
    now = find_segment(store, segment.version)
    if (now.version, now.base, now.commits) != (segment.version, segment.base, segment.commits):
        raise Conflict("the log was changed by a writer without the lease: the next round looks again")
    if not writer.create(made.path, made.content):
        raise Conflict("another writer has just written this checkpoint")
    # Newer hints stay; an old one costs readers a longer listing and no more.
    if read_hint(store) <= made.version:
        writer.replace(LAST_CHECKPOINT, made.hint)
    return Outcome(place.location, "written", segment.version, len(segment.commits))
