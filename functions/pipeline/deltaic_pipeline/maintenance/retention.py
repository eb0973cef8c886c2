"""Find the versions of a table that readers can still use: by catalog entries, open requests and streams.

Every version that was the latest one within the retention window can still be in use: by a signed URL, a page token, a
submitted query, or a Spark job that has opened the table. Shared history and slow streams can need older versions.
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
"""Additional time for differences between the clocks of the writer, the server, the reader and this job."""


@dataclass(frozen=True, slots=True)
class LocationEntries:
    """Catalog entries whose tables can read files in one location."""

    shared: Sequence[Table]
    clones: Sequence[Table]
    """Entries of other tables, such as shallow clones, whose logs can name files in this location."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Group of readers (open requests, recipients or a stream) that can read a version and all later versions."""

    version: int
    """Oldest version that is kept for these readers."""

    changes: bool
    """Whether the files that the commit of `version` removed, and its change data, are kept too."""

    lasting: bool
    """Whether the version is needed regardless of its age, and not only within the retention window."""

    why: str

    @property
    def first_commit(self) -> int:
        """Oldest commit whose removed files and change data these readers need."""
        return self.version if self.changes else self.version + 1


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """Version of the table from which a stream continues when it is restarted."""

    checkpoint: str
    version: int
    """Oldest version that the stream still needs, together with all later commits."""


def find_entries(admin: "CatalogAdmin", location: str) -> LocationEntries:
    """Return the catalog entries for a location, read from all shares with one or two requests for each share."""
    target = Location.parse(location)
    shared, clones = [], []
    for share in admin.shares.list():
        for table in admin.tables.list(share.name):
            if Location.parse(table.location) == target:
                shared.append(table)
            elif any(
                target.contains(other) or other.contains(target)
                for other in map(Location.parse, table.auxiliary_locations)
            ):
                clones.append(table)
    return LocationEntries(shared, clones)


def window(url_ttl: timedelta, configuration: dict[str, str], least: timedelta | None = None) -> tuple[timedelta, str]:
    """Return how long a version can be read after the next version's commit, and the setting that gives this time."""
    open_requests = max(PAGE_TTL, REFRESH_TTL, LIFE) + url_ttl + MARGIN
    deleted_files = parse_interval(configuration.get(DELETED_FILES), DELETED_FILES_DEFAULT)
    longest = max(open_requests, deleted_files, least or timedelta(0))
    if longest == least:
        return longest, "--keep"
    return longest, DELETED_FILES if longest == deleted_files else "page tokens, and the lifetime of their URLs"


def readers(
    log: DeltaLog, entries: LocationEntries, streams: Sequence[StreamPosition], current_since: int, now_ms: int
) -> Iterator[Reader]:
    """Yield a table's groups of readers; the first group needs the version that was the latest at `current_since`.

    A reader can have opened that version immediately before its successor's commit. Times are in ms since the epoch.
    """
    version = version_at(log, current_since)
    days = timedelta(milliseconds=now_ms - current_since) / timedelta(days=1)
    reason = f"version {version}, the oldest that was the latest within the last {days:.3g} days"
    yield Reader(version, changes=False, lasting=False, why=reason)
    for table in entries.shared:
        if table.history:
            reason = f"the history is shared from version {table.start_version} on as {table.title}"
            yield Reader(table.start_version, changes=table.start_version == 0, lasting=True, why=reason)
    for stream in streams:
        reason = f"the stream of {stream.checkpoint} continues at version {stream.version}"
        yield Reader(stream.version, changes=True, lasting=True, why=reason)


def version_at(log: DeltaLog, time_ms: int) -> int:
    """Return the version that was the latest at `time_ms` (ms since the epoch); 0 if the log cannot tell."""
    latest = log.snapshot()
    if time_ms >= latest.timestamp:
        return latest.version
    try:
        return log.history.version_at_or_before(time_ms)
    except MalformedRequest:  # earlier than the first remaining commit, or timestamps that contradict each other
        return 0


def stream_position(checkpoint: str, table_id: str, access: S3Access) -> StreamPosition:
    """Read the position of a stream in the table with this id from its checkpoint folder (local or s3://).

    A stream without a committed batch can need every version, so its position is 0. Raises `PipelineError` if the
    folder is not the checkpoint of a stream that reads this table.
    """
    names, read = _in_s3(checkpoint, access) if "://" in checkpoint else _local(checkpoint)
    offsets, commits = (
        {int(name.removeprefix(folder)) for name in names if name.removeprefix(folder).isdecimal()}
        for folder in ("offsets/", "commits/")
    )
    if not offsets:
        raise PipelineError(f"{checkpoint} is not the checkpoint of a stream: its `offsets` folder has no files.")
    committed = offsets & commits
    try:
        # Spark's OffsetSeqLog: a version, a line of metadata, then a line for each source.
        lines = read(f"offsets/{max(committed or offsets)}").decode().split("\n")[2:]
        sources = [json.loads(line) for line in lines if line.startswith("{")]
        versions = [int(source["reservoirVersion"]) for source in sources if source.get("reservoirId") == table_id]
    except (ValueError, KeyError, AttributeError) as broken:
        raise PipelineError(f"{checkpoint} cannot be read: {broken}") from broken
    if not versions:
        raise PipelineError(f"{checkpoint} belongs to a stream that does not read this table.")
    return StreamPosition(checkpoint, min(versions) if committed else 0)


def _local(checkpoint: str) -> tuple[list[str], Callable[[str], bytes]]:
    root = Path(checkpoint)
    names = [f"{folder}/{file.name}" for folder in ("offsets", "commits") for file in root.glob(f"{folder}/*")]
    return names, lambda name: (root / name).read_bytes()


def _in_s3(checkpoint: str, access: S3Access) -> tuple[list[str], Callable[[str], bytes]]:
    folder = S3Folder(checkpoint, access)
    return [file.name for file in folder.objects()], folder.store.get
