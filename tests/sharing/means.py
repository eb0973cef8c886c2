"""Fixtures for tests of use cases: a table in a folder, a context without a catalog, and answers as lines."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from delta_tables.folder_store import FolderStore
from deltaic.catalog.items import Table
from deltaic.catalog.limit_counters import LimitCounters
from deltaic.catalog.reader import CatalogReader
from deltaic.catalog.submitted_queries import QueryStore
from deltaic.delta.cache import SnapshotCache
from deltaic.delta.log import DeltaLog
from deltaic.protocol.capabilities import Capabilities
from deltaic.protocol.changes_request import ChangesRequest
from deltaic.protocol.continuations import PageClaims, open_page_token
from deltaic.protocol.gates import TableGate
from deltaic.protocol.query_request import QueryRequest
from deltaic.protocol.sealed_tokens import TokenSigner
from deltaic.sharing.answer import Answer, ResponseOptions
from deltaic.sharing.audit_record import AuditRecord
from deltaic.sharing.caller import Caller
from deltaic.sharing.change_feed.ranges import RangeRequest, VersionRange, Versions
from deltaic.sharing.change_feed.visible_changes import ChangeFeed, DataChanges
from deltaic.sharing.context import SharedTable, Sharing
from deltaic.sharing.memory import Memory
from deltaic.sharing.rights.table_rights import ALL as ALL_RIGHTS
from deltaic.sharing.rights.table_rights import Rights
from deltaic.sharing.snapshot_query import SnapshotQuery
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.locations import TableLocations
from deltaic.storage.server_bucket import ServerBucket
from deltaic.storage.sessions import SigningSessions
from msgspec.structs import replace

STORAGE = StorageConfig(endpoint="http://127.0.0.1:9000", path_style=True, secret="keys")
ALL = "responseformat=parquet,delta;readerfeatures=deletionvectors,columnmapping"


class Keys:
    """AWS client that returns the keys of a storage."""

    def get_secret_value(self, SecretId: str) -> Mapping[str, str]:  # noqa: N803 -- AWS's name
        assert SecretId == "keys"
        return {"SecretString": json.dumps({"accessKeyId": "AKIAEXAMPLE", "secretAccessKey": "secret"})}


def sharing(**changed: Any) -> Sharing:
    """Return a context that needs no network."""
    context = Sharing(
        catalog=CatalogReader("unused"),
        counters=LimitCounters("unused"),
        token_key=lambda: TokenSigner(b"k" * 32),
        sessions=SigningSessions(client=lambda _: Keys()),
        home=STORAGE,
        url_ttl=timedelta(hours=1),
        memory=Memory(1 << 28),
        queries=lambda: QueryStore("unused"),
        iceberg_bucket=lambda: ServerBucket("unused", STORAGE),
        start_iceberg_generation=lambda _: None,
        iceberg_files_at_once=400_000,
    )
    return replace(context, **changed)


def shared_table(start_version: int = 0, rights: Rights = ALL_RIGHTS, *, is_view: bool = False) -> SharedTable:
    entry = Table(
        name="t",
        schema_name="d",
        share="s",
        id="table-1",
        share_id="share-1",
        location="s3://lake/t",
        history=True,
        view_properties=("p",) if is_view else None,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    locations = TableLocations.parse(entry.location, ())
    gate = TableGate("s.d.t", entry.history, start_version)
    return SharedTable(Caller("alice", "token-1"), entry, STORAGE, locations, gate, rights)


@dataclass
class Feed:
    """Client of a table in a folder, which requests changes page by page."""

    root: Path
    capabilities: str | None = None
    max_files: int | None = None
    start_version: int = 0
    """First shared version."""
    rights: Rights = ALL_RIGHTS
    historical_metadata: bool = False
    is_view: bool = False

    def __post_init__(self) -> None:
        """Create an empty cache."""
        self.store = FolderStore(self.root)
        self.log = DeltaLog(self.store, SnapshotCache(1 << 28), "t")
        self.sharing = sharing()
        self.access = AuditRecord()
        """Audit record of the last answer."""

    def answer(self, first: int, last: int, page: PageClaims | None = None, *, feed: bool = True) -> Answer:
        table = shared_table(self.start_version, self.rights, is_view=self.is_view)
        options = ResponseOptions(Capabilities.parse(self.capabilities), None)
        self.access = table.caller.audit
        parameters = ChangesRequest.parse({} if self.max_files is None else {"maxFiles": str(self.max_files)})
        return VersionRange(
            request=RangeRequest(self.sharing, table, options, parameters, "changes"),
            page=page,
            log=self.log,
            head=self.log.snapshot(last),
            versions=Versions(first, last, last),
            kind=ChangeFeed if feed else DataChanges,
            historical_metadata=self.historical_metadata,
        ).answer()

    def query(self, **body: Any) -> Answer:
        """Query a snapshot."""
        request = QueryRequest.parse(json.dumps(body).encode())
        options = ResponseOptions(Capabilities.parse(self.capabilities), None)
        return SnapshotQuery(self.sharing, shared_table(rights=self.rights), request, options, self.log).answer()


def lines(answer: Answer) -> list[dict[str, Any]]:
    return [json.loads(line) for line in b"".join(answer.chunks).splitlines()]


def next_page(feed: Feed, answer_lines: list[dict[str, Any]]) -> PageClaims | None:
    """Return the claims of the page token in the last line; None without a next page."""
    token = answer_lines[-1]["endStreamAction"].get("nextPageToken")
    options, parameters = ResponseOptions(Capabilities.parse(feed.capabilities), None), ChangesRequest.parse({})
    binding = options.binding(shared_table(), "changes", parameters.fingerprint)
    return open_page_token(feed.sharing.signer, token, binding, now=feed.sharing.clock()) if token else None
