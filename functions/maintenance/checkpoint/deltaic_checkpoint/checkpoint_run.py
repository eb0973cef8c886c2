"""Check all tables for which the stack writes checkpoints, and write those that are due, with a lease for each."""

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

from deltaic_checkpoint.checkpoint_creation import create_checkpoint

MIN_COMMITS: Final = 10
"""A checkpoint is due after this many commits since the last one, as with Delta's default checkpoint interval."""

LEASE_TIME: Final = timedelta(minutes=5)
"""Duration of a table's lease, much longer than a checkpoint takes; the lease is renewed before the write."""

LEAST_SECONDS: Final = 240.0
"""The run starts with another table only if its invocation has at least this much time left."""

REMEDY: Final = "write checkpoints with `deltaic pipeline maintain`, and set --no-checkpoint for the table"

CheckpointStatus = Literal["written", "not due", "held", "refused", "failed"]


@dataclass(frozen=True, slots=True)
class RunContext:
    """Clients and settings for a checkpoint run."""

    checkpointing: SharedLocations
    leases: Leases
    log: Callable[[SharedLocation], tuple[TableStore, LogWriter]]
    """Returns clients that read and write the log at a location; raises DeltaicError."""

    remaining: Callable[[], float]
    """Returns the seconds that are left for the invocation."""

    clock: Callable[[], float] = time.time
    """Returns the time in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class CheckpointResult:
    """Result of a checkpoint run for one table."""

    location: str
    status: CheckpointStatus
    version: int | None = None
    commits: int | None = None
    """Number of commits after the last checkpoint, at the time of the check."""

    reason: str = ""
    error: BaseException | None = None
    """Exception that caused the status `failed`."""


def run_checkpoints(context: RunContext, holder: str, report: Callable[[CheckpointResult], None]) -> dict[str, int]:
    """Write due checkpoints until the time limit is reached, and return the number of tables with each status.

    `report` is called with each result. Tables that are `left` at the time limit come first in the next run. An error
    of one table becomes the result of this table. Raises the errors of the catalog while it lists the tables.
    """
    counts, tables = dict.fromkeys([*get_args(CheckpointStatus), "left"], 0), context.checkpointing.due_for_checkpoint()
    for number, table in enumerate(tables):
        if context.remaining() < LEAST_SECONDS:
            counts["left"] = len(tables) - number
            break
        result = _check_table(context, table, f"{holder} (attempt {uuid.uuid4().hex[:8]})")
        report(result)
        counts[result.status] += 1
    return counts


def _check_table(context: RunContext, table: SharedLocation, holder: str) -> CheckpointResult:
    try:
        # Record the check first: a table that kills the invocation must not be the first one of every run.
        context.checkpointing.record_check(table)
        return _checkpoint_if_due(context, table, holder)
    except Exception as error:  # noqa: BLE001 -- the other tables can still be checked
        reason = error.message if isinstance(error, DeltaicError) else "an unexpected error"
        return CheckpointResult(table.location, "failed", reason=reason, error=error)


def _checkpoint_if_due(context: RunContext, table: SharedLocation, holder: str) -> CheckpointResult:
    store, writer = context.log(table)
    segment = find_segment(store)
    if len(segment.commits) < MIN_COMMITS:
        return CheckpointResult(table.location, "not due", segment.version, len(segment.commits))
    try:
        context.leases.acquire(table.location, holder, LEASE_TIME)
        try:
            return _write_checkpoint(context, table, holder, store, writer)
        finally:
            with contextlib.suppress(DeltaicError):  # it expires by itself, and the result of the table matters more
                context.leases.release(table.location, holder)
    except Conflict as conflict:
        return CheckpointResult(table.location, "held", segment.version, len(segment.commits), conflict.message)


def _write_checkpoint(
    context: RunContext, table: SharedLocation, holder: str, store: TableStore, writer: LogWriter
) -> CheckpointResult:
    segment = find_segment(store)
    if len(segment.commits) < MIN_COMMITS:
        return CheckpointResult(table.location, "not due", segment.version, len(segment.commits))
    try:
        checkpoint = create_checkpoint(store, segment, int(context.clock() * 1000))
    except (UnsupportedOperation, InvalidParameter) as refusal:
        reason = f"{refusal.message}: {REMEDY}"
        return CheckpointResult(table.location, "refused", segment.version, len(segment.commits), reason)
    context.leases.renew(table.location, holder, LEASE_TIME)
    current = find_segment(store, segment.version)
    if (current.version, current.base, current.commits) != (segment.version, segment.base, segment.commits):
        raise Conflict("a writer that does not hold the lease changed the log: the next run checks the table again")
    if not writer.create(checkpoint.path, checkpoint.content):
        raise Conflict("a writer that does not hold the lease wrote the same checkpoint: the next run checks the table")
    # Keep a newer hint. An old hint only makes listings longer.
    if read_hint(store) <= checkpoint.version:
        writer.replace(LAST_CHECKPOINT, checkpoint.hint)
    return CheckpointResult(table.location, "written", segment.version, len(segment.commits))
