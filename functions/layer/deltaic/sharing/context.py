"""Context of a request: the clients, caches and clock of the process, and the requested table."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from deltaic.catalog.items import Storage, Table
from deltaic.catalog.limit_counters import LimitCounters
from deltaic.catalog.reader import CatalogReader
from deltaic.errors import InvalidParameter, TableUnreadable, UnsupportedOperation
from deltaic.protocol.changes_request import ChangesRequest
from deltaic.protocol.gates import TableGate
from deltaic.protocol.query_request import QueryRequest
from deltaic.protocol.sealed_tokens import TokenSigner
from deltaic.sharing.caller import Caller, RequestedTable
from deltaic.sharing.memory import Memory
from deltaic.sharing.rights.admission import Admission
from deltaic.sharing.rights.table_rights import ALL, Rights
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.locations import TableLocations
from deltaic.storage.sessions import SigningSessions
from deltaic.storage.table_urls import TableUrls

if TYPE_CHECKING:
    from deltaic.catalog.submitted_queries import QueryStore
    from deltaic.delta.store import TableStore
    from deltaic.storage.server_bucket import ServerBucket


class Sharing(msgspec.Struct, frozen=True):
    """Clients, caches and settings that all requests of a process share, created by `sharing.runtime`."""

    catalog: CatalogReader
    token_key: Callable[[], TokenSigner]
    """Returns the signer of page, refresh and list tokens; called only for requests with tokens."""
    sessions: SigningSessions
    home: StorageConfig
    """Default storage of tables: S3 in this region, or S3 of the local AWS emulation."""
    url_ttl: timedelta
    memory: Memory
    """Caches that this process keeps between requests."""
    queries: Callable[[], "QueryStore"]
    """Returns the store of submitted queries; called only if a request needs it."""
    counters: LimitCounters
    """Counters of the requests and bytes of recipients with limits."""
    iceberg_bucket: "Callable[[], ServerBucket]"
    """Returns the bucket of generated Iceberg metadata; called only for Iceberg clients."""
    start_iceberg_generation: Callable[[bytes], None]
    """Starts generating Iceberg metadata in the background; raises Unavailable if it cannot start."""
    iceberg_files_at_once: int
    """Largest number of files of a table whose Iceberg metadata is generated while the client waits."""
    limits_fail_closed: bool = False
    """Whether recipients with limits get an error while the counters are unavailable."""
    clock: Callable[[], float] = time.time
    """Returns the current time in seconds since the epoch."""

    @property
    def signer(self) -> TokenSigner:
        """Signer of page, refresh and list tokens."""
        return self.token_key()

    def catalog_for(self, caller: Caller) -> CatalogReader:
        """Return a reader of the catalog for one request; its first read runs the `Admission` checks."""
        admission = Admission(caller, self.counters, self.clock, fail_closed=self.limits_fail_closed)
        return self.catalog.with_admission(admission)

    def table(self, caller: Caller, name: RequestedTable) -> "SharedTable":
        """Return the requested table if it is granted to the caller.

        Raises NotFound if the table does not exist or is not granted, and the errors of `Admission`.
        """
        granted = self.catalog_for(caller).get_table(caller.recipient_id, name.share, name.schema, name.table)
        entry = granted.table
        if granted.restrictions.bytes_per_day:
            # The server cannot count bytes that recipients read with credentials.
            entry = msgspec.structs.replace(entry, access_modes=("url",))
        caller.audit.add(
            share=entry.share,
            schema=entry.schema_name,
            table=entry.name,
            tableId=entry.id,
            tableLocations=[entry.location, *entry.auxiliary_locations],
        )
        storage = storage_config(self.catalog.get_storage(entry.storage)) if entry.storage else self.home
        rights, start_version = ALL, entry.start_version
        if entry.is_filtered or granted.grant.partition_filter:
            # Imported here, because few tables are filtered.
            from deltaic.sharing.rights.row_filters import filtered_rights

            rights, start_version = filtered_rights(self.catalog, granted)
        return SharedTable(
            caller=caller,
            entry=entry,
            storage=storage,
            locations=_locations(entry),
            gate=TableGate(str(name), entry.history, start_version),
            rights=rights,
            counts_bytes=bool(granted.restrictions.bytes_per_day),
        )

    def files(self, table: "SharedTable") -> "TableStore":
        """Return a store that reads the table's data files on behalf of the server, not of a recipient."""
        from deltaic.storage.objects import ObjectTableStore

        return ObjectTableStore(table.locations, table.storage, self.sessions.file_reader(table.storage))

    def urls(self, table: "SharedTable") -> TableUrls:
        """Return a signer of URLs for the table's files, for this caller and the current time."""
        recipient_id = table.caller.recipient_id
        now = datetime.fromtimestamp(int(self.clock()), UTC)
        urls = TableUrls(
            table.locations,
            table.storage,
            self.sessions.credentials(recipient_id, table.storage),
            ttl=self.url_ttl,
            now=now,
        )
        session = self.sessions.name_of(recipient_id, table.storage)
        table.caller.audit.add_signing(session, now.timestamp(), urls.expires_at_ms / 1000)
        return urls


class SharedTable(msgspec.Struct, frozen=True):
    """Table with its storage, and with what one recipient may read of it."""

    caller: Caller
    entry: Table
    storage: StorageConfig
    locations: TableLocations
    gate: TableGate
    rights: Rights = ALL
    counts_bytes: bool = False
    """Whether the recipient has a limit of bytes a day, so that the server counts the bytes of requested files."""

    @property
    def access_modes(self) -> Sequence[str]:
        """Access modes for this recipient's Delta Sharing client: never `dir` for a filtered table."""
        return ("url",) if self.rights.are_filtered else self.entry.client_modes

    @property
    def identity(self) -> str:
        """Cache key of the table: its locations and storage, so that all shares of the table have one key."""
        return f"{self.locations!r} {self.storage!r}"

    def audit_request(self, request: QueryRequest | ChangesRequest) -> None:
        """Add the requested limits to the audit record, and whether the request is for a later page."""
        add = self.caller.audit.add
        add(maxFiles=request.max_files, isPage=request.page_token is not None)
        if isinstance(request, QueryRequest):
            hints = len(request.predicate_hints) + (request.json_predicate_hints is not None)
            add(limit=request.limit_hint, isRange=request.is_range, hints=hints)

    def require_client_files(self) -> None:
        """Raise UnsupportedOperation for an Iceberg table whose files are not shared by URL."""
        if not self.access_modes:
            raise UnsupportedOperation(
                f"The table {self.gate.full_name} is an Iceberg table: read it with an Iceberg client, at the "
                "icebergEndpoint of your profile."
            )

    def require_url_access(self) -> None:
        """Raise UnsupportedOperation for a table that is shared by directory access only.

        The check is necessary because old clients ignore `accessModes` and send queries (PROTOCOL.md, access modes).
        """
        self.require_client_files()
        if "url" not in self.access_modes:
            raise UnsupportedOperation(
                f"The table {self.gate.full_name} is shared by directory access only (accessModes: dir). "
                "Use a client that requests temporary table credentials."
            )

    def require_directory_access(self, *, by_iceberg: bool = False) -> None:
        """Raise UnsupportedOperation for a table that is filtered or not shared by directory access.

        `by_iceberg` is true for Iceberg clients, which also read the folders of Iceberg tables.
        """
        if self.rights.are_filtered:
            raise UnsupportedOperation(
                f"Only a part of the table {self.gate.full_name} is shared with you, and credentials for its folder "
                "would allow you to read all of it. Read it with a query."
            )
        if "dir" not in (self.entry.access_modes if by_iceberg else self.access_modes):
            raise UnsupportedOperation(
                f"The table {self.gate.full_name} is shared by pre-signed URLs only (accessModes: url). "
                "Read it with a query, or ask its provider for directory access."
            )
        self.gate.require_credentials()


def _locations(entry: Table) -> TableLocations:
    try:
        return TableLocations.parse(entry.location, entry.auxiliary_locations)
    except InvalidParameter as invalid:
        raise TableUnreadable(
            "the location of this table is invalid: ask its provider to correct it", invalid.message
        ) from invalid


def storage_config(storage: Storage) -> StorageConfig:
    """Convert a storage record of the catalog to the settings of its S3 client."""
    return msgspec.convert(storage, StorageConfig, from_attributes=True)
