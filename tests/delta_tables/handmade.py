"""Write Delta logs by hand for states that no available writer produces, and replay them in a simple way."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Action = dict[str, Any]

SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": "p", "type": "string", "nullable": True, "metadata": {}},
            {"name": "x", "type": "long", "nullable": True, "metadata": {}},
        ],
    }
)
STRING_MAP = pa.map_(pa.string(), pa.string())
VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
        ("maxRowIndex", pa.int64()),
    ]
)
STATS_PARSED = pa.struct(
    [
        ("numRecords", pa.int64()),
        ("minValues", pa.struct([("x", pa.int64())])),
        ("maxValues", pa.struct([("x", pa.int64())])),
        ("nullCount", pa.struct([("x", pa.int64())])),
    ]
)
ADD = [
    ("path", pa.string()),
    ("partitionValues", STRING_MAP),
    ("size", pa.int64()),
    ("modificationTime", pa.int64()),
    ("dataChange", pa.bool_()),
    ("tags", STRING_MAP),
    ("deletionVector", VECTOR),
    ("baseRowId", pa.int64()),
    ("defaultRowCommitVersion", pa.int64()),
    ("clusteringProvider", pa.string()),
]
REMOVE = pa.struct(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", STRING_MAP),
        ("size", pa.int64()),
        ("deletionVector", VECTOR),
    ]
)
METADATA = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", STRING_MAP)])),
        ("schemaString", pa.string()),
        ("partitionColumns", pa.list_(pa.string())),
        ("configuration", STRING_MAP),
        ("createdTime", pa.int64()),
    ]
)
PROTOCOL = pa.struct(
    [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", pa.list_(pa.string())),
        ("writerFeatures", pa.list_(pa.string())),
    ]
)
SIDECAR = pa.struct(
    [("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64()), ("tags", STRING_MAP)]
)
NOT_LISTED = {"tags", "clusteringProvider", "dataChange"}
TXN = pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])


def protocol(reader: int = 1, writer: int = 2, *features: str) -> Action:
    action: Action = {"minReaderVersion": reader, "minWriterVersion": writer}
    if reader >= 3:
        action["readerFeatures"] = list(features)
    if writer >= 7:
        action["writerFeatures"] = list(features)
    return {"protocol": action}


def metadata(
    configuration: Mapping[str, str] | None = None, schema: str = SCHEMA, partitions: tuple[str, ...] = ("p",)
) -> Action:
    return {
        "metaData": {
            "id": "11111111-2222-3333-4444-555555555555",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema,
            "partitionColumns": list(partitions),
            "configuration": dict(configuration or {}),
            "createdTime": 1_700_000_000_000,
        }
    }


def stats(rows: int = 1, low: int = 0, high: int = 0) -> str:
    values = {"numRecords": rows, "minValues": {"x": low}, "maxValues": {"x": high}, "nullCount": {"x": 0}}
    return json.dumps(values, separators=(",", ":"))


def add(path: str, size: int = 1, p: str | None = "a", vector: Action | None = None, **more: Any) -> Action:
    action: Action = {
        "path": path,
        "partitionValues": {"p": p},
        "size": size,
        "modificationTime": 1_700_000_000_000 + size,
        "dataChange": True,
        "stats": stats(size, size, size + 10),
    }
    if vector is not None:
        action["deletionVector"] = vector
    return {"add": action | more}


def remove(path: str, vector: Action | None = None, **more: Any) -> Action:
    action: Action = {"path": path, "deletionTimestamp": 1_700_000_000_000, "dataChange": True}
    if vector is not None:
        action["deletionVector"] = vector
    return {"remove": action | more}


def vector(name: str, offset: int | None = 1) -> Action:
    action: Action = {"storageType": "u", "pathOrInlineDv": name, "sizeInBytes": 34, "cardinality": 1}
    if offset is not None:
        action["offset"] = offset
    return action


def vector_key(action: Action) -> str | None:
    vector = action.get("deletionVector")
    if not vector:
        return None
    suffix = "" if vector.get("offset") is None else f"@{vector['offset']}"
    return f"{vector['storageType']}{vector['pathOrInlineDv']}{suffix}"


@dataclass
class State:
    """State of a version by "Action Reconciliation" in the Delta protocol, implemented in the simplest way."""

    protocol: Action | None = None
    metadata: Action | None = None
    files: dict[tuple[str, str | None], Action] = field(default_factory=dict)
    tombstones: dict[tuple[str, str | None], Action] = field(default_factory=dict)

    def apply(self, actions: list[Action]) -> None:
        for line in actions:
            for kind, action in line.items():
                if kind == "protocol":
                    self.protocol = action
                elif kind == "metaData":
                    self.metadata = action
                elif kind == "add":
                    key = (action["path"], vector_key(action))
                    self.files[key] = action
                    self.tombstones.pop(key, None)
                elif kind == "remove":
                    key = (action["path"], vector_key(action))
                    self.files.pop(key, None)
                    self.tombstones[key] = action


class HandmadeLog:
    """Writer of `_delta_log/` that remembers every commit, so that `state` returns the expected state."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = root / "_delta_log"
        self.log.mkdir(parents=True, exist_ok=True)
        self.commits: list[list[Action]] = []

    def commit(self, *actions: Action, modified: int | None = None) -> int:
        """Write the next commit; `modified` is its file time in ms."""
        version = len(self.commits)
        self.commits.append(list(actions))
        path = self.log / f"{version:020d}.json"
        path.write_bytes(lines(actions))
        if modified is not None:
            os.utime(path, ns=(modified * 1_000_000, modified * 1_000_000))
        return version

    def state(self, version: int | None = None) -> State:
        return self.replay(self.commits if version is None else self.commits[: version + 1])

    def replay(self, commits: list[list[Action]]) -> State:
        state = State()
        for actions in commits:
            state.apply(actions)
        return state

    def forget(self, *versions: int) -> None:
        """Delete commits, as log cleanup does."""
        for version in versions:
            (self.log / f"{version:020d}.json").unlink()

    def hint(self, version: int, **more: Any) -> None:
        (self.log / "_last_checkpoint").write_text(json.dumps({"version": version, "size": 1} | more))

    def compact(self, start: int, end: int) -> None:
        """Write a log compaction file: the reconciled actions of these commits, tombstones included."""
        state = self.replay(self.commits[start : end + 1])
        (self.log / f"{start:020d}.{end:020d}.compacted.json").write_bytes(lines(reconciled(state)))

    def checksum(self, version: int, **more: Any) -> None:
        state = self.state(version)
        record = {
            "tableSizeBytes": sum(action["size"] for action in state.files.values()),
            "numFiles": len(state.files),
            "numMetadata": 1,
            "numProtocol": 1,
            "metadata": state.metadata,
            "protocol": state.protocol,
        }
        (self.log / f"{version:020d}.crc").write_text(json.dumps(record | more))

    def classic(self, version: int, **options: Any) -> None:
        write_parquet(self.log / f"{version:020d}.checkpoint.parquet", reconciled(self.state(version)), **options)

    def multipart(self, version: int, parts: int, *, missing: tuple[int, ...] = (), **options: Any) -> None:
        actions = reconciled(self.state(version))
        for part in range(1, parts + 1):
            if part not in missing:
                name = f"{version:020d}.checkpoint.{part:010d}.{parts:010d}.parquet"
                write_parquet(self.log / name, actions[part - 1 :: parts], **options)

    def v2(self, version: int, form: str, sidecars: int, **options: Any) -> list[Path]:
        """Write a v2 checkpoint; `form` is json, parquet or classic (a v2 checkpoint under the classic name)."""
        actions = reconciled(self.state(version))
        files = [action for action in actions if "add" in action or "remove" in action]
        top = [action for action in actions if "add" not in action and "remove" not in action]
        top.append({"checkpointMetadata": {"version": version}})
        folder = self.log / "_sidecars"
        folder.mkdir(exist_ok=True)
        written = []
        for number in range(sidecars):
            name = f"{version:020d}.checkpoint.{number:010d}.{sidecars:010d}.{form}.parquet"
            write_parquet(folder / name, files[number::sidecars], **options)
            written.append(folder / name)
            size = (folder / name).stat().st_size
            top.append({"sidecar": {"path": name, "sizeInBytes": size, "modificationTime": 1, "tags": None}})
        if sidecars == 0:
            top += files
        unique = f"{version:08d}-aaaa-bbbb-cccc-{sidecars:012d}"
        if form == "json":
            (self.log / f"{version:020d}.checkpoint.{unique}.json").write_bytes(lines(top))
        else:
            name = (
                f"{version:020d}.checkpoint.parquet"
                if form == "classic"
                else f"{version:020d}.checkpoint.{unique}.parquet"
            )
            write_parquet(self.log / name, top, **options)
        return written

    def clear_checkpoints(self) -> None:
        for path in [
            *self.log.glob("*.checkpoint.*"),
            *self.log.glob("*.compacted.json"),
            *self.log.glob("_sidecars/*"),
        ]:
            path.unlink()
        (self.log / "_last_checkpoint").unlink(missing_ok=True)


def lines(actions: Any) -> bytes:
    return b"".join(json.dumps(action, ensure_ascii=False).encode() + b"\n" for action in actions)


def reconciled(state: State) -> list[Action]:
    """Return a state as the actions of a checkpoint, as Spark writes them: dataChange false, tombstones among adds."""
    actions: list[Action] = [{"add": action | {"dataChange": False}} for action in state.files.values()]
    for at, action in enumerate(state.tombstones.values()):
        actions.insert(min(2 * at, len(actions)), {"remove": action | {"dataChange": False}})
    actions.append({"txn": {"appId": "app", "version": 1, "lastUpdated": 1}})
    if state.metadata is not None:
        actions.insert(len(actions) // 2, {"metaData": state.metadata})
    if state.protocol is not None:
        actions.append({"protocol": state.protocol})
    return actions


def write_parquet(
    path: Path,
    actions: list[Action],
    *,
    row_group: int = 1000,
    statistics: str = "json",
    compression: str = "snappy",
    typed_partitions: bool = False,
) -> None:
    """Write actions as Parquet; `statistics` is json, struct or both."""
    fields = list(ADD)
    if typed_partitions:
        fields.append(("partitionValues_parsed", pa.struct([("p", pa.string())])))
    if statistics in ("json", "both"):
        fields.append(("stats", pa.string()))
    if statistics in ("struct", "both"):
        fields.append(("stats_parsed", STATS_PARSED))
    kinds = {
        "txn": TXN,
        "add": pa.struct(fields),
        "remove": REMOVE,
        "metaData": METADATA,
        "protocol": PROTOCOL,
        "sidecar": SIDECAR,
        "checkpointMetadata": pa.struct([("version", pa.int64())]),
    }
    schema = pa.schema([(kind, form) for kind, form in kinds.items() if kind != "sidecar" or _has(actions, "sidecar")])
    rows = []
    for line in actions:
        row = {}
        for kind, action in line.items():
            values = dict(action)
            if kind == "add":
                values["partitionValues_parsed"] = values["partitionValues"]
                values["stats_parsed"] = json.loads(values["stats"]) if values.get("stats") else None
            for name in ("partitionValues", "tags", "configuration"):
                if values.get(name) is not None:
                    values[name] = list(values[name].items())
            row[kind] = values
        rows.append(row)
    # Rename the complete file, as object storage does, because some tests list the log at the same time.
    draft = next(folder.parent for folder in path.parents if folder.name == "_delta_log") / f"{path.name}.draft"
    pq.write_table(pa.Table.from_pylist(rows, schema), draft, row_group_size=row_group, compression=compression)
    draft.rename(path)


def _has(actions: list[Action], kind: str) -> bool:
    return any(kind in action for action in actions)


def expected_files(state: State) -> list[Action]:
    """Return the live adds of a state, in the form and order of `found_files`."""
    adds = (
        {key: value for key, value in action.items() if value is not None and key not in NOT_LISTED}
        for action in state.files.values()
    )
    return sorted(adds, key=_order)


def found_files(batches: Any) -> list[Action]:
    """Return batches of FILE_SCHEMA as add actions without nulls, ordered."""
    adds = []
    for batch in batches:
        for row in batch.to_pylist():
            values = {key: value for key, value in row.items() if value is not None}
            values["partitionValues"] = dict(values["partitionValues"])
            if "deletionVector" in values:
                values["deletionVector"] = {k: v for k, v in values["deletionVector"].items() if v is not None}
            adds.append(values)
    return sorted(adds, key=_order)


def _order(action: Action) -> tuple[str, str]:
    return action["path"], vector_key(action) or ""
