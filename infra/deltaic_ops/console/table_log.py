"""What the log of a table says over its versions: how large each was, and how its files lie in partitions."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from deltaic.delta.actions import Add, AddCdcFile, Metadata, Remove
from deltaic.delta.deletion_vectors import unique_id
from deltaic.delta.log import DeltaLog
from deltaic.delta.paths import LogListing, read_listing
from deltaic.delta.schema_string import read_schema
from deltaic.delta.snapshot import Snapshot
from deltaic.errors import TableUnreadable
from deltaic.sharing.page import live_rows

if TYPE_CHECKING:
    from deltaic.delta.store import TableStore

MOST: Final = 100
"""Versions that are told."""

_File = tuple[str, str]
"""A logical file: its path, and the id of its deletion vector."""


@dataclass(frozen=True, slots=True)
class Size:
    """Some files of a version."""

    files: int = 0
    bytes: int = 0
    rows: int = 0
    untold: int = 0
    """Files whose statistics do not tell their rows."""

    def __add__(self, other: "Size") -> "Size":
        return Size(
            self.files + other.files, self.bytes + other.bytes, self.rows + other.rows, self.untold + other.untold
        )

    def __sub__(self, other: "Size") -> "Size":
        return self + Size(-other.files, -other.bytes, -other.rows, -other.untold)


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a table."""

    number: int
    at: datetime
    size: Size
    added: int
    """Files that it added; of the first that is told, none are counted."""
    removed: int


def versions(store: "TableStore", most: int = MOST) -> list[Version]:
    """Return the last versions, ascending: the first as its snapshot counts it, the others by what they changed."""
    listing = read_listing(store.list_log())
    latest, first = _window(listing, most)
    log = DeltaLog(store)
    base = log.snapshot(first)
    changes = list(log.commits(first + 1, latest)) if latest > first else []
    touched = {_file(action) for commit in changes for action in _actions(commit.actions)}
    size, known = _counted(base, touched)
    told = [Version(first, datetime.fromtimestamp(base.timestamp / 1000, UTC), size, 0, 0)]
    for commit in changes:
        added = removed = 0
        for action in _actions(commit.actions):
            size -= known.pop(_file(action), Size())
            if isinstance(action, Add):
                known[_file(action)] = one = _size(action)
                size += one
                added += 1
            else:
                removed += 1
        told.append(Version(commit.version, datetime.fromtimestamp(commit.timestamp / 1000, UTC), size, added, removed))
    return told


def partitions(snapshot: Snapshot) -> dict[tuple[str | None, ...], Size]:
    """Return the size of each partition by its values, in the order of the partition columns."""
    names = _physical_names(snapshot.metadata)
    found: dict[tuple[str | None, ...], Size] = {}
    for batch in snapshot.files():
        for place, told in enumerate(batch["partitionValues"].to_pylist()):
            values = dict(told or ())
            key = tuple(values.get(name) for name in names)
            found[key] = found.get(key, Size()) + _of_batch(batch, place)
    return dict(sorted(found.items(), key=lambda pair: tuple((value is not None, value or "") for value in pair[0])))


def comments(metadata: Metadata) -> dict[str, str]:
    """Return what the log says of each column, as far as it says anything."""
    told = {name: str((field.get("metadata") or {}).get("comment", "")) for name, field in _fields(metadata).items()}
    return {name: comment for name, comment in told.items() if comment}


def _window(listing: LogListing, most: int) -> tuple[int, int]:
    """Return the latest version and the first that is told: one that can be read, and from which on none is missing."""
    latest = listing.latest
    if latest is None:
        raise TableUnreadable("the folder has no Delta log")
    first = latest
    while first - 1 in listing.commits and first in listing.commits and latest - first + 1 < most:
        first -= 1
    checkpoints = [checkpoint.version for checkpoint in listing.checkpoints]
    if 0 not in listing.commits and not any(version <= first for version in checkpoints):
        first = min((version for version in checkpoints if version >= first), default=first)
    return latest, first


def _counted(snapshot: Snapshot, touched: set[_File]) -> tuple[Size, dict[_File, Size]]:
    """Return the size of a version, and of its files those that later versions touch."""
    size, known = Size(), {}
    for batch in snapshot.files():
        vectors = batch["deletionVector"].to_pylist()
        for place, path in enumerate(batch["path"].to_pylist()):
            one = _of_batch(batch, place)
            size += one
            vector = vectors[place]
            mark = unique_id(vector["storageType"], vector["pathOrInlineDv"], vector["offset"]) if vector else ""
            if (path, mark) in touched:
                known[path, mark] = one
    return size, known


def _actions(actions: Sequence[Any]) -> Iterator[Add | Remove]:
    """Yield what changes which files are live, removals first: a file may leave and come back in one commit."""
    found = [change.action for change in actions if hasattr(change, "action")]
    files = [action for action in found if not isinstance(action, AddCdcFile)]
    yield from (action for action in files if isinstance(action, Remove))
    yield from (action for action in files if isinstance(action, Add))


def _file(action: Add | Remove) -> _File:
    vector = action.deletion_vector
    return action.path, "" if vector is None else vector.unique_id


def _of_batch(batch: Any, place: int) -> Size:
    told = batch["stats"][place].is_valid
    return Size(1, batch["size"][place].as_py() or 0, live_rows(batch, place), int(not told))


def _size(add: Add) -> Size:
    try:
        rows = json.loads(add.stats)["numRecords"] if isinstance(add.stats, str) else None
    except (ValueError, KeyError, TypeError):
        rows = None
    deleted = add.deletion_vector.cardinality if add.deletion_vector else 0
    return Size(1, add.size or 0, max((rows or 0) - deleted, 0), int(rows is None))


def _physical_names(metadata: Metadata) -> list[str]:
    fields, about = _fields(metadata), "delta.columnMapping.physicalName"
    return [str((fields.get(name, {}).get("metadata") or {}).get(about, name)) for name in metadata.partition_columns]


def _fields(metadata: Metadata) -> dict[str, Any]:
    return {field["name"]: field for field in read_schema(metadata.schema_string)["fields"]}
