"""What a use case has at hand: the catalog, the keys, the stores, the time."""

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
    """One process's means; made once, in `sharing.runtime`."""

    catalog: CatalogReader
    token_key: Callable[[], TokenSigner]
    """Makes or returns the signer of page, refresh and list tokens; asked only where a token comes or goes."""
    sessions: SigningSessions
    home: StorageConfig
    """The storage of tables that name none: S3 of this region, or of the embedded AWS."""
    url_ttl: timedelta
    memory: Memory
    """What this process remembers between requests."""
    queries: Callable[[], "QueryStore"]
    """Makes or returns the store of submitted queries; asked only for those."""
    counters: LimitCounters
    """Count what limited recipients ask for."""
    iceberg_bucket: "Callable[[], ServerBucket]"
    """Makes or returns the bucket of what is made for Iceberg's clients; asked only for those."""
    start_iceberg_generation: Callable[[bytes], None]
    """Has it made in the background, and does not wait for that; raises Unavailable where that cannot be begun."""
    iceberg_files_at_once: int
    """How many files are listed for such a client while it waits."""
    limits_fail_closed: bool = False
    """Whether a limited recipient is refused while it cannot be counted."""
    clock: Callable[[], float] = time.time
    """Seconds since the epoch."""

    @property
    def signer(self) -> TokenSigner:
        """Signs and opens page, refresh and list tokens."""
        return self.token_key()

    def catalog_for(self, caller: Caller) -> CatalogReader:
        """Return the catalog as one request of a recipient may read it: what it reads first, admits it."""
        admission = Admission(caller, self.counters, self.clock, fail_closed=self.limits_fail_closed)
        return self.catalog.with_admission(admission)

    def table(self, caller: Caller, name: RequestedTable) -> "SharedTable":
        """Return the granted table.

        Raises NotFound for one that does not exist or is not granted, and what `Admission` does.
        """
        granted = self.catalog_for(caller).get_table(caller.recipient_id, name.share, name.schema, name.table)
        entry = granted.table
        if granted.restrictions.bytes_per_day:
            # What credentials read would be counted by nobody.
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
            # Few tables are: the others do not pay for the imports.
            from deltaic.sharing.rights.row_filters import filtered_rights

            rights, start_version = filtered_rights(self.catalog, granted)
        return SharedTable(
            caller=caller,
            entry=entry,
            storage=storage,
            locations=_locations(entry),
            gate=TableGate(str(name), entry.history, start_version),
            rights=rights,
            counted=bool(granted.restrictions.bytes_per_day),
        )

    def files(self, table: "SharedTable") -> "TableStore":
        """Return what reads the table's files for the server's own use; nothing is read yet."""
        from deltaic.storage.objects import ObjectTableStore

        return ObjectTableStore(table.locations, table.storage, self.sessions.file_reader(table.storage))

    def urls(self, table: "SharedTable") -> TableUrls:
        """Return what signs the table's files for this caller, from this moment on."""
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
        table.caller.audit.signed(session, now.timestamp(), urls.expires_at_ms / 1000)
        return urls


class SharedTable(msgspec.Struct, frozen=True):
    """A table as one recipient may see it."""

    caller: Caller
    entry: Table
    storage: StorageConfig
    locations: TableLocations
    gate: TableGate
    rights: Rights = ALL
    counted: bool = False
    """Whether the bytes are counted that this recipient asks for."""

    @property
    def access_modes(self) -> Sequence[str]:
        """How this recipient may read the table: never by its folder where some of its rows are not shared."""
        return ("url",) if self.rights.are_filtered else self.entry.access_modes

    @property
    def identity(self) -> str:
        """Name the table among all that this process reads: by where it lies and who reads it, not by its share."""
        return f"{self.locations!r} {self.storage!r}"

    def audit_request(self, request: QueryRequest | ChangesRequest) -> None:
        """Tell the access log how much is asked for, by numbers; and whether it is a later page of an answer."""
        add = self.caller.audit.add
        add(maxFiles=request.max_files, isPage=request.page_token is not None)
        if isinstance(request, QueryRequest):
            hints = len(request.predicate_hints) + (request.json_predicate_hints is not None)
            add(limit=request.limit_hint, isRange=request.is_range, hints=hints)

    def require_delta(self) -> None:
        """Refuse what reads a Delta log of a table that has none."""
        if self.entry.format != "delta":
            raise UnsupportedOperation(
                f"The table {self.gate.full_name} is an Iceberg table: read it with an Iceberg client, at the "
                "icebergEndpoint of your profile."
            )

    def require_url_access(self) -> None:
        """Refuse URLs for a table that is shared by directory only.

        PROTOCOL.md, access modes: a legacy client that ignores `accessModes` calls query all the same.
        """
        self.require_delta()
        if "url" not in self.access_modes:
            raise UnsupportedOperation(
                f"The table {self.gate.full_name} is shared by directory access only (accessModes: dir). "
                "Use a client that asks for temporary table credentials."
            )

    def require_directory_access(self) -> None:
        """Refuse credentials for a table that is not shared by directory, or whose log holds more than is shared."""
        if self.rights.are_filtered:
            raise UnsupportedOperation(
                f"Not all of the table {self.gate.full_name} is shared with you, and credentials for its folder would "
                "open all of it. Read it with a query."
            )
        if "dir" not in self.access_modes:
            raise UnsupportedOperation(
                f"The table {self.gate.full_name} is shared by pre-signed URLs only (accessModes: url). "
                "Read it with a query, or ask its provider for directory access."
            )
        self.gate.require_credentials()


def _locations(entry: Table) -> TableLocations:
    try:
        return TableLocations.parse(entry.location, entry.auxiliary_locations)
    except InvalidParameter as wrong:
        raise TableUnreadable(
            "the location of this table cannot be read: its provider must correct it", wrong.message
        ) from wrong


def storage_config(storage: Storage) -> StorageConfig:
    """Return where a storage of the catalog is, and who reads it."""
    return msgspec.convert(storage, StorageConfig, from_attributes=True)
