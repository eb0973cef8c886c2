"""Find the snapshot that a request needs, and the response format for it."""

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
    """Return the store of the table's objects; raises UnsupportedOperation if it is not a Delta table."""
    table.require_delta()
    return ObjectTableStore(table.locations, table.storage, sharing.sessions.reader(table.storage))


def open_log(sharing: Sharing, table: SharedTable, store: TableStore | None = None) -> DeltaLog:
    """Return the table's Delta log, which uses the snapshot cache of the process."""
    return DeltaLog(store or open_store(sharing, table), sharing.memory.snapshots, table.identity)


def find_snapshot(log: DeltaLog, version: int | None, instant: Instant | None) -> Snapshot:
    """Return the snapshot at a version or timestamp, by default the latest; raises MalformedRequest if none exists."""
    if instant is not None:
        version = log.history.version_at_or_before(instant.floor_ms)
    return log.snapshot(version)


def negotiate(live: frozenset[str], options: ResponseOptions) -> ResponseFormat:
    """Return the requested response format that supports the table features in use (`live`).

    Only the first page negotiates; later pages use its format. Raises UnsupportedOperation if no format fits.
    """
    misread = live & features.PARQUET_MISREADS
    return choose_format(
        options.capabilities, misread_as_parquet=misread, needed_for_delta=live, user_agent=options.user_agent
    )
