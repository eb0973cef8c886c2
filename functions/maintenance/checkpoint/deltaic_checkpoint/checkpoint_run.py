"""A checkpoint run over all tables with checkpoints: each with its write lease, longest unchecked first."""

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
"""Commits after the last checkpoint that make the next one due: Delta's default interval."""

LEASE_TIME: Final = timedelta(minutes=5)
"""Several times the time for the largest supported table; renewed before the checkpoint is written."""

LEAST_SECONDS: Final = 240.0
"""Minimum remaining time of the invocation to start with another table."""

REMEDY: Final = "write its checkpoints with `deltaic pipeline maintain`, and disable them here with --no-checkpoint"

CheckpointStatus = Literal["written", "not due", "held", "refused", "failed"]


@dataclass(frozen=True, slots=True)
class RunContext:
    """Clients and settings of a checkpoint run."""

    checkpointing: SharedLocations
    leases: Leases
    log: Callable[[SharedLocation], tuple[TableStore, LogWriter]]
    """Returns the reader and the writer of a location's log; raises DeltaicError."""

    remaining: Callable[[], float]
    """Returns the remaining seconds of the invocation."""

    clock: Callable[[], float] = time.time
    """Returns the time in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class CheckpointResult:
    """Result for one table."""

    location: str
    status: CheckpointStatus
    version: int | None = None
    commits: int | None = None
    """Commits after the last checkpoint, at the time of the check."""

    reason: str = ""
    error: BaseException | None = None
    """Unexpected or reported exception of status `failed`."""


def run_checkpoints(context: RunContext, holder: str, report: Callable[[CheckpointResult], None]) -> dict[str, int]:
    """Check every table with checkpoints while time remains, and return the number of tables by status.

    `report` gets each result. Tables that are `left` when the time is up come first in the next run. An exception for
    one table becomes its result. Raises what the catalog raises while it lists the tables.
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
        raise Conflict("a writer without the lease changed the log: the next run checks it again")
    if not writer.create(checkpoint.path, checkpoint.content):
        raise Conflict("another writer has just written this checkpoint")
    # Keep a newer hint. An old hint only makes listings longer.
    if read_hint(store) <= checkpoint.version:
        writer.replace(LAST_CHECKPOINT, checkpoint.hint)
    return CheckpointResult(table.location, "written", segment.version, len(segment.commits))
