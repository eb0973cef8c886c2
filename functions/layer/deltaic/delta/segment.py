"""Decides which files of the log make a version: the newest complete checkpoint, and every commit after it.

Guarantees of a Segment: its checkpoint is complete and not newer than the version; its commits start right after the
checkpoint (or at 0), follow each other without a gap up to the version, and contain nothing twice. The hint
`_last_checkpoint` only saves listing: a stale, corrupt, wrong or missing one changes no answer.
"""

from itertools import takewhile
from typing import Final

import msgspec

from deltaic.delta.paths import LAST_CHECKPOINT, LOG, Checkpoint, Commit, LogListing, read_listing, version_prefix
from deltaic.delta.store import LogFile, TableStore
from deltaic.errors import DeltaicError, MalformedRequest, TableUnreadable

_LOOK_BACK: Final = 1000
"""How many versions back a listing starts that looks for the checkpoint of an older version: one page of S3."""


class Segment(msgspec.Struct, frozen=True):
    """The files that make one version."""

    version: int
    checkpoint: Checkpoint | None
    commits: tuple[Commit, ...]
    """Ascending; a log compaction file stands for the commits that it covers."""
    checksum: LogFile | None
    """`N.crc` of the version, unless it is missing or older than `N.json`."""
    own: LogFile | None
    """`N.json` of the version; None where only the checkpoint is left."""

    @property
    def base(self) -> str:
        """Identity of the checkpoint that this segment stands on; empty when it stands on none."""
        return self.checkpoint.identity if self.checkpoint else ""


class _Hint(msgspec.Struct):
    version: int


_NO_START: Final = (
    f"table files missing: {LOG}{version_prefix(0)}.json: the log has neither its first commit nor a whole checkpoint"
)
_hint: Final = msgspec.json.Decoder(_Hint)


class _NoBase(Exception):
    """No checkpoint and no commit 0 to start from, in what was listed."""


def find_segment(
    store: TableStore, version: int | None = None, *, base: str | None = None, hint: int | None = None
) -> Segment:
    """Find the files that make `version`, or the latest one.

    `base` asks for the segment that stands on the very checkpoint of that identity ("" for none), as a page token
    pins it. `hint` is the version of a checkpoint that the caller has seen: then `_last_checkpoint` is not asked for,
    and a wrong one costs a second listing and no more. Raises MalformedRequest for a version that the log does not
    have and for a base that is gone, TableUnreadable for an empty log and for a gap. Requests: the hint and one
    listing, or one listing.
    """
    if version is not None and base is not None:
        return _find_pinned(store, version, base)
    try:
        return _find(store, version, hint)
    except TableUnreadable:
        # A commit that lands on the border of two pages of a listing can look like a gap: look again before saying so.
        return _find(store, version)


def segment_of(listing: LogListing) -> Segment:
    """Choose the files of the latest version from a listing that reaches back far enough; raises TableUnreadable."""
    if listing.latest is None:
        raise TableUnreadable("table files missing: the table has no Delta log (_delta_log/ is empty or absent)")
    try:
        return _segment(listing, listing.latest)
    except _NoBase as truncated:
        raise TableUnreadable(_NO_START) from truncated


def earlier_segment(store: TableStore, segment: Segment, failure: DeltaicError) -> Segment:
    """Return the segment that makes the same version from the checkpoint before, or from all commits.

    Raises `failure` unless a file of the checkpoint is missing, empty or corrupt, and if older commits are gone.
    """
    path, is_empty, _ = failure.detail.partition(": 0 bytes")  # see `reading` and `check_length`
    is_of_checkpoint = path.endswith(".parquet") or (".checkpoint." in path and path.endswith(".json"))
    if not is_of_checkpoint or not (is_empty or type(failure) is TableUnreadable):
        raise failure
    listing = read_listing(store.list_log(), until=segment.version)
    older = list(takewhile(lambda checkpoint: checkpoint.identity != segment.base, listing.checkpoints))
    try:
        return _assemble(listing, segment.version, older[-1] if older else None)
    except (_NoBase, TableUnreadable):
        raise failure from None


def read_hint(store: TableStore) -> int:
    """Return the version of the checkpoint that `_last_checkpoint` names; 0 when it says nothing useful.

    One that the store refuses says nothing: S3 refuses a missing object to a caller that may not list the bucket.
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
        return segment_of(listing)
    if listing.latest is not None and version > listing.latest:
        latest = read_listing(store.list_log(version_prefix(listing.latest))).latest or listing.latest
        raise _gap(version, version) if version < latest else _no_such_version(version, latest)
    try:
        return _segment(listing, version)
    except _NoBase as truncated:
        raise _truncated(version, read_listing(store.list_log())) from truncated


def _find_pinned(store: TableStore, version: int, base: str) -> Segment:
    first = base.partition("-")[0]
    listing = read_listing(store.list_log(version_prefix(int(first)) if first.isdecimal() else ""), until=version)
    checkpoint = next((found for found in listing.checkpoints if found.identity == base), None)
    if base and checkpoint is None:
        raise checkpoint_replaced()
    try:
        return _assemble(listing, version, checkpoint)
    except (_NoBase, TableUnreadable) as gone:
        raise MalformedRequest(
            "The table's log has been cleaned up since the first page of this query. Please restart the query."
        ) from gone


def checkpoint_replaced() -> MalformedRequest:
    """Return the refusal of a position whose checkpoint no longer stands."""
    return MalformedRequest(
        "The table's checkpoint has been replaced since the first page of this query. Please restart the query."
    )


def _segment(listing: LogListing, version: int) -> Segment:
    checkpoint = next((found for found in reversed(listing.checkpoints) if found.version <= version), None)
    return _assemble(listing, version, checkpoint)


def _assemble(listing: LogListing, version: int, checkpoint: Checkpoint | None) -> Segment:
    longest = {
        one.start: one
        for one in sorted(listing.compactions, key=lambda one: one.end)
        if one.end <= version and any(covered not in listing.commits for covered in range(one.start, one.end + 1))
    }
    commits: list[Commit] = []
    at = checkpoint.version + 1 if checkpoint else 0
    while at <= version:
        # Delta protocol, "Log Compaction Files": x.y.compacted.json stands for the commits x to y. Some hold
        # both an add and a remove of one file, in no order, so commits that are there are read instead.
        commit = longest.get(at) or listing.commits.get(at)
        if commit is None and at == 0:
            raise _NoBase
        if commit is None:
            raise _gap(at, version)
        commits.append(commit)
        at = commit.end + 1
    own, checksum = listing.commits.get(version), listing.checksums.get(version)
    if own is None or (checksum is not None and checksum.modified < own.file.modified):
        checksum = None  # it describes an earlier commit of this version, if any
    return Segment(version, checkpoint, tuple(commits), checksum, own.file if own else None)


def _gap(missing: int, version: int) -> TableUnreadable:
    return TableUnreadable(
        f"table files missing: {LOG}{version_prefix(missing)}.json: the log has a gap, so version {version} of the "
        "table cannot be read"
    )


def _no_such_version(version: int, latest: int) -> MalformedRequest:
    return MalformedRequest(
        f"Cannot load table version {version} as it does not exist. The latest available version is {latest}."
    )


def _truncated(version: int, whole: LogListing) -> DeltaicError:
    """Say why a version cannot be made, given the whole listing."""
    if whole.latest is not None and version > whole.latest:
        return _no_such_version(version, whole.latest)
    if whole.checkpoints:
        return MalformedRequest(
            f"Cannot load table version {version} as the transaction log has been truncated due to manual deletion or "
            f"the log/checkpoint retention policy. The earliest available version is {whole.checkpoints[0].version}."
        )
    return TableUnreadable(_NO_START)
