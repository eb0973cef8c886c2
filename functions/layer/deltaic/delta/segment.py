"""Select a version's log files: the newest complete checkpoint and all later commits.

A Segment guarantees: its checkpoint is complete and not newer than the version; its commits start right after the
checkpoint (or at 0), reach the version without a gap, and do not overlap. The hint `_last_checkpoint` only shortens the
listing: a wrong or missing hint does not change the result.
"""

from itertools import takewhile
from typing import Final

import msgspec

from deltaic.delta.paths import (
    LAST_CHECKPOINT,
    LOG,
    CheckpointFiles,
    CommitFile,
    LogListing,
    read_listing,
    version_prefix,
)
from deltaic.delta.store import LogFile, TableStore
from deltaic.errors import DeltaicError, MalformedRequest, TableUnreadable

_LOOK_BACK: Final = 1000
"""Number of earlier versions to list when looking for the checkpoint of an older version: one S3 listing page."""


class Segment(msgspec.Struct, frozen=True):
    """Log files of one version."""

    version: int
    checkpoint: CheckpointFiles | None
    commits: tuple[CommitFile, ...]
    """Ascending; a log compaction file replaces the commits that it covers."""
    checksum: LogFile | None
    """`N.crc` of the version; None if it is missing or older than `N.json`."""
    commit_file: LogFile | None
    """`N.json` of the version; None if only the checkpoint remains."""

    @property
    def base(self) -> str:
        """Identity of the checkpoint that this segment starts from; empty without a checkpoint."""
        return self.checkpoint.identity if self.checkpoint else ""


class _Hint(msgspec.Struct):
    version: int


_NO_START: Final = (
    f"table files missing: {LOG}{version_prefix(0)}.json: the log has neither commit 0 nor a complete checkpoint"
)
_hint: Final = msgspec.json.Decoder(_Hint)


class _NoStart(Exception):
    """Raised if a log listing contains neither a usable checkpoint nor commit 0."""


def find_segment(
    store: TableStore, version: int | None = None, *, base: str | None = None, hint: int | None = None
) -> Segment:
    """Find the log files of `version`, by default of the latest version.

    `base` is the identity of the checkpoint to start from ("" for none), which a page token contains. `hint` is the
    version of a checkpoint that the caller knows; it replaces the read of `_last_checkpoint`, and a wrong hint costs a
    second listing. Raises MalformedRequest for a version or base that does not exist, TableUnreadable
    for an empty log and for a gap. Requests: one listing, and the hint for the latest version.
    """
    if version is not None and base is not None:
        return _find_pinned(store, version, base)
    try:
        return _find(store, version, hint)
    except TableUnreadable:
        # A commit written between two pages of a listing can look like a gap, so list again before failing.
        return _find(store, version)


def choose_segment(listing: LogListing) -> Segment:
    """Select the files of the latest version from a log listing; raises TableUnreadable if they are incomplete."""
    if listing.latest is None:
        raise TableUnreadable("table files missing: the table has no Delta log (_delta_log/ is empty or absent)")
    try:
        return _segment(listing, listing.latest)
    except _NoStart as no_start:
        raise TableUnreadable(_NO_START) from no_start


def find_earlier_segment(store: TableStore, segment: Segment, failure: DeltaicError) -> Segment:
    """Return a segment of the same version from an earlier checkpoint or commit 0.

    Raises `failure` unless this error is about a missing, empty or corrupt checkpoint file and older commits exist.
    """
    path, is_empty, _ = failure.detail.partition(": 0 bytes")  # see `reading` and `check_length`
    is_of_checkpoint = path.endswith(".parquet") or (".checkpoint." in path and path.endswith(".json"))
    if not is_of_checkpoint or not (is_empty or type(failure) is TableUnreadable):
        raise failure
    listing = read_listing(store.list_log(), until=segment.version)
    older = list(takewhile(lambda checkpoint: checkpoint.identity != segment.base, listing.checkpoints))
    try:
        return _assemble(listing, segment.version, older[-1] if older else None)
    except (_NoStart, TableUnreadable):
        raise failure from None


def read_hint(store: TableStore) -> int:
    """Return the checkpoint version in `_last_checkpoint`; 0 if the file is missing, invalid or inaccessible.

    S3 returns status 403 for a missing object if the caller may not list the bucket.
    """
    try:
        return max(_hint.decode(store.get(LAST_CHECKPOINT)).version, 0)
    except (FileNotFoundError, TableUnreadable, msgspec.MsgspecError, ValueError, RecursionError):
        return 0


def _find(store: TableStore, version: int | None, hint: int | None = None) -> Segment:
    start = hint or 0
    if version is not None:
        start = max(version - _LOOK_BACK, 0)
    elif hint is None:
        start = read_hint(store)
    listing = read_listing(store.list_log(version_prefix(start) if start else ""), until=version)
    if start and not listing.checkpoints:
        listing = read_listing(store.list_log(), until=version)
    if version is None:
        return choose_segment(listing)
    if listing.latest is not None and version > listing.latest:
        latest = read_listing(store.list_log(version_prefix(listing.latest))).latest or listing.latest
        raise _gap_error(version, version) if version < latest else _missing_version_error(version, latest)
    try:
        return _segment(listing, version)
    except _NoStart as no_start:
        raise _truncated_log_error(version, read_listing(store.list_log())) from no_start


def _find_pinned(store: TableStore, version: int, base: str) -> Segment:
    first = base.partition("-")[0]
    listing = read_listing(store.list_log(version_prefix(int(first)) if first.isdecimal() else ""), until=version)
    checkpoint = next((candidate for candidate in listing.checkpoints if candidate.identity == base), None)
    if base and checkpoint is None:
        raise checkpoint_replaced_error()
    try:
        return _assemble(listing, version, checkpoint)
    except (_NoStart, TableUnreadable) as missing:
        raise MalformedRequest(
            "The table's log has been cleaned up since the first page of this query. Please restart the query."
        ) from missing


def checkpoint_replaced_error() -> MalformedRequest:
    """Return the error for a page whose position names a checkpoint that no longer exists."""
    return MalformedRequest(
        "The table's checkpoint has been replaced since the first page of this query. Please restart the query."
    )


def _segment(listing: LogListing, version: int) -> Segment:
    checkpoint = next((candidate for candidate in reversed(listing.checkpoints) if candidate.version <= version), None)
    return _assemble(listing, version, checkpoint)


def _assemble(listing: LogListing, version: int, checkpoint: CheckpointFiles | None) -> Segment:
    longest = {
        each.start: each
        for each in sorted(listing.compactions, key=lambda compaction: compaction.end)
        if each.end <= version and any(covered not in listing.commits for covered in range(each.start, each.end + 1))
    }
    commits: list[CommitFile] = []
    at = checkpoint.version + 1 if checkpoint else 0
    while at <= version:
        # Delta protocol, "Log Compaction Files": x.y.compacted.json replaces the commits x to y. Some contain
        # both an add and a remove of one file, without an order, so existing commits are preferred.
        commit = longest.get(at) or listing.commits.get(at)
        if commit is None and at == 0:
            raise _NoStart
        if commit is None:
            raise _gap_error(at, version)
        commits.append(commit)
        at = commit.end + 1
    commit_file, checksum = listing.commits.get(version), listing.checksums.get(version)
    if commit_file is None or (checksum is not None and checksum.modified < commit_file.file.modified):
        checksum = None  # it is older than the commit, so it describes a replaced one
    return Segment(version, checkpoint, tuple(commits), checksum, commit_file.file if commit_file else None)


def _gap_error(missing: int, version: int) -> TableUnreadable:
    return TableUnreadable(
        f"table files missing: {LOG}{version_prefix(missing)}.json: the log has a gap, so version {version} of the "
        "table cannot be read"
    )


def _missing_version_error(version: int, latest: int) -> MalformedRequest:
    return MalformedRequest(
        f"Cannot load table version {version} as it does not exist. The latest available version is {latest}."
    )


def _truncated_log_error(version: int, listing: LogListing) -> DeltaicError:
    """Return the error for a version whose log files are incomplete, given the complete listing."""
    if listing.latest is not None and version > listing.latest:
        return _missing_version_error(version, listing.latest)
    if listing.checkpoints:
        return MalformedRequest(
            f"Cannot load table version {version} as the transaction log has been truncated due to manual deletion or "
            f"the log/checkpoint retention policy. The earliest available version is {listing.checkpoints[0].version}."
        )
    return TableUnreadable(_NO_START)
