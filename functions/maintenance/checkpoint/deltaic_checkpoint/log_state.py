"""What a log says, action by action and as it is written there, so that nothing of it can be lost unseen.

The reader of the layer keeps what recipients are told. A checkpoint must keep the rest too: tombstones, transactions,
domains, tags, and fields that nobody knows yet. So this replay knows no fields, and compares everything.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from deltaic.delta.deletion_vectors import unique_id
from deltaic.delta.paths import LOG
from deltaic.delta.segment import Segment
from deltaic.delta.store import TableStore
from deltaic.errors import UnsupportedOperation

Action = dict[str, Any]


class File(NamedTuple):
    """What adds and removes are reconciled by; the path as it stands in the log."""

    path: str
    vector: str | None


ACTIONS: Final = 100_000
"""The most that are replayed here; each takes some kilobytes."""

_SINGLE: Final = frozenset({"protocol", "metaData"})
_PASSING: Final = frozenset({"commitInfo", "cdc", "checkpointMetadata"})
"""Actions that are of one commit or of one checkpoint, and no part of a table's state."""
_MAPS: Final = frozenset({"partitionValues", "tags", "configuration", "options"})
_UNSAID: Final[dict[str, Any]] = {"tags": {}, "configuration": {}, "options": {}, "removed": False}
"""Values that mean the same as none (Delta protocol, the schemas of the actions)."""


@dataclass(slots=True)
class LogState:
    """The reconciled actions of one version (Delta protocol, "Action Reconciliation")."""

    single: dict[str, Action] = field(default_factory=dict)
    """Protocol and metadata."""

    files: dict[File, Action] = field(default_factory=dict)
    tombstones: dict[File, Action] = field(default_factory=dict)
    transactions: dict[str, Action] = field(default_factory=dict)
    domains: dict[str, Action] = field(default_factory=dict)
    actions: int = 0

    @classmethod
    def read(cls, store: TableStore, segment: Segment) -> "LogState":
        """Replay a segment; raises UnsupportedOperation, saying why, for a log that this replay does not understand."""
        state = cls()
        for file in segment.checkpoint.files if segment.checkpoint else ():
            for kind, action in _rows(store, file.name):
                state._take(kind, action)
        for commit in segment.commits:
            if commit.start != commit.end:
                raise UnsupportedOperation("commits of the log are gone, and compaction files stand for them")
            seen: set[File] = set()
            for kind, action in _lines(store, commit.file.name):
                if kind in {"add", "remove"}:
                    if (changed := _file(action)) in seen:
                        raise UnsupportedOperation(f"{commit.file.name} names a file twice")
                    seen.add(changed)
                state._take(kind, action)
        return state

    def lost_in(self, other: "LogState", tombstones_until: int) -> str:
        """Say what of this state the other has not, or has in another way; empty where both are the same.

        Tombstones from before `tombstones_until` (milliseconds since the epoch) need not be kept.
        """
        retained = {
            file: action
            for file, action in self.tombstones.items()
            if file in other.tombstones or action.get("deletionTimestamp", 0) >= tombstones_until
        }
        return (
            _difference("protocol and metadata", self.single, other.single)
            or _difference("files", self.files, other.files)
            or _difference("removed files", retained, other.tombstones)
            or _difference("transactions of writers", self.transactions, other.transactions)
            or _difference("metadata of domains", self.domains, other.domains)
        )

    def _take(self, kind: str, action: Action) -> None:
        self.actions += 1
        if self.actions > ACTIONS:
            raise UnsupportedOperation(f"its log holds more than {ACTIONS:,} actions, which are the most here")
        if kind in _SINGLE:
            self.single[kind] = action
        elif kind == "add":
            self.tombstones.pop(_file(action), None)
            self.files[_file(action)] = action
        elif kind == "remove":
            self.files.pop(_file(action), None)
            self.tombstones[_file(action)] = action
        elif kind == "txn":
            self.transactions[action["appId"]] = action
        elif kind == "domainMetadata":
            self.domains[action["domain"]] = action
            if action.get("removed"):
                del self.domains[action["domain"]]
        elif kind not in _PASSING:
            raise UnsupportedOperation(f"the log holds actions of the kind '{kind}'")


def _lines(store: TableStore, name: str) -> Iterator[tuple[str, Action]]:
    for line in store.get(LOG + name).split(b"\n"):
        if line.strip():
            for kind, action in msgspec.json.decode(line).items():
                if action is not None:
                    yield kind, _plain(action)


def _rows(store: TableStore, name: str) -> Iterator[tuple[str, Action]]:
    if not name.endswith(".parquet"):
        raise UnsupportedOperation("the log's last checkpoint is in parts of its own (a manifest with sidecars)")
    with pq.ParquetFile(pa.BufferReader(store.get(LOG + name))) as file:
        for batch in file.iter_batches(1024):
            for row in batch.to_pylist():
                for kind, action in row.items():
                    if action is not None:
                        if kind == "sidecar":
                            raise UnsupportedOperation("the log's last checkpoint is in parts of its own (sidecars)")
                        yield kind, _plain(action)


def _file(action: Action) -> File:
    vector = action.get("deletionVector")
    return File(
        action["path"],
        unique_id(vector["storageType"], vector["pathOrInlineDv"], vector.get("offset")) if vector else None,
    )


def _plain(action: Mapping[str, Any]) -> Action:
    """Return an action in the one form in which those of commits and of checkpoints can be compared."""
    plain = {name: _value(name, value) for name, value in action.items() if value is not None}
    # What a checkpoint may say differently, or twice: `dataChange` is of the commit, the others repeat what is there.
    plain.pop("dataChange", None)
    plain.pop("partitionValues_parsed", None)
    if "stats" in plain:
        plain.pop("stats_parsed", None)
    return {name: value for name, value in plain.items() if _UNSAID.get(name, _UNSAID) != value}


def _value(name: str, value: Any) -> Any:
    if name in _MAPS and isinstance(value, list):
        return dict(value)  # a checkpoint's map; that of a commit is one already
    if isinstance(value, Mapping) and name not in _MAPS:
        return _plain(value)
    return value


def _difference(what: str, here: Mapping[Any, Action], there: Mapping[Any, Action]) -> str:
    lost = [key for key, action in here.items() if there.get(key) != action]
    if not lost and len(here) == len(there):
        return ""
    fields: Sequence[str] = ()
    if lost and (action := there.get(lost[0])) is not None:
        mine = here[lost[0]]
        fields = sorted(name for name in {*mine, *action} if mine.get(name) != action.get(name))
    return f"{what} ({', '.join(fields)})" if fields else what
