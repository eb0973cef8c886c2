"""Read the complete state of a log, with every action and field, to compare a checkpoint with the log.

The server's log reader keeps only what recipients need. A checkpoint must also contain tombstones, transactions,
domain metadata, tags and unknown fields. So this module reads and compares all fields.
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


class FileKey(NamedTuple):
    """Identifier of a file in `add` and `remove` actions: its percent-encoded path and its deletion vector."""

    path: str
    vector: str | None


MAX_ACTIONS: Final = 100_000
"""Maximum number of actions to read; each needs some kilobytes of memory."""

_SINGLE: Final = frozenset({"protocol", "metaData"})
_NOT_STATE: Final = frozenset({"commitInfo", "cdc", "checkpointMetadata"})
"""Types of actions that are not part of a table's state."""
_MAPS: Final = frozenset({"partitionValues", "tags", "configuration", "options"})
_DEFAULTS: Final[dict[str, Any]] = {"tags": {}, "configuration": {}, "options": {}, "removed": False}
"""Values that have the same meaning as an absent field (Delta protocol, schemas of the actions)."""


@dataclass(slots=True)
class LogState:
    """The state of a table at one version (Delta protocol, "Action Reconciliation")."""

    single: dict[str, Action] = field(default_factory=dict)
    """The current `protocol` and `metaData` actions, by these names."""

    files: dict[FileKey, Action] = field(default_factory=dict)
    tombstones: dict[FileKey, Action] = field(default_factory=dict)
    transactions: dict[str, Action] = field(default_factory=dict)
    domains: dict[str, Action] = field(default_factory=dict)
    actions: int = 0

    @classmethod
    def read(cls, store: TableStore, segment: Segment) -> "LogState":
        """Read the state from a segment's checkpoint and commits; raises UnsupportedOperation, with the reason."""
        state = cls()
        for file in segment.checkpoint.files if segment.checkpoint else ():
            for kind, action in _rows(store, file.name):
                state._apply(kind, action)
        for commit in segment.commits:
            if commit.start != commit.end:
                raise UnsupportedOperation("the log contains compaction files instead of some commits")
            changed_files: set[FileKey] = set()
            for kind, action in _lines(store, commit.file.name):
                if kind in {"add", "remove"}:
                    if (changed := _file_key(action)) in changed_files:
                        raise UnsupportedOperation(f"{commit.file.name} contains several actions for the same file")
                    changed_files.add(changed)
                state._apply(kind, action)
        return state

    def difference_from(self, checkpoint: "LogState", tombstones_until: int) -> str:
        """Return the name of a part (such as "files") in which a checkpoint differs from this state; empty if none.

        The checkpoint may omit tombstones with a time before `tombstones_until` (milliseconds since the epoch).
        """
        retained = {
            file: action
            for file, action in self.tombstones.items()
            if file in checkpoint.tombstones or action.get("deletionTimestamp", 0) >= tombstones_until
        }
        return (
            _difference("protocol and metadata", self.single, checkpoint.single)
            or _difference("files", self.files, checkpoint.files)
            or _difference("removed files", retained, checkpoint.tombstones)
            or _difference("application transactions", self.transactions, checkpoint.transactions)
            or _difference("domain metadata", self.domains, checkpoint.domains)
        )

    def _apply(self, kind: str, action: Action) -> None:
        self.actions += 1
        if self.actions > MAX_ACTIONS:
            raise UnsupportedOperation(f"the log contains more actions than the maximum of {MAX_ACTIONS:,}")
        if kind in _SINGLE:
            self.single[kind] = action
        elif kind == "add":
            self.tombstones.pop(_file_key(action), None)
            self.files[_file_key(action)] = action
        elif kind == "remove":
            self.files.pop(_file_key(action), None)
            self.tombstones[_file_key(action)] = action
        elif kind == "txn":
            self.transactions[action["appId"]] = action
        elif kind == "domainMetadata":
            self.domains[action["domain"]] = action
            if action.get("removed"):
                del self.domains[action["domain"]]
        elif kind not in _NOT_STATE:
            raise UnsupportedOperation(f"the log contains actions of the unsupported type '{kind}'")


def _lines(store: TableStore, name: str) -> Iterator[tuple[str, Action]]:
    for line in store.get(LOG + name).split(b"\n"):
        if line.strip():
            for kind, action in msgspec.json.decode(line).items():
                if action is not None:
                    yield kind, _normalize(action)


def _rows(store: TableStore, name: str) -> Iterator[tuple[str, Action]]:
    if not name.endswith(".parquet"):
        raise UnsupportedOperation("the log's last checkpoint consists of several files (a manifest with sidecars)")
    with pq.ParquetFile(pa.BufferReader(store.get(LOG + name))) as file:
        for batch in file.iter_batches(1024):
            for row in batch.to_pylist():
                for kind, action in row.items():
                    if action is not None:
                        if kind == "sidecar":
                            raise UnsupportedOperation("the log's last checkpoint consists of several files (sidecars)")
                        yield kind, _normalize(action)


def _file_key(action: Action) -> FileKey:
    vector = action.get("deletionVector")
    return FileKey(
        action["path"],
        unique_id(vector["storageType"], vector["pathOrInlineDv"], vector.get("offset")) if vector else None,
    )


def _normalize(action: Mapping[str, Any]) -> Action:
    """Convert an action to a form in which actions of commits and of checkpoints can be compared."""
    normalized = {name: _value(name, value) for name, value in action.items() if value is not None}
    # A checkpoint may differ in `dataChange`, which belongs to the commit. The parsed fields repeat other fields.
    normalized.pop("dataChange", None)
    normalized.pop("partitionValues_parsed", None)
    if "stats" in normalized:
        normalized.pop("stats_parsed", None)
    return {name: value for name, value in normalized.items() if _DEFAULTS.get(name, _DEFAULTS) != value}


def _value(name: str, value: Any) -> Any:
    if name in _MAPS and isinstance(value, list):
        return dict(value)  # checkpoints have lists of pairs, commits have maps
    if isinstance(value, Mapping) and name not in _MAPS:
        return _normalize(value)
    return value


def _difference(kind: str, expected: Mapping[Any, Action], actual: Mapping[Any, Action]) -> str:
    different = [key for key, action in expected.items() if actual.get(key) != action]
    if not different and len(expected) == len(actual):
        return ""
    fields: Sequence[str] = ()
    if different and (action := actual.get(different[0])) is not None:
        expected_action = expected[different[0]]
        fields = sorted(name for name in {*expected_action, *action} if expected_action.get(name) != action.get(name))
    return f"{kind} ({', '.join(fields)})" if fields else kind
