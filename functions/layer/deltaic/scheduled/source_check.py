"""A look at what a schema follows: new Delta tables are entered, broken ones leave the listings, and come back."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from threading import Lock
from typing import Any, Final, Literal, get_args

import msgspec

from deltaic import partition_filters
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.admin.follow_admin import GLUE, MOST_REASONS, Follow, name_for
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
from deltaic.storage.glue_catalog import delta_tables
from deltaic.storage.locations import Location, TableLocations
from deltaic.storage.objects import LOG, ObjectTableStore

LEAST_SECONDS: Final = 60.0
"""No page of tables is begun with less time left."""

READERS: Final = 8
"""Logs that are read at the same time."""

_PASSING: Final = (TooManyRequests, Unavailable, Conflict)
"""What says nothing of a table."""

SAME_NAME: Final = "another table of the source has its name"
"""How the reason begins for one of two tables whose names come to one: to exclude that name would hide both."""

Did = Literal["added", "back", "hidden", "refused", "unknown", "same"]


class TableOutcome(msgspec.Struct, frozen=True):
    """What became of a table."""

    name: str
    location: str
    did: Did
    """added and back: recipients see it now; hidden: now they do not; refused: it is not entered; unknown: it could not
    be looked at and stays as it was; same: they see it, as before."""

    why: str = ""
    entry: Table | None = None
    """As it was."""


class FollowMeans(msgspec.Struct, frozen=True):
    """With what a source is looked at."""

    storage: StorageConfig
    credentials: Callable[[], Credentials]
    glue: Callable[[], Any]
    """Makes a client of AWS Glue; asked only for its databases."""
    remaining: Callable[[], float] = lambda: float("inf")
    """How many seconds there are."""


class _Found(msgspec.Struct, frozen=True):
    """A table of a source, or a folder that may be one."""

    name: str
    location: str


def first_look(source: str, means: FollowMeans) -> bool:
    """Tell whether a source is no source of tables but a table itself; raises why it cannot be listed."""
    if source.startswith(GLUE):
        next(delta_tables(means.glue(), source.removeprefix(GLUE)))
        return False
    return _has_log(Location.parse(source), means)


def look(admin: CatalogAdmin, follow: Follow, means: FollowMeans, *, dry: bool = False) -> Iterator[TableOutcome]:
    """Look at a source, and yield what became of its tables, of those alone with which something did.

    How it went is recorded in the end. Tables that others entered are not touched. With `dry` nothing is written.
    Raises why the source cannot be listed, which is recorded too, and what the catalog raises.
    """
    came = dict.fromkeys(get_args(Did), 0)
    reasons: dict[str, str] = {}
    failure = ""
    this = _Look(admin, follow, means)
    try:
        for judged in this.outcomes():
            outcome = judged if dry else this.written(judged)
            came[outcome.did] += 1
            if outcome.did == "refused" and len(reasons) < MOST_REASONS:
                reasons[outcome.name] = outcome.why
            if outcome.did != "same":
                yield outcome
    except DeltaicError as failed:
        failure = _said(failed)
        raise
    finally:
        if not dry and (failure or this.is_over):
            shared = came.pop("same") + came["added"] + came["back"]
            admin.follows.record_check(follow, {"shared": shared, **came}, reasons, failure)


class _Look:
    def __init__(self, admin: CatalogAdmin, follow: Follow, means: FollowMeans) -> None:
        self._admin = admin
        self._follow = follow
        self._means = means
        self.is_over = False
        """Whether every table was looked at."""
        self._database = follow.source.removeprefix(GLUE) if follow.source.startswith(GLUE) else ""
        self._lock = Lock()
        self._restricted: Sequence[Table] | None = None
        grants = admin.grants.of_share(follow.share)
        self._filters = [partition_filters.parse(grant.partition_filter) for grant in grants if grant.partition_filter]

    def outcomes(self) -> Iterator[TableOutcome]:
        follow, seen = self._follow, set[str]()
        with ThreadPoolExecutor(READERS) as pool:
            for page in self._pages():
                wanted = [one for one in page if not follow.excludes(one.name)]
                there = self._admin.tables.find_many(follow.share, follow.schema_name, {one.name for one in wanted})
                entries = [there.get(one.name) for one in wanted]
                seen |= {one.name for one, entry in zip(wanted, entries, strict=True) if _is(one, entry)}
                yield from filter(None, pool.map(self._met, wanted, entries))
            entered = self._admin.tables.list(follow.share, follow.schema_name)
            gone = (table for table in entered if table.followed and table.key not in seen)
            while some := list(islice(gone, 2 * READERS)):
                yield from filter(None, pool.map(self._missed, some))
        self.is_over = True

    def _pages(self) -> Iterator[Sequence[_Found]]:
        pages = self._tables_of_glue() if self._database else self._folders()
        for page in pages:
            if self._means.remaining() < LEAST_SECONDS:
                raise Unavailable("the time ended before all tables were looked at: the next look begins anew")
            yield page

    def _tables_of_glue(self) -> Iterator[Sequence[_Found]]:
        for tables in delta_tables(self._means.glue(), self._database):
            yield [_Found(name_for(name), location) for name, location in tables]

    def _folders(self) -> Iterator[Sequence[_Found]]:
        place, after = Location.parse(self._follow.source), ""
        while True:
            page = list_page(self._means.credentials(), self._means.storage, place, delimiter="/", after=after)
            folders = (one.removesuffix("/") for one in page.folders)
            yield [_Found(name_for(folder), f"{place.uri}/{folder}") for folder in folders if folder]
            after = page.next
            if not after:
                return

    def _met(self, found: _Found, entry: Table | None) -> TableOutcome | None:
        """Judge what the source has; None for what is no table, and for one that somebody else has entered."""
        if entry is not None and _is(found, entry):
            return self._entered(entry) if entry.followed else None
        try:
            if not self._database and not _has_log(Location.parse(found.location), self._means):
                return None
            if entry is not None:
                why = f"{SAME_NAME}:" if entry.followed else "its name is taken by the table in"
                return _outcome(found, "refused", f"{why} {entry.location}")
            names.check_name("table", found.name)
            self._check_new(found.location)
        except _PASSING as passing:
            return _outcome(found, "unknown", _said(passing))
        except DeltaicError as refusal:
            return _outcome(found, "refused", _said(refusal))
        return _outcome(found, "added")

    def _entered(self, entry: Table) -> TableOutcome | None:
        """Judge a table that was entered, by its log."""
        try:
            if entry.unlisted:
                self._check_new(entry.location, entry.id)
            else:
                self._latest(entry.location)
        except (*_PASSING, TableRefused) as passing:  # a refusal may be of whoever looks
            return _outcome(entry, "unknown", _said(passing))
        except DeltaicError as broken:
            return _listed(entry, _said(broken))
        return _listed(entry, "")

    def _missed(self, entry: Table) -> TableOutcome | None:
        """Judge a table that was entered and that the source does not have any more, or that is excluded."""
        if self._follow.excludes(entry.key):
            return _listed(entry, f"its name is excluded from what {self._follow.title} follows")
        if self._database:
            return _listed(entry, f"the database '{self._database}' of AWS Glue has it no more")
        if Location.parse(self._follow.source).contains(Location.parse(entry.location)):
            return self._entered(entry)  # by its own log: a store in trouble may have listed nothing
        return None

    def written(self, outcome: TableOutcome) -> TableOutcome:
        """Write what was judged; return what came of it."""
        follow, entry = self._follow, outcome.entry
        if entry is not None and outcome.did in {"hidden", "back"}:
            self._admin.tables.set_listed(entry, outcome.why)
        if outcome.did != "added":
            return outcome
        try:
            self._admin.tables.create(
                *(follow.share, follow.schema_name, outcome.name, outcome.location),
                storage=follow.storage,
                history=follow.history,
                followed=True,
            )
        except AlreadyExists:  # by another table of the same page
            return TableOutcome(outcome.name, outcome.location, "refused", f"{SAME_NAME}, which came before it")
        except InvalidParameter as refusal:
            return TableOutcome(outcome.name, outcome.location, "refused", refusal.message)
        return outcome

    def _check_new(self, location: str, table_id: str = "") -> None:
        """Raise why a table cannot be read, or must not come by itself: nobody decided to share it whole."""
        place = Location.parse(location)
        for other in self._tables_shared_in_part():
            theirs = Location.parse(other.location)
            if other.id != table_id and (theirs.contains(place) or place.contains(theirs)):
                raise InvalidParameter(f"not all of it is shared as '{other.title}': share it by hand, or exclude it")
        latest = self._latest(location)
        try:
            for one in self._filters:
                partition_filters.check(one, latest.metadata)
        except InvalidParameter as wrong:
            share = self._follow.share
            raise InvalidParameter(f"the filter of a grant of '{share}' does not fit it: {wrong.message}") from wrong

    def _tables_shared_in_part(self) -> Sequence[Table]:
        """Return them as they are when the first table is met that is new: the whole catalog is read for that."""
        with self._lock:
            if self._restricted is None:
                self._restricted = list(self._admin.tables.list_filtered())
            return self._restricted

    def _latest(self, location: str) -> Snapshot:
        """Return the latest version of a table; raises why it cannot be read."""
        places = TableLocations(Location.parse(location))
        return DeltaLog(ObjectTableStore(places, self._means.storage, self._means.credentials)).snapshot()


def _has_log(folder: Location, means: FollowMeans) -> bool:
    return bool(list_page(means.credentials(), means.storage, folder, prefix=f"{LOG}/", limit=1).objects)


def _is(found: _Found, entry: Table | None) -> bool:
    """Tell whether a table of the source is the one that has its name, or will be."""
    return entry is None or _place(entry.location) == _place(found.location)


def _place(location: str) -> str:
    return location.partition("://")[2].rstrip("/")


def _listed(entry: Table, unlisted: str) -> TableOutcome | None:
    """Return what a table becomes that is not listed for this reason, or is listed for none."""
    if unlisted != entry.unlisted:
        return _outcome(entry, "hidden" if unlisted else "back", unlisted)
    return None if unlisted else _outcome(entry, "same")


def _outcome(table: _Found | Table, did: Did, why: str = "") -> TableOutcome:
    return TableOutcome(table.name, table.location, did, why, table if isinstance(table, Table) else None)


def _said(failure: DeltaicError) -> str:
    return f"{failure.message} ({failure.detail})" if failure.detail else failure.message
