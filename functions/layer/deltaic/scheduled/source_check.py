"""Check a followed source: add its new tables, hide unreadable ones, and show repaired ones again."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from threading import Lock
from typing import Any, Final, Literal, get_args

import msgspec

from deltaic import partition_filters
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.admin.follow_admin import GLUE, MOST_REASONS, SAME_NAME, Follow, name_for
from deltaic.catalog.items import Table
from deltaic.delta.log import DeltaLog
from deltaic.delta.snapshot import Snapshot
from deltaic.errors import (
    AlreadyExists,
    Conflict,
    DeltaicError,
    InvalidParameter,
    TableRefused,
    TooManyRequests,
    Unavailable,
)
from deltaic.protocol import names
from deltaic.storage.aws_credentials import Credentials
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.folder_objects import list_page
from deltaic.storage.locations import Location, TableLocations
from deltaic.storage.objects import LOG, ObjectTableStore
from deltaic.storage.table_catalogs import ListedTable, glue_tables

LEAST_SECONDS: Final = 60.0
"""The check starts with another page of tables only if at least this much time is left."""

READERS: Final = 8  # table logs that are read at the same time

_TRANSIENT_ERRORS: Final = (TooManyRequests, Unavailable, Conflict)
"""Errors that are probably temporary and not caused by the table, so its entry is not changed."""

CheckStatus = Literal["added", "back", "hidden", "refused", "unknown", "same"]


class TableCheck(msgspec.Struct, frozen=True):
    """Result of the check of one table of a followed source."""

    name: str
    location: str
    status: CheckStatus
    """added, back: recipients now see the table; hidden: they no longer see it; refused: it cannot be added; unknown:
    the check failed, so nothing was changed; same: recipients still see the table."""

    reason: str = ""
    entry: Table | None = None
    """The table's entry in the catalog before the check; None if it had no entry."""
    iceberg_name: str = ""
    """Metadata location in the entry of an Iceberg table to add; empty for a Delta table."""


class FollowContext(msgspec.Struct, frozen=True):
    """Clients and settings with which a followed source is listed and read."""

    storage: StorageConfig
    credentials: Callable[[], Credentials]
    glue: Callable[[], Any]
    """Creates an AWS Glue client; only called for Glue databases."""
    remaining: Callable[[], float] = lambda: float("inf")
    """Returns the seconds that are left for the check."""


def is_single_table(source: str, context: FollowContext) -> bool:
    """Return whether a source is itself a Delta table; raises an error if the source cannot be listed."""
    if source.startswith(GLUE):
        next(glue_tables(context.glue(), source.removeprefix(GLUE)))
        return False
    return _has_log(Location.parse(source), context)


def check_source(
    admin: CatalogAdmin, follow: Follow, context: FollowContext, *, dry_run: bool = False
) -> Iterator[TableCheck]:
    """Check a followed source, and yield the result for each table whose status is not `same`.

    Stores a summary at the end. Does not change entries that an operator added. With `dry_run`, writes nothing. If the
    source cannot be listed, stores and raises the error. Also raises the errors of the catalog.
    """
    counts = dict.fromkeys(get_args(CheckStatus), 0)
    reasons: dict[str, str] = {}
    failure = ""
    check = _SourceCheck(admin, follow, context)
    try:
        for table_check in check.checks():
            result = table_check if dry_run else check.apply(table_check)
            counts[result.status] += 1
            if result.status == "refused" and len(reasons) < MOST_REASONS:
                reasons[result.name] = result.reason
            if result.status != "same":
                yield result
    except DeltaicError as error:
        failure = _message(error)
        raise
    finally:
        if not dry_run and (failure or check.is_complete):
            shared = counts.pop("same") + counts["added"] + counts["back"]
            admin.follows.record_check(follow, {"shared": shared, **counts}, reasons, failure)


class _SourceCheck:
    def __init__(self, admin: CatalogAdmin, follow: Follow, context: FollowContext) -> None:
        self._admin = admin
        self._follow = follow
        self._context = context
        self.is_complete = False
        """Whether all tables of the source were checked."""
        self._database = follow.source.removeprefix(GLUE) if follow.source.startswith(GLUE) else ""
        self._lock = Lock()
        self._filtered_tables: Sequence[Table] | None = None
        grants = admin.grants.of_share(follow.share)
        self._filters = [partition_filters.parse(grant.partition_filter) for grant in grants if grant.partition_filter]

    def checks(self) -> Iterator[TableCheck]:
        follow, checked = self._follow, set[str]()
        with ThreadPoolExecutor(READERS) as pool:
            for page in self._pages():
                tables = [table for table in page if not follow.excludes(table.name, _folder_of(table.location))]
                table_names = {table.name for table in tables}
                existing = self._admin.tables.find_many(follow.share, follow.schema_name, table_names)
                entries = [existing.get(table.name) for table in tables]
                checked |= {table.name for table, entry in zip(tables, entries, strict=True) if _is_same(table, entry)}
                yield from filter(None, pool.map(self._check_candidate, tables, entries))
            listed = self._admin.tables.list(follow.share, follow.schema_name)
            missing = (table for table in listed if table.followed and table.key not in checked)
            while batch := list(islice(missing, 2 * READERS)):
                yield from filter(None, pool.map(self._check_missing, batch))
        self.is_complete = True

    def _pages(self) -> Iterator[Sequence[ListedTable]]:
        pages = self._tables_of_glue() if self._database else self._folders()
        for page in pages:
            if self._context.remaining() < LEAST_SECONDS:
                raise Unavailable("the time limit was reached before the last table: the next check starts over")
            yield page

    def _tables_of_glue(self) -> Iterator[Sequence[ListedTable]]:
        for tables in glue_tables(self._context.glue(), self._database):
            yield [table._replace(name=name_for(table.name)) for table in tables]

    def _folders(self) -> Iterator[Sequence[ListedTable]]:
        source, after = Location.parse(self._follow.source), ""
        while True:
            page = list_page(self._context.credentials(), self._context.storage, source, delimiter="/", after=after)
            folders = (folder.removesuffix("/") for folder in page.folders)
            yield [ListedTable(name_for(folder), f"{source.uri}/{folder}") for folder in folders if folder]
            after = page.next
            if not after:
                return

    def _check_candidate(self, candidate: ListedTable, entry: Table | None) -> TableCheck | None:
        """Check a table of the source; returns None for folders without a log and entries that an operator added."""
        if entry is not None and _is_same(candidate, entry):
            return self._check_followed_table(entry, candidate) if entry.followed else None
        try:
            if not self._database and not _has_log(Location.parse(candidate.location), self._context):
                return None
            if entry is not None:
                reason = f"{SAME_NAME}:" if entry.followed else "the name is already used by the table in"
                return _table_check(candidate, "refused", f"{reason} {entry.location}")
            names.check_name("table", candidate.name)
            self._check_new(candidate)
        except _TRANSIENT_ERRORS as error:
            return _table_check(candidate, "unknown", _message(error))
        except DeltaicError as error:
            return _table_check(candidate, "refused", _message(error))
        return _table_check(candidate, "added")

    def _check_followed_table(self, entry: Table, candidate: ListedTable) -> TableCheck | None:
        """Check that a table that an earlier check added can still be read."""
        try:
            if entry.unlisted:
                self._check_new(candidate, entry.id)
            else:
                self._read_latest(candidate)
        except (*_TRANSIENT_ERRORS, TableRefused) as error:  # access may be denied only to this caller
            return _table_check(entry, "unknown", _message(error))
        except DeltaicError as error:
            return _check_of_listing(entry, _message(error))
        return _check_of_listing(entry, "")

    def _check_missing(self, entry: Table) -> TableCheck | None:
        """Check a table that an earlier check added, and that is now excluded or missing from the source."""
        if self._follow.excludes(entry.key, _folder_of(entry.location)):
            return _check_of_listing(entry, f"the name matches an exclude pattern of {self._follow.title}")
        if self._database:
            return _check_of_listing(entry, f"the AWS Glue database '{self._database}' no longer contains the table")
        if Location.parse(self._follow.source).contains(Location.parse(entry.location)):
            # Read its log: an incomplete listing must not hide it.
            return self._check_followed_table(entry, ListedTable(entry.name, entry.location))
        return None

    def apply(self, check: TableCheck) -> TableCheck:
        follow, entry = self._follow, check.entry
        if entry is not None and check.status in {"hidden", "back"}:
            self._admin.tables.set_listed(entry, check.reason)
        if check.status != "added":
            return check
        try:
            self._admin.tables.create(
                *(follow.share, follow.schema_name, check.name, check.location),
                storage=follow.storage,
                history=follow.history,
                followed=True,
                format="iceberg" if check.iceberg_name else "delta",
                metadata_location=check.iceberg_name,
            )
        except AlreadyExists:  # another table of the same page has the same name
            return TableCheck(check.name, check.location, "refused", f"{SAME_NAME}, and was added first")
        except InvalidParameter as error:
            return TableCheck(check.name, check.location, "refused", error.message)
        return check

    def _check_new(self, candidate: ListedTable, table_id: str = "") -> None:
        """Raise an error if a table is unreadable, or must not be shared automatically."""
        folder = Location.parse(candidate.location)
        for table in self._list_filtered_tables():
            shared = Location.parse(table.location)
            if table.id != table_id and (shared.contains(folder) or folder.contains(shared)):
                raise InvalidParameter(
                    f"'{table.title}' already shares a part of this table (filter or hidden columns): "
                    "share this table yourself, or exclude it"
                )
        latest = self._read_latest(candidate)
        try:
            for partition_filter in self._filters:
                partition_filters.check(partition_filter, latest.metadata)
        except InvalidParameter as error:
            share = self._follow.share
            raise InvalidParameter(
                f"a grant of '{share}' has a filter that is invalid for this table: {error.message}"
            ) from error

    def _list_filtered_tables(self) -> Sequence[Table]:
        """Return all tables of the catalog with filters or hidden columns, read once, for the first new table."""
        with self._lock:
            if self._filtered_tables is None:
                self._filtered_tables = list(self._admin.tables.list_filtered())
            return self._filtered_tables

    def _read_latest(self, table: ListedTable) -> Snapshot:
        storage, locations = self._context.storage, TableLocations(Location.parse(table.location))
        store = ObjectTableStore(locations, storage, self._context.credentials)
        if not table.metadata_uri:
            return DeltaLog(store).snapshot()
        from deltaic.sharing.iceberg_tables import open_source

        log = open_source(store, locations, table.metadata_uri, lambda _: self._context.glue())  # unused with a URI
        return log.snapshot().load_commits()


def _has_log(folder: Location, context: FollowContext) -> bool:
    return bool(list_page(context.credentials(), context.storage, folder, prefix=f"{LOG}/", limit=1).objects)


def _folder_of(location: str) -> str:
    return location.rstrip("/").rpartition("/")[2]


def _is_same(candidate: ListedTable, entry: Table | None) -> bool:
    """Return whether a table of the source has no entry, or one with its location and format."""
    if entry is None:
        return True
    is_iceberg = entry.format == "iceberg"
    return _path_of(entry.location) == _path_of(candidate.location) and is_iceberg == bool(candidate.iceberg_name)


def _path_of(location: str) -> str:
    return location.partition("://")[2].rstrip("/")


def _check_of_listing(entry: Table, hidden_reason: str) -> TableCheck | None:
    """Return the check's result for an entry to hide for this reason, or to show if the reason is empty."""
    if hidden_reason != entry.unlisted:
        return _table_check(entry, "hidden" if hidden_reason else "back", hidden_reason)
    return None if hidden_reason else _table_check(entry, "same")


def _table_check(table: ListedTable | Table, status: CheckStatus, reason: str = "") -> TableCheck:
    if isinstance(table, Table):
        return TableCheck(table.name, table.location, status, reason, table)
    return TableCheck(table.name, table.location, status, reason, iceberg_name=table.iceberg_name)


def _message(error: DeltaicError) -> str:
    return f"{error.message} ({error.detail})" if error.detail else error.message
