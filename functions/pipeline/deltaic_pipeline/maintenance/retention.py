"""Decides which versions of a table somebody may still read: the entries of the catalog, live answers, streams.

Whatever was current within the window may still be in somebody's hands: a URL, a page token, a query that was
submitted, a Spark job that opened the table. History that is shared, and a stream that is behind, reach further back.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from deltaic.catalog.items import Table
from deltaic.catalog.queries import LIFE
from deltaic.delta.log import DeltaLog
from deltaic.delta.property_intervals import DELETED_FILES, DELETED_FILES_UNSAID, parse_interval
from deltaic.errors import MalformedRequest
from deltaic.protocol.continuations import PAGE_TTL, REFRESH_TTL
from deltaic.storage.locations import Location

from deltaic_pipeline.maintenance.positions import StreamPosition

if TYPE_CHECKING:
    from deltaic.catalog.admin.catalog_admin import CatalogAdmin

MARGIN = timedelta(hours=1)
"""Between a commit and the clocks of who signs, who reads and who deletes."""


@dataclass(frozen=True, slots=True)
class Entries:
    """What a catalog says of one location."""

    shared: Sequence[Table]
    clones: Sequence[Table]
    """Entries of other tables whose logs may name files that lie here."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Somebody who may read a version, and for whose sake it is kept."""

    version: int
    """This one and every later one."""

    changes: bool
    """Also what the commit of `version` itself took away, and its change data."""

    lasting: bool
    """However old the version is; else only while the window lasts."""

    why: str

    @property
    def first_commit(self) -> int:
        """The first commit whose removed files and change data are needed."""
        return self.version if self.changes else self.version + 1


def entries_of(admin: "CatalogAdmin", location: str) -> Entries:
    """Look through the whole catalog, which knows no table by its location: a request or two for each share."""
    here = Location.parse(location)
    shared, clones = [], []
    for share in admin.shares.list():
        for table in admin.tables.list(share.name):
            if Location.parse(table.location) == here:
                shared.append(table)
            elif any(_overlap(here, Location.parse(other)) for other in table.auxiliary_locations):
                clones.append(table)
    return Entries(shared, clones)


def window(url_ttl: timedelta, configuration: dict[str, str], least: timedelta | None = None) -> tuple[timedelta, str]:
    """Return for how long a version stays in use after the next one has come, and what decides it."""
    answers = max(PAGE_TTL, REFRESH_TTL, LIFE) + url_ttl + MARGIN
    kept = parse_interval(configuration.get(DELETED_FILES), DELETED_FILES_UNSAID)
    longest = max(answers, kept, least or timedelta(0))
    if longest == least:
        return longest, "--keep"
    return longest, DELETED_FILES if longest == kept else "page tokens, and the life of the URLs that they give"


def readers(
    log: DeltaLog, entries: Entries, streams: Sequence[StreamPosition], current_since: int, now_ms: int
) -> Iterator[Reader]:
    """Yield who may read what: at least the version that was current at `current_since` (ms since the epoch).

    That one is kept for whoever began to read it at the last moment at which it was the latest.
    """
    version = current_at(log, current_since)
    days = timedelta(milliseconds=now_ms - current_since) / timedelta(days=1)
    why = f"version {version}, the oldest that was current in the last {days:.3g} days"
    yield Reader(version, changes=False, lasting=False, why=why)
    for table in entries.shared:
        if table.history:
            why = f"the history is shared from version {table.start_version} on as {table.title}"
            yield Reader(table.start_version, changes=table.start_version == 0, lasting=True, why=why)
    for stream in streams:
        why = f"the stream of {stream.checkpoint} goes on at version {stream.version}"
        yield Reader(stream.version, changes=True, lasting=True, why=why)


def current_at(log: DeltaLog, moment: int) -> int:
    """Return the version that was the latest at `moment` (ms since the epoch), or the oldest one that has a time."""
    latest = log.snapshot()
    if moment >= latest.timestamp:
        return latest.version
    try:
        return log.history.version_at_or_before(moment)
    except MalformedRequest:  # before the first commit that is left, or at odds with the file's own time
        return 0


def _overlap(one: Location, other: Location) -> bool:
    return one.contains(other) or other.contains(one)
