"""Finds the snapshot that answers a request, and in which format it may leave."""

from deltaic.delta import features
from deltaic.delta.log import DeltaLog
from deltaic.delta.snapshot import Snapshot
from deltaic.delta.store import TableStore
from deltaic.protocol.capabilities import ResponseFormat
from deltaic.protocol.instants import Instant
from deltaic.protocol.negotiation import choose_format
from deltaic.sharing.answer import ResponseOptions
from deltaic.sharing.context import SharedTable, Sharing
from deltaic.storage.objects import ObjectTableStore


def open_store(sharing: Sharing, table: SharedTable) -> TableStore:
    """Return what reads the table's objects; nothing is read yet. Raises UnsupportedOperation for no Delta table."""
    table.require_delta()
    return ObjectTableStore(table.locations, table.storage, sharing.sessions.reader(table.storage))


def open_log(sharing: Sharing, table: SharedTable, store: TableStore | None = None) -> DeltaLog:
    """Return the table's log; nothing is read yet, and what the process keeps of it is not read again."""
    return DeltaLog(store or open_store(sharing, table), sharing.memory.snapshots, table.identity)


def find(log: DeltaLog, version: int | None, instant: Instant | None) -> Snapshot:
    """Return the snapshot of a version, as of a moment, or the latest; raises MalformedRequest where there is none."""
    if instant is not None:
        version = log.history.version_at_or_before(instant.floor_ms)
    return log.snapshot(version)


def negotiate(live: frozenset[str], options: ResponseOptions) -> ResponseFormat:
    """Return the format that carries these live features; later pages keep that of the first instead.

    Raises UnsupportedOperation when no format that was asked for can carry them.
    """
    misread = live & features.PARQUET_MISREADS
    return choose_format(
        options.capabilities, misread_as_parquet=misread, needed_for_delta=live, user_agent=options.user_agent
    )
