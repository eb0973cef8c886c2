"""Changes of a commit: which of its actions a reader of changes must see, in log order.

Delta protocol, "Reader Requirements for AddCDCFile": a commit that has cdc actions is read from those alone. A MERGE
that touched no row may rewrite files all the same; it changed nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from deltaic.delta.actions import Add, AddCdcFile, Metadata, Protocol, Remove, integer, text
from deltaic.delta.commit_cache import CommitCache, ReadFiles
from deltaic.delta.commits import FileActions, lines_of, metadata_in, object_in, protocol_in, windows
from deltaic.delta.log_files import reading
from deltaic.delta.paths import LOG, Commit, version_prefix
from deltaic.delta.store import TableStore
from deltaic.delta.times import list_times
from deltaic.errors import MalformedRequest, TableUnreadable

_WINDOW_COMMITS: Final = 32


class FileChange(msgspec.Struct, frozen=True):
    """An add, remove or cdc action."""

    action: Add | Remove | AddCdcFile


Change = FileChange | Metadata | Protocol


class CommitChanges(msgspec.Struct, frozen=True):
    """One commit: its version, its time (ms since the epoch) and its actions in log order."""

    version: int
    timestamp: int
    actions: tuple[Change, ...]
    merged_nothing: bool
    updates_none: bool
    """Its writer says that it deletes and inserts rows and updates none, so its cdc files hold no half of an update."""
    size: int
    """Bytes of the commit in the log."""
    mark: str = ""
    """What its writer put into `userMetadata`."""

    @property
    def metadata(self) -> Metadata | None:
        """The metadata that this commit sets, if any."""
        return next((action for action in reversed(self.actions) if isinstance(action, Metadata)), None)

    @property
    def protocol(self) -> Protocol | None:
        """The protocol that this commit sets, if any."""
        return next((action for action in reversed(self.actions) if isinstance(action, Protocol)), None)

    def data(self) -> list[Change]:
        """Return what a stream of the table sees: adds and removes that change data; metadata and protocol too."""
        return [action for action in self.actions if not isinstance(action, FileChange) or _changes_data(action)]

    def change_data(self) -> list[Change]:
        """Return what the change feed sees: cdc files where there are any, else as `data`; metadata and protocol."""
        recorded = any(_is_cdc(action) for action in self.actions)
        if not recorded and not self.merged_nothing:
            return self.data()
        return [action for action in self.actions if not isinstance(action, FileChange) or _is_cdc(action)]


class _CommitLine(FileActions, gc=False):
    cdc: AddCdcFile | None = None
    commit_info: msgspec.Raw = msgspec.field(name="commitInfo", default_factory=msgspec.Raw)


_lines: Final = msgspec.json.Decoder(_CommitLine, strict=False)


class CommitRange(msgspec.Struct, frozen=True):
    """Commits that follow each other, listed and not read yet; iterating reads them, a window at a time."""

    contents: ReadFiles
    commits: Sequence[Commit]
    times: Mapping[int, int]
    """When each version was written (see deltaic.delta.times)."""

    def __iter__(self) -> Iterator[CommitChanges]:
        """Read all of them, ascending."""
        return self.read(0)

    def read(self, after: int, at_once: int | None = None) -> Iterator[CommitChanges]:
        """Read the commits but the first `after` ones, ascending; raises TableUnreadable for a broken one, by name.

        `at_once` is how many are fetched at first, by whoever may not need more; then twice as many, and so on.
        """
        at, most = after, min(at_once or _WINDOW_COMMITS, _WINDOW_COMMITS)
        while at < len(self.commits):
            window = next(windows(self.commits[at : at + most]))
            with reading(window[0].path):
                contents = self.contents([commit.file for commit in window])
            for commit, content in zip(window, contents, strict=True):
                yield commit_changes(content, commit.path, commit.start, self.times[commit.start])
            at, most = at + len(window), min(2 * most, _WINDOW_COMMITS)


def list_changes(store: TableStore, start: int, end: int, cache: CommitCache, table: str) -> CommitRange:
    """Return the commits `start` to `end`, both included, without a gap; requests as `times.list_times`.

    What the cache keeps of them is not fetched; `table` names the table there.
    Raises MalformedRequest for a range past the latest version, TableUnreadable for a missing commit, naming it.
    """
    listing, times = list_times(store, start, end)
    latest = listing.latest
    for version in range(start, end + 1):
        if version not in listing.commits:
            if latest is None or version > latest:
                raise MalformedRequest(f"Cannot load table version {version} as it does not exist.")
            raise TableUnreadable(f"table files missing: {LOG}{version_prefix(version)}.json")
    commits = [listing.commits[version] for version in range(start, end + 1)]
    contents = cache.reader(table, store, [commit.file for commit in commits])
    return CommitRange(contents, commits, times)


def commit_changes(content: bytes, path: str, version: int, file_time: int) -> CommitChanges:
    """Read one commit; its in-commit timestamp, where it has one, counts for more than the time of its file."""
    actions: list[Change] = []
    timestamp = file_time
    merged_nothing, mark = False, ""
    updates_none: list[bool] = []
    for line in lines_of(content, path, _lines):
        actions += [FileChange(action) for action in (line.add, line.remove, line.cdc) if action is not None]
        actions += filter(None, (metadata_in(line.meta_data, path), protocol_in(line.protocol, path)))
        if (about := object_in(line.commit_info, path)) is not None:
            own = integer(about.get("inCommitTimestamp"))
            timestamp = own if isinstance(own, int) else timestamp
            merged_nothing = merged_nothing or _merged_nothing(about)
            updates_none.append(_updates_none(about))
            mark = text(about.get("userMetadata") or "")
    told = bool(updates_none) and all(updates_none)
    return CommitChanges(version, timestamp, tuple(actions), merged_nothing, told, len(content), mark)


def _is_cdc(action: Change) -> bool:
    return isinstance(action, FileChange) and isinstance(action.action, AddCdcFile)


def _changes_data(change: FileChange) -> bool:
    return not isinstance(change.action, AddCdcFile) and change.action.data_change is not False


def _merged_nothing(info: dict[str, Any]) -> bool:
    metrics = info.get("operationMetrics")
    if not isinstance(metrics, dict):
        return False  # nobody's word on how the commitInfo looks: the protocol leaves it to the writer
    counts = [metrics.get(f"numTargetRows{kind}") for kind in ("Inserted", "Updated", "Deleted")]
    return info.get("operation") == "MERGE" and all(str(count) == "0" for count in counts)


def _updates_none(info: dict[str, Any]) -> bool:
    """Tell whether an operation updates no row; Spark and deltalake spell the metric of a MERGE differently."""
    operation, metrics = info.get("operation"), info.get("operationMetrics")
    if operation == "MERGE" and isinstance(metrics, dict):
        updated = metrics.get("numTargetRowsUpdated", metrics.get("num_target_rows_updated"))
        return str(updated) == "0"
    return operation == "DELETE"
