"""Write the logs of the contract's tables: real Parquet files and hand-written commits in a bucket.

A store gives commit files its own times, so a table whose times a test has to know keeps them in its commits
(Delta protocol, "In-Commit Timestamps").
"""

import io
import json
import struct
import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

Action = dict[str, Any]
Row = Mapping[str, Any]

_NAMES = {pa.int32(): "integer", pa.int64(): "long", pa.string(): "string", pa.date32(): "date", pa.float64(): "double"}
_NAMES |= {pa.bool_(): "boolean", pa.timestamp("us", "UTC"): "timestamp", pa.timestamp("us"): "timestamp_ntz"}
_NAMES |= {pa.float32(): "float", pa.int16(): "short", pa.decimal128(10, 2): "decimal(10,2)"}
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_UNSAFE_IN_FOLDERS = set("\"#%'*/:=?\\\x7f{[]^") | {chr(code) for code in range(1, 32)}


def column(name: str, kind: pa.DataType, *, nullable: bool = True, **metadata: Any) -> pa.Field:
    """Return a column; `metadata` is that of the Delta schema (`comment`, `delta.columnMapping.id`)."""
    return pa.field(name, kind, nullable, {key: json.dumps(value) for key, value in metadata.items()})


def mapped(name: str, kind: pa.DataType, number: int, physical: str) -> pa.Field:
    """Return a column under column mapping."""
    metadata: dict[str, Any] = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical}
    return column(name, kind, **metadata)


def delta_schema(schema: pa.Schema) -> str:
    """Return the `schemaString` of a flat schema."""
    fields = [
        {
            "name": item.name,
            "type": _NAMES[item.type],
            "nullable": item.nullable,
            "metadata": {key.decode(): json.loads(value) for key, value in (item.metadata or {}).items()},
        }
        for item in schema
    ]
    return json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"))


def z85(data: bytes) -> str:
    """Return the Z85 text of bytes whose length is a multiple of four (ZeroMQ RFC 32)."""
    text = ""
    for (value,) in struct.iter_unpack(">I", data):
        text += "".join(_Z85[value // 85**power % 85] for power in (4, 3, 2, 1, 0))
    return text


def bitmap(rows: Sequence[int]) -> bytes:
    """Return deleted rows below 65,536 as Delta's RoaringBitmapArray (Delta protocol, "Deletion Vector Format")."""
    head = struct.pack("<IQI", 1681511377, 1, 0)
    container = struct.pack("<IIHHI", 12346, 1, 0, len(rows) - 1, 16)
    return head + container + struct.pack(f"<{len(rows)}H", *sorted(rows))


@dataclass(repr=False)
class TableLog:
    """A table in a bucket, written commit by commit; the written actions are the expectation."""

    s3: Any
    bucket: str
    prefix: str
    schema: pa.Schema
    partitions: tuple[str, ...] = ()
    configuration: dict[str, str] = field(default_factory=dict)
    protocol: Action | None = None
    """The first protocol: (1, 2) by default, or the one for in-commit timestamps and change data feed."""
    timed: bool = True
    """Whether commits carry times that the test chose."""
    description: str | None = None
    commits: list[list[Action]] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    contents: dict[str, bytes] = field(default_factory=dict)
    """The bytes of every data file and deletion vector file, by key below the table's root."""

    @property
    def location(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"

    @property
    def table_id(self) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_URL, self.location))

    def commit(self, *actions: Action, at: int | None = None, operation: str = "WRITE") -> int:
        """Put the next commit, at a time in ms since the epoch, and return its version."""
        version = len(self.commits)
        when = at if at is not None else (self.times[-1] + 1000 if self.times else 1_650_000_000_000)
        self.times.append(when)
        info: Action = {"timestamp": when, "operation": operation, "operationParameters": {}}
        if self.timed:
            info = {"inCommitTimestamp": when, **info}
        self.commits.append(list(actions))
        self.put_commit(version, [{"commitInfo": info}, *actions])
        return version

    def create(self, *actions: Action, at: int | None = None) -> int:
        """Put version 0: protocol, metadata and `actions`."""
        return self.commit(self.first_protocol(), self.metadata(), *actions, at=at)

    def put_commit(self, version: int, actions: Sequence[Action]) -> None:
        text = "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions)
        self.put(f"_delta_log/{version:020d}.json", text.encode())

    def put(self, key: str, content: bytes) -> None:
        self.s3.put_object(Bucket=self.bucket, Key=f"{self.prefix}/{key}", Body=content)

    def forget(self, key: str) -> None:
        """Delete an object, as a clean-up or an accident does."""
        self.s3.delete_object(Bucket=self.bucket, Key=f"{self.prefix}/{key}")

    def forget_commit(self, version: int) -> None:
        self.forget(f"_delta_log/{version:020d}.json")

    def first_protocol(self) -> Action:
        if self.protocol is not None:
            return {"protocol": self.protocol}
        if self.timed:
            features = ["inCommitTimestamp", "changeDataFeed", "appendOnly", "invariants"]
            return {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features}}
        return {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}

    def metadata(self, schema: pa.Schema | None = None, **changed: str) -> Action:
        """Return a metaData action; `changed` are table properties with `_` for `.`, kept for later metadata."""
        self.schema = schema or self.schema
        self.configuration |= {f"delta.{name}": value for name, value in changed.items()}
        properties = {"delta.enableInCommitTimestamps": "true"} if self.timed else {}
        action: Action = {
            "id": self.table_id,
            "name": self.prefix,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": delta_schema(self.schema),
            "partitionColumns": list(self.partitions),
            "configuration": properties | self.configuration,
            "createdTime": 1_650_000_000_000,
        }
        if self.description is not None:
            action["description"] = self.description
        return {"metaData": action}

    def add(self, rows: Sequence[Row], *, change: bool = True, **partition: Any) -> Action:
        """Put a data file of these rows (logical names) in this partition and return its add action."""
        path, values, data = self._file("part", rows, partition, self.schema)
        return {
            "add": {
                "path": path,
                "partitionValues": values,
                "size": len(data),
                "modificationTime": 1_650_000_000_000 + len(self.contents),
                "dataChange": change,
                "stats": json.dumps(self._stats(rows), separators=(",", ":")),
            }
        }

    def cdc(self, rows: Sequence[Row], **partition: Any) -> Action:
        """Put a change file; its rows have `_change_type` too."""
        schema = self.schema.append(pa.field("_change_type", pa.string()))
        path, values, data = self._file("_change_data/cdc", rows, partition, schema)
        return {"cdc": {"path": path, "partitionValues": values, "size": len(data), "dataChange": False}}

    def remove(self, added: Action, *, change: bool = True) -> Action:
        """Return the remove action of a file that `add` made."""
        file = added["add"]
        action = {key: file[key] for key in ("path", "partitionValues", "size")}
        if "deletionVector" in file:
            action["deletionVector"] = file["deletionVector"]
        return {
            "remove": {
                **action,
                "deletionTimestamp": 1_660_000_000_000,
                "dataChange": change,
                "extendedFileMetadata": True,
            }
        }

    def deleted(self, added: Action, rows: Sequence[int], storage: str = "u") -> Action:
        """Return the add action again, with a deletion vector for these rows; `storage` is u, p or i."""
        data = bitmap(rows)
        vector: Action = {"sizeInBytes": len(data), "cardinality": len(rows)}
        if storage == "i":
            padded = data + bytes(-len(data) % 4)
            vector |= {"storageType": "i", "pathOrInlineDv": z85(padded)}
        else:
            name = uuid.uuid5(uuid.NAMESPACE_URL, f"{self.location}/{len(self.contents)}")
            key = f"deletion_vector_{name}.bin"
            if storage == "u":
                key = f"ab/{key}"
            content = b"\x01" + struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))
            self._store(key, content)
            path = f"ab{z85(name.bytes)}" if storage == "u" else f"{self.location}/{key}"
            vector |= {"storageType": storage, "pathOrInlineDv": path, "offset": 1}
        stats = json.loads(added["add"]["stats"]) | {"tightBounds": False}
        changed = {"deletionVector": vector, "stats": json.dumps(stats, separators=(",", ":"))}
        return {"add": {**added["add"], **changed}}

    def checkpoint(
        self, version: int, live: Sequence[Action], *, columns: pa.StructArray | None = None, keep_hint: bool = True
    ) -> None:
        """Put a classic checkpoint with these adds, and with those of `columns`, an array of the add column's type."""
        heads = [action for actions in self.commits[: version + 1] for action in actions]
        protocol = next(action for action in reversed(heads) if "protocol" in action)
        metadata = next(action for action in reversed(heads) if "metaData" in action)
        self.put(f"_delta_log/{version:020d}.checkpoint.parquet", checkpoint_file([protocol, metadata, *live], columns))
        if keep_hint:
            hint = {"version": version, "size": len(live) + len(columns or ()) + 2}
            self.put("_delta_log/_last_checkpoint", json.dumps(hint).encode())

    def content(self, action: Action) -> bytes:
        """Return the bytes behind an action's path."""
        (body,) = action.values()
        return next(data for key, data in self.contents.items() if quote(key, safe="/=") == body["path"])

    def _file(
        self, kind: str, rows: Sequence[Row], partition: Mapping[str, Any], schema: pa.Schema
    ) -> tuple[str, dict[str, str | None], bytes]:
        stored = [item for item in schema if item.name not in self.partitions]
        columns = [pa.array([row.get(item.name) for row in rows], item.type) for item in stored]
        names = [_physical(item) for item in stored]
        fields = [
            pa.field(name, item.type, item.nullable, _field_id(item)) for name, item in zip(names, stored, strict=True)
        ]
        sink = io.BytesIO()
        pq.write_table(pa.table(columns, schema=pa.schema(fields)), sink)
        values = {
            _physical(self.schema.field(name)): None if partition.get(name) is None else str(partition[name])
            for name in self.partitions
        }
        folder = "".join(f"{name}={_folder(value)}/" for name, value in values.items())
        unique = uuid.uuid5(uuid.NAMESPACE_URL, f"{self.location}/{len(self.contents)}")
        head, _, name = kind.rpartition("/")
        key = f"{head}/" if head else ""
        key += f"{folder}{name}-{len(self.contents):05d}-{unique}.c000.snappy.parquet"
        self._store(key, sink.getvalue())
        return quote(key, safe="/="), values, sink.getvalue()

    def _store(self, key: str, content: bytes) -> None:
        self.contents[key] = content
        self.put(key, content)

    def _stats(self, rows: Sequence[Row]) -> Action:
        low: Action = {}
        high: Action = {}
        nulls: Action = {}
        for item in self.schema:
            if item.name in self.partitions:
                continue
            name = _physical(item)
            values = [row[item.name] for row in rows if row.get(item.name) is not None]
            nulls[name] = len(rows) - len(values)
            if values:
                low[name], high[name] = _to_json(min(values)), _to_json(max(values))
        return {"numRecords": len(rows), "minValues": low, "maxValues": high, "nullCount": nulls}


def _physical(item: pa.Field) -> str:
    name = (item.metadata or {}).get(b"delta.columnMapping.physicalName")
    return str(json.loads(name)) if name else item.name


def _field_id(item: pa.Field) -> dict[bytes, bytes] | None:
    number = (item.metadata or {}).get(b"delta.columnMapping.id")
    return {b"PARQUET:field_id": number} if number else None


def _to_json(value: Any) -> Any:
    if hasattr(value, "hour"):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, Decimal):  # a JSON number; the tests' few digits survive a double
        return float(value)
    return value.isoformat() if hasattr(value, "isoformat") else value


def _folder(value: str | None) -> str:
    """Write a partition value as a folder's name, as Hive and Spark do."""
    if not value:
        return "__HIVE_DEFAULT_PARTITION__"
    return "".join(f"%{ord(char):02X}" if char in _UNSAFE_IN_FOLDERS else char for char in value)


_MAP = pa.map_(pa.string(), pa.string())
_CHECKPOINT = pa.schema(
    [
        (
            "protocol",
            pa.struct(
                [
                    ("minReaderVersion", pa.int32()),
                    ("minWriterVersion", pa.int32()),
                    ("readerFeatures", pa.list_(pa.string())),
                    ("writerFeatures", pa.list_(pa.string())),
                ]
            ),
        ),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("name", pa.string()),
                    ("format", pa.struct([("provider", pa.string()), ("options", _MAP)])),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.string())),
                    ("configuration", _MAP),
                    ("createdTime", pa.int64()),
                ]
            ),
        ),
        (
            "add",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("partitionValues", _MAP),
                    ("size", pa.int64()),
                    ("modificationTime", pa.int64()),
                    ("dataChange", pa.bool_()),
                    ("stats", pa.string()),
                ]
            ),
        ),
    ]
)


def checkpoint_file(actions: Sequence[Action], columns: pa.StructArray | None = None) -> bytes:
    """Return a classic checkpoint, or a part of one, with these actions and the adds of `columns`."""
    rows = []
    for action in actions:
        ((kind, body),) = action.items()
        fields = {key: list(value.items()) if isinstance(value, dict) else value for key, value in body.items()}
        if kind == "metaData":
            fields["format"] = {"provider": "parquet", "options": []}
        rows.append({kind: fields})
    table = pa.Table.from_pylist(rows, schema=_CHECKPOINT)
    if columns is not None:
        nothing = {name: pa.nulls(len(columns), _CHECKPOINT.field(name).type) for name in ("protocol", "metaData")}
        table = pa.concat_tables([table, pa.table(nothing | {"add": columns}, schema=_CHECKPOINT)])
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=100_000)
    return sink.getvalue()
