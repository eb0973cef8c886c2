"""Changes of commits: the actions that a reader of the change data feed needs, in log order.

Delta protocol, "Reader Requirements for AddCDCFile": if a commit has cdc actions, readers ignore its `add` and `remove`
actions. A MERGE that changed no row can still rewrite files; such a commit has no changes.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from deltaic.delta.actions import Add, AddCdcFile, Metadata, Protocol, Remove, integer, text
from deltaic.delta.commit_cache import CommitCache, ReadFiles
from deltaic.delta.commits import FileActions, decode_json, decode_lines, decode_metadata, decode_protocol, to_windows
from deltaic.delta.log_files import reading
from deltaic.delta.paths import LOG, CommitFile, version_prefix
from deltaic.delta.store import TableStore
from deltaic.delta.times import list_times
from deltaic.errors import MalformedRequest, TableUnreadable

_WINDOW_COMMITS: Final = 32


FileChange = Add | Remove | AddCdcFile
Change = FileChange | Metadata | Protocol


class CommitChanges(msgspec.Struct, frozen=True):
    """A commit: version, time (ms since the epoch) and actions in log order."""

    version: int
    timestamp: int
    actions: tuple[Change, ...]
    merged_nothing: bool
    updates_none: bool
    """Whether the commit's metrics report no updated rows, so that no `cdc` file contains a part of an update."""
    size: int
    """Size of the commit file in bytes."""
    mark: str = ""
    """The commit's `userMetadata`, a string that its writer chose."""

    @property
    def metadata(self) -> Metadata | None:
        """The metadata that this commit sets, if any."""
        return next((action for action in reversed(self.actions) if isinstance(action, Metadata)), None)

    @property
    def protocol(self) -> Protocol | None:
        """The protocol that this commit sets, if any."""
        return next((action for action in reversed(self.actions) if isinstance(action, Protocol)), None)

    def data(self) -> list[Change]:
        """Return the `add` and `remove` actions that change data, and `metaData` and `protocol` actions."""
        return [action for action in self.actions if not isinstance(action, FileChange) or _changes_data(action)]

    def change_data(self) -> list[Change]:
        """Return the `cdc`, `metaData` and `protocol` actions; without `cdc` actions, the result of `data`."""
        recorded = any(isinstance(action, AddCdcFile) for action in self.actions)
        if not recorded and not self.merged_nothing:
            return self.data()
        return [action for action in self.actions if not isinstance(action, Add | Remove)]


class _CommitLine(FileActions, gc=False):
    cdc: AddCdcFile | None = None
    commit_info: msgspec.Raw = msgspec.field(name="commitInfo", default_factory=msgspec.Raw)


_lines: Final = msgspec.json.Decoder(_CommitLine, strict=False)


class CommitRange(msgspec.Struct, frozen=True):
    """Consecutive commits that are listed but not read yet; iteration reads a group of commits at a time."""

    contents: ReadFiles
    commits: Sequence[CommitFile]
    times: Mapping[int, int]
    """Commit time of each version in ms since the epoch (see deltaic.delta.times)."""

    def __iter__(self) -> Iterator[CommitChanges]:
        """Read all commits in ascending order."""
        return self.read(0)

    def read(self, after: int, at_once: int | None = None) -> Iterator[CommitChanges]:
        """Read the commits except the first `after` ones; raises TableUnreadable for an invalid commit.

        `at_once` is the number of commits in the first fetch; each further fetch doubles it.
        """
        position, limit = after, min(at_once or _WINDOW_COMMITS, _WINDOW_COMMITS)
        while position < len(self.commits):
            window = next(to_windows(self.commits[position : position + limit]))
            with reading(window[0].path):
                contents = self.contents([commit.file for commit in window])
            for commit, content in zip(window, contents, strict=True):
                yield commit_changes(content, commit.path, commit.start, self.times[commit.start])
            position, limit = position + len(window), min(2 * limit, _WINDOW_COMMITS)


def list_changes(store: TableStore, start: int, end: int, cache: CommitCache, table: str) -> CommitRange:
    """Return the commits `start` to `end`, both included; raises an error if a commit is missing.

    `table` identifies the table in the cache. Sends the same requests as `times.list_times`. Raises MalformedRequest
    for a range past the latest version, and TableUnreadable with the name of a missing commit.
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
    """Decode one commit; its in-commit timestamp, if any, replaces `file_time` (time of its file)."""
    actions: list[Change] = []
    timestamp = file_time
    merged_nothing, mark = False, ""
    updates_none: list[bool] = []
    for line in decode_lines(content, path, _lines):
        decoded = (decode_metadata(line.meta_data, path), decode_protocol(line.protocol, path))
        actions += [action for action in (line.add, line.remove, line.cdc, *decoded) if action is not None]
        if (info := decode_json(line.commit_info, path)) is not None:
            in_commit_timestamp = integer(info.get("inCommitTimestamp"))
            timestamp = in_commit_timestamp if isinstance(in_commit_timestamp, int) else timestamp
            merged_nothing = merged_nothing or _merged_nothing(info)
            updates_none.append(_updates_none(info))
            mark = text(info.get("userMetadata") or "")
    all_update_none = bool(updates_none) and all(updates_none)
    return CommitChanges(version, timestamp, tuple(actions), merged_nothing, all_update_none, len(content), mark)


def _changes_data(change: FileChange) -> bool:
    return not isinstance(change, AddCdcFile) and change.data_change is not False


def _merged_nothing(info: dict[str, Any]) -> bool:
    metrics = info.get("operationMetrics")
    if not isinstance(metrics, dict):
        return False  # the protocol does not define the contents of commitInfo
    counts = [metrics.get(f"numTargetRows{kind}") for kind in ("Inserted", "Updated", "Deleted")]
    return info.get("operation") == "MERGE" and all(str(count) == "0" for count in counts)


def _updates_none(info: dict[str, Any]) -> bool:
    """Return whether the metrics of a commit report no updated rows; its name differs between Spark and deltalake."""
    operation, metrics = info.get("operation"), info.get("operationMetrics")
    if operation == "MERGE" and isinstance(metrics, dict):
        updated = metrics.get("numTargetRowsUpdated", metrics.get("num_target_rows_updated"))
        return str(updated) == "0"
    return operation == "DELETE"
