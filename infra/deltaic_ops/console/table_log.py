"""Compute the sizes of a table's versions and partitions from its Delta log."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from deltaic.delta.actions import Add, Metadata, Remove
from deltaic.delta.commit_changes import Change
from deltaic.delta.deletion_vectors import unique_id
from deltaic.delta.log import DeltaLog
from deltaic.delta.paths import LogListing, read_listing
from deltaic.delta.schema_string import read_schema
from deltaic.delta.snapshot import Snapshot
from deltaic.errors import TableUnreadable
from deltaic.sharing.page import live_rows

if TYPE_CHECKING:
    from deltaic.delta.store import TableStore

MAX_VERSIONS: Final = 100
"""Default number of versions whose sizes are computed."""

_File = tuple[str, str]
"""A logical file of the log: path, and id of its deletion vector (empty without one)."""


@dataclass(frozen=True, slots=True)
class Size:
    """Size of a set of data files: number of files, bytes and rows."""

    files: int = 0
    bytes: int = 0
    rows: int = 0
    without_statistics: int = 0
    """Number of files without a row count, whose rows are not in `rows`."""

    def __add__(self, other: "Size") -> "Size":
        without_statistics = self.without_statistics + other.without_statistics
        return Size(self.files + other.files, self.bytes + other.bytes, self.rows + other.rows, without_statistics)

    def __sub__(self, other: "Size") -> "Size":
        return self + Size(-other.files, -other.bytes, -other.rows, -other.without_statistics)


@dataclass(frozen=True, slots=True)
class Version:
    """Size of one version of a table, and the number of files that its commit changed."""

    number: int
    committed_at: datetime
    size: Size
    added: int
    """Number of files that the commit added; 0 for the first version that `versions` returns."""
    removed: int


def versions(store: "TableStore", limit: int = MAX_VERSIONS) -> list[Version]:
    """Return sizes of a table's last `limit` versions, oldest first, from one snapshot and the commits after it."""
    listing = read_listing(store.list_log())
    latest, first = _version_range(listing, limit)
    log = DeltaLog(store)
    base = log.snapshot(first)
    changes = list(log.commits(first + 1, latest)) if latest > first else []
    changed = {_file(action) for commit in changes for action in _actions(commit.actions)}
    size, changed_sizes = _count_files(base, changed)
    result = [Version(first, datetime.fromtimestamp(base.timestamp / 1000, UTC), size, 0, 0)]
    for commit in changes:
        added = removed = 0
        for action in _actions(commit.actions):
            size -= changed_sizes.pop(_file(action), Size())
            if isinstance(action, Add):
                changed_sizes[_file(action)] = added_size = _size_of_add(action)
                size += added_size
                added += 1
            else:
                removed += 1
        time = datetime.fromtimestamp(commit.timestamp / 1000, UTC)
        result.append(Version(commit.version, time, size, added, removed))
    return result


def partitions(snapshot: Snapshot) -> dict[tuple[str | None, ...], Size]:
    """Return the size of each partition of a version; keys are the partition values in column order."""
    names = _physical_names(snapshot.metadata)
    sizes: dict[tuple[str | None, ...], Size] = {}
    for batch in snapshot.files():
        for row, pairs in enumerate(batch["partitionValues"].to_pylist()):
            values = dict(pairs or ())
            key = tuple(values.get(name) for name in names)
            sizes[key] = sizes.get(key, Size()) + _size_of_row(batch, row)
    return dict(sorted(sizes.items(), key=lambda pair: tuple((value is not None, value or "") for value in pair[0])))


def comments(metadata: Metadata) -> dict[str, str]:
    """Return the comments of a table's columns by column name, without empty comments."""
    texts = {name: str((field.get("metadata") or {}).get("comment", "")) for name, field in _fields(metadata).items()}
    return {name: comment for name, comment in texts.items() if comment}


def _version_range(listing: LogListing, limit: int) -> tuple[int, int]:
    """Return the latest version, and the first of the last `limit` versions that the log can reconstruct."""
    latest = listing.latest
    if latest is None:
        raise TableUnreadable("the folder has no Delta log (_delta_log): correct the location of the table")
    first = latest
    while first - 1 in listing.commits and first in listing.commits and latest - first + 1 < limit:
        first -= 1
    checkpoints = [checkpoint.version for checkpoint in listing.checkpoints]
    if 0 not in listing.commits and not any(version <= first for version in checkpoints):
        first = min((version for version in checkpoints if version >= first), default=first)
    return latest, first


def _count_files(snapshot: Snapshot, changed: set[_File]) -> tuple[Size, dict[_File, Size]]:
    """Return the total size of a version, and the size of each of its files in `changed`."""
    size, changed_sizes = Size(), {}
    for batch in snapshot.files():
        vectors = batch["deletionVector"].to_pylist()
        for row, path in enumerate(batch["path"].to_pylist()):
            file_size = _size_of_row(batch, row)
            size += file_size
            vector = vectors[row]
            vector_id = unique_id(vector["storageType"], vector["pathOrInlineDv"], vector["offset"]) if vector else ""
            if (path, vector_id) in changed:
                changed_sizes[path, vector_id] = file_size
    return size, changed_sizes


def _actions(actions: Sequence[Change]) -> Iterator[Add | Remove]:
    """Yield a commit's `remove` actions, then its `add` actions: a commit can remove and add the same file."""
    yield from (action for action in actions if isinstance(action, Remove))
    yield from (action for action in actions if isinstance(action, Add))


def _file(action: Add | Remove) -> _File:
    vector = action.deletion_vector
    return action.path, "" if vector is None else vector.unique_id


def _size_of_row(batch: Any, row: int) -> Size:
    has_statistics = batch["stats"][row].is_valid
    return Size(1, batch["size"][row].as_py() or 0, live_rows(batch, row), int(not has_statistics))


def _size_of_add(add: Add) -> Size:
    try:
        rows = json.loads(add.stats)["numRecords"] if isinstance(add.stats, str) else None
    except (ValueError, KeyError, TypeError):
        rows = None
    deleted = add.deletion_vector.cardinality if add.deletion_vector else 0
    return Size(1, add.size or 0, max((rows or 0) - deleted, 0), int(rows is None))


def _physical_names(metadata: Metadata) -> list[str]:
    fields, key = _fields(metadata), "delta.columnMapping.physicalName"
    return [str((fields.get(name, {}).get("metadata") or {}).get(key, name)) for name in metadata.partition_columns]


def _fields(metadata: Metadata) -> dict[str, Any]:
    return {field["name"]: field for field in read_schema(metadata.schema_string)["fields"]}
