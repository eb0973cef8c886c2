"""Decides which versions of a table somebody may still read: the entries of the catalog, live answers, streams.

Whatever was current within the window may still be in somebody's hands: a URL, a page token, a query that was
submitted, a Spark job that opened the table. History that is shared, and a stream that is behind, reach further back.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from deltaic.catalog.items import Table
from deltaic.catalog.submitted_queries import LIFE
from deltaic.delta.log import DeltaLog
from deltaic.delta.property_intervals import DELETED_FILES, DELETED_FILES_DEFAULT, parse_interval
from deltaic.errors import MalformedRequest
from deltaic.protocol.continuations import PAGE_TTL, REFRESH_TTL
from deltaic.storage.locations import Location

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.spark.storage_access import S3Access
from deltaic_pipeline.table.s3_folder import S3Folder

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


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """Where a stream goes on when it is started again."""

    checkpoint: str
    version: int
    """It still needs this version, and every commit from it on."""


def entries_of(admin: "CatalogAdmin", location: str) -> Entries:
    """Look through the whole catalog, which knows no table by its location: a request or two for each share."""
    here = Location.parse(location)
    shared, clones = [], []
    for share in admin.shares.list():
        for table in admin.tables.list(share.name):
            if Location.parse(table.location) == here:
                shared.append(table)
            elif any(
                here.contains(each) or each.contains(here) for each in map(Location.parse, table.auxiliary_locations)
            ):
                clones.append(table)
    return Entries(shared, clones)


def window(url_ttl: timedelta, configuration: dict[str, str], least: timedelta | None = None) -> tuple[timedelta, str]:
    """Return for how long a version stays in use after the next one has come, and what decides it."""
    answers = max(PAGE_TTL, REFRESH_TTL, LIFE) + url_ttl + MARGIN
    kept = parse_interval(configuration.get(DELETED_FILES), DELETED_FILES_DEFAULT)
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


def position(checkpoint: str, table_id: str, access: S3Access) -> StreamPosition:
    """Return where the stream of a checkpoint folder (local or s3://) goes on in the table of this id.

    A stream that has committed no batch yet may need every version: 0. Raises `PipelineError` for a folder that is no
    checkpoint of a stream from this table.
    """
    names, read = _in_s3(checkpoint, access) if "://" in checkpoint else _local(checkpoint)
    offsets, commits = (
        {int(name.removeprefix(folder)) for name in names if name.removeprefix(folder).isdecimal()}
        for folder in ("offsets/", "commits/")
    )
    if not offsets:
        raise PipelineError(f"{checkpoint} is no checkpoint of a stream: no file of the folder offsets is there.")
    committed = offsets & commits
    try:
        # Spark's OffsetSeqLog: a version, a line of metadata, then a line for each source.
        lines = read(f"offsets/{max(committed or offsets)}").decode().split("\n")[2:]
        sources = [json.loads(line) for line in lines if line.startswith("{")]
        found = [int(one["reservoirVersion"]) for one in sources if one.get("reservoirId") == table_id]
    except (ValueError, KeyError, AttributeError) as broken:
        raise PipelineError(f"{checkpoint} cannot be read: {broken}") from broken
    if not found:
        raise PipelineError(f"{checkpoint} belongs to a stream that does not read this table.")
    return StreamPosition(checkpoint, min(found) if committed else 0)


def _local(checkpoint: str) -> tuple[list[str], Callable[[str], bytes]]:
    root = Path(checkpoint)
    names = [f"{folder}/{file.name}" for folder in ("offsets", "commits") for file in root.glob(f"{folder}/*")]
    return names, lambda name: (root / name).read_bytes()


def _in_s3(checkpoint: str, access: S3Access) -> tuple[list[str], Callable[[str], bytes]]:
    folder = S3Folder(checkpoint, access)
    return [found.name for found in folder.objects()], folder.store.get
