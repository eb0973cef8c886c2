"""Commit times of a table's versions, and lookup of a version by time.

Delta protocol, "In-Commit Timestamps": where they are enabled, the in-commit timestamp is the time of a version, from
the enablement version on. Otherwise it is the time of the commit file (see deltaic.delta.times).
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import cache

import msgspec

from deltaic.delta.actions import Metadata
from deltaic.delta.commits import in_commit_timestamp
from deltaic.delta.log_files import read_listed, reading
from deltaic.delta.paths import LOG, LogListing, read_listing
from deltaic.delta.snapshot import records_in_commit_timestamps
from deltaic.delta.store import TableStore
from deltaic.delta.times import file_times
from deltaic.errors import MalformedRequest, TableUnreadable
from deltaic.timestamps import EPOCH, format_ms


def _format_for_request(timestamp: int) -> str:
    """Return a time in the format of requests, like ` (2000-01-01T00:00:00.000Z)`."""
    try:
        return f" ({(EPOCH + timedelta(milliseconds=timestamp)).isoformat(timespec='milliseconds')[:-6]}Z)"
    except OverflowError:
        return ""


class TimedVersions(msgspec.Struct, frozen=True):
    """Versions in the order of their commits, with their times."""

    versions: Sequence[int]
    time_of: Callable[[int], int]
    """Returns the commit time (ms since the epoch) of the version at an index of `versions`."""

    def first_not_before(self, timestamp: int) -> int:
        """Return the index of the first version at or after `timestamp`; the number of versions if there is none."""
        return bisect_left(range(len(self.versions)), timestamp, key=self.time_of)


class History:
    """Commit times of all readable versions."""

    def __init__(self, ranges: Sequence[TimedVersions]) -> None:
        """Combine ranges of versions in order, of which at least one is not empty."""
        self._ranges = [range_ for range_ in ranges if range_.versions]

    def version_at_or_after(self, timestamp: int) -> int:
        """Return the first version committed at or after `timestamp` (ms since the epoch).

        Raises MalformedRequest if the time is after the last commit.
        """
        for range_ in self._ranges:
            if (at := range_.first_not_before(timestamp)) < len(range_.versions):
                return range_.versions[at]
        raise self._after_latest_error(timestamp)

    def version_at_or_before(self, timestamp: int) -> int:
        """Return the last version committed at or before `timestamp` (ms since the epoch).

        Raises MalformedRequest if the time is before the first readable commit or after the last commit.
        """
        last = self._ranges[-1]
        if timestamp > last.time_of(len(last.versions) - 1):
            raise self._after_latest_error(timestamp)
        for range_ in reversed(self._ranges):
            if (at := range_.first_not_before(timestamp + 1)) > 0:
                return range_.versions[at - 1]
        first = self._ranges[0]
        time = first.time_of(0)
        raise MalformedRequest(
            f"The provided timestamp ({format_ms(timestamp)}) is before the earliest version available: it is before "
            f"the earliest available version {first.versions[0]} ({format_ms(time)}). "
            f"Please use a timestamp greater than or equal to {format_ms(time)}{_format_for_request(time)}."
        )

    def _after_latest_error(self, timestamp: int) -> MalformedRequest:
        last = self._ranges[-1]
        time = last.time_of(len(last.versions) - 1)
        latest = format_ms(time)
        return MalformedRequest(
            f"The provided timestamp ({format_ms(timestamp)}) is after the latest version available: it is after the "
            f"latest available version {last.versions[-1]} ({latest}). "
            f"Please use a timestamp less than or equal to {latest}{_format_for_request(time)}."
        )


def read_history(store: TableStore, latest: Metadata) -> History:
    """Return the commit times of a Delta log from one listing; `latest` is the metadata of the latest version."""
    listing = read_listing(store.list_log())
    readable = _readable_versions(listing)
    if not readable:
        raise TableUnreadable("table files missing: the log has no commit files, so no commit time is known")
    enabled_at = _enablement_version(latest)
    split = len(readable) if enabled_at is None else bisect_left(readable, enabled_at)
    by_file, with_own_time = readable[:split], readable[split:]
    times = file_times(listing)

    @cache
    def in_commit_time(version: int) -> int:
        file = listing.commits[version].file
        with reading(LOG + file.name):
            return in_commit_timestamp(read_listed(store, file), LOG + file.name)

    return History([
        TimedVersions(by_file, lambda at: times[by_file[at]]),
        TimedVersions(with_own_time, lambda at: in_commit_time(with_own_time[at])),
    ])  # fmt: skip


def _readable_versions(listing: LogListing) -> list[int]:
    starts = [checkpoint.version for checkpoint in listing.checkpoints]
    first = 0 if 0 in listing.commits else min(starts, default=0)
    return [version for version in sorted(listing.commits) if version >= first]


def _enablement_version(metadata: Metadata) -> int | None:
    if not records_in_commit_timestamps(metadata):
        return None
    text = metadata.configuration.get("delta.inCommitTimestampEnablementVersion", "0")
    try:
        return int(text)
    except ValueError as broken:
        raise TableUnreadable(
            f"the table's log is inconsistent: delta.inCommitTimestampEnablementVersion is '{text}'"
        ) from broken
