"""Find the snapshot that a request needs, and the response format for it."""

from deltaic.delta import features
from deltaic.delta.log import DeltaLog
from deltaic.delta.snapshot import Snapshot
from deltaic.delta.store import TableStore
from deltaic.errors import MalformedRequest, UnsupportedOperation
from deltaic.protocol.capabilities import ResponseFormat
from deltaic.protocol.instants import Instant
from deltaic.protocol.negotiation import choose_format
from deltaic.sharing.answer import ResponseOptions
from deltaic.sharing.context import SharedTable, Sharing
from deltaic.storage.objects import ObjectTableStore


def open_store(sharing: Sharing, table: SharedTable) -> TableStore:
    """Return the store of the table's objects; raises UnsupportedOperation for an Iceberg table not shared by URL."""
    table.require_client_files()
    return ObjectTableStore(table.locations, table.storage, sharing.sessions.reader(table.storage))


def open_log(sharing: Sharing, table: SharedTable, store: TableStore | None = None) -> DeltaLog:
    """Return the versions of a Delta or Iceberg table, which use the caches of the process."""
    store = store or open_store(sharing, table)
    if table.entry.format == "iceberg":
        # Imported here, because few tables are Iceberg tables.
        from deltaic.sharing.iceberg_tables import open_iceberg_log

        return open_iceberg_log(sharing, table, store)
    return DeltaLog(store, sharing.memory.snapshots, table.identity)


def find_snapshot(log: DeltaLog, version: int | None, instant: Instant | None) -> Snapshot:
    """Return the snapshot at a version or timestamp, by default the latest; raises MalformedRequest if none exists."""
    if instant is not None:
        version = log.history.version_at_or_before(instant.floor_ms)
    snapshot = log.snapshot(version)
    if version is not None and snapshot.version != version:  # versions of Iceberg tables can be missing
        raise MalformedRequest(
            f"Cannot load table version {version} as it does not exist. The version before it is {snapshot.version}."
        )
    return snapshot


def negotiate(live: frozenset[str], options: ResponseOptions, parquet_refusal: str = "") -> ResponseFormat:
    """Return the requested response format that supports the table features in use (`live`).

    Only the first page negotiates; later pages use its format. Raises UnsupportedOperation if no format fits, with the
    snapshot's `parquet_refusal`.
    """
    misread = live & features.PARQUET_MISREADS
    try:
        return choose_format(
            options.capabilities, misread_as_parquet=misread, needed_for_delta=live, user_agent=options.user_agent
        )
    except UnsupportedOperation as refused:
        if parquet_refusal:
            raise UnsupportedOperation(f"{refused.message} The reason: {parquet_refusal}.") from refused
        raise
