"""Times of commits by their files: one time for each version, whoever asks and wherever it starts.

Delta protocol, "In-Commit Timestamps": without them the time of the commit file counts. Files may have equal times (a
copied table, a busy second) or earlier ones than the commit before, so times are made strictly increasing from the
first commit of the log on: a version is at least one millisecond later than the one before.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from deltaic.delta.paths import LogListing, read_listing, version_prefix
from deltaic.delta.store import LogFile, TableStore

_LOOK_BACK: Final = 500
"""Versions before a range that are listed first: with checksums and checkpoints about one page of S3."""


def increasing(files: Sequence[LogFile]) -> list[int]:
    """Return the times of commit files (in version order) made strictly increasing, in ms since the epoch."""
    times: list[int] = []
    for file in files:
        times.append(file.modified if not times else max(file.modified, times[-1] + 1))
    return times


def file_times(listing: LogListing) -> dict[int, int]:
    """Return the time of each commit of a listing, which must be whole or `settled`."""
    versions = sorted(listing.commits)
    return dict(zip(versions, increasing([listing.commits[version].file for version in versions]), strict=True))


def list_times(store: TableStore, start: int, end: int) -> tuple[LogListing, Mapping[int, int]]:
    """List the log from version `start` to `end` (or a little before), with the times of the commits in between.

    Requests: one listing of a part of the log, and where that cannot tell the times, one of the whole log.
    """
    first = max(start - _LOOK_BACK, 0)
    listing = read_listing(store.list_log(version_prefix(first) if first else ""), until=end)
    if first and not _settled(listing, start):
        listing = read_listing(store.list_log(), until=end)
    return listing, file_times(listing)


def file_time(store: TableStore, version: int) -> int | None:
    """Return the time of one commit; None where the log has no such commit (any more). Requests as `list_times`."""
    return list_times(store, version, version)[1].get(version)


def _settled(listing: LogListing, start: int) -> bool:
    """Tell whether commits before this listing do not matter for the times from `start` on.

    If no file is older than the one before it, an earlier commit can move `start` to the time of the first commit here
    and one millisecond for each version in between, at most. What is later than that is its own time.
    """
    before = [listing.commits[version].file.modified for version in sorted(listing.commits) if version <= start]
    in_order = all(earlier <= later for earlier, later in pairwise(before))
    return bool(before) and in_order and before[-1] - before[0] >= start
