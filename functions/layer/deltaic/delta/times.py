"""Derive commit times from file times; a version's time does not depend on where the log listing starts.

Delta protocol, "In-Commit Timestamps": without them the time of the commit file counts. Files can have equal times (a
copied table, a busy second), or be older than the previous commit. Times are therefore made strictly increasing from
the first commit of the log: each version is at least one millisecond later than the one before.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from deltaic.delta.paths import LogListing, read_listing, version_prefix
from deltaic.delta.store import LogFile, TableStore

_LOOK_BACK: Final = 500
"""Number of versions before a range that are listed first: about one S3 page with checksums and checkpoints."""


def increasing(files: Sequence[LogFile]) -> list[int]:
    """Return the modification times of commit files, made strictly increasing, in ms since the epoch."""
    times: list[int] = []
    for file in files:
        times.append(file.modified if not times else max(file.modified, times[-1] + 1))
    return times


def file_times(listing: LogListing) -> dict[int, int]:
    """Return the time of each commit in a log listing that is complete or `_settled`."""
    versions = sorted(listing.commits)
    return dict(zip(versions, increasing([listing.commits[version].file for version in versions]), strict=True))


def list_times(store: TableStore, start: int, end: int) -> tuple[LogListing, Mapping[int, int]]:
    """Return a listing of the log from about `start` to `end`, and commit times by version.

    Requests: one listing of a part of the log; if its files do not determine the times, one of the complete log.
    """
    first = max(start - _LOOK_BACK, 0)
    listing = read_listing(store.list_log(version_prefix(first) if first else ""), until=end)
    if first and not _settled(listing, start):
        listing = read_listing(store.list_log(), until=end)
    return listing, file_times(listing)


def file_time(store: TableStore, version: int) -> int | None:
    """Return one version's commit time, with the requests of `list_times`; None if the commit file is missing."""
    return list_times(store, version, version)[1].get(version)


def _settled(listing: LogListing, start: int) -> bool:
    """Return whether the times from `start` on are the same, whatever commits precede this listing.

    If no file is older than the one before, earlier commits can move `start` to at most the time of the first commit in
    this listing plus one millisecond per version. If a file's time is later than that, earlier commits do not
    change it.
    """
    earlier_times = [listing.commits[version].file.modified for version in sorted(listing.commits) if version <= start]
    is_ordered = all(first <= second for first, second in pairwise(earlier_times))
    return bool(earlier_times) and is_ordered and earlier_times[-1] - earlier_times[0] >= start
