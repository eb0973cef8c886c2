"""Decides what the measured tables look like: logs of any size, without data files, the same at every run.

Shape: one classic checkpoint at version 100 (snappy, row groups of 100,000 rows, 10 % tombstones), then ten commits of
50 adds and 20 removes each, partitioned by `date` into max(10, files / 1,000) partitions, ten data columns with
statistics (about 620 bytes a file).
"""

import hashlib
import json
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

CHECKPOINT_VERSION = 100
COMMITS = 10
ADDS_PER_COMMIT = 50
REMOVES_PER_COMMIT = 20
ROW_GROUP = 100_000
FIRST_DAY = date(2024, 1, 1)
COLUMNS = [f"c{number}" for number in range(10)]

_MAP = pa.map_(pa.string(), pa.string())
_CHECKPOINT = pa.schema(
    [
        (
            "protocol",
            pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())]),
        ),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("name", pa.string()),
                    ("description", pa.string()),
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
        (
            "remove",
            pa.struct([("path", pa.string()), ("deletionTimestamp", pa.int64()), ("dataChange", pa.bool_())]),
        ),
    ]
)


def partitions(files: int) -> int:
    """Return how many `date` partitions a table of so many files has."""
    return max(10, files // 1000)


def add(number: int, files: int) -> dict[str, object]:
    """Return the add action of file `number`."""
    day = (FIRST_DAY + timedelta(days=number % partitions(files))).isoformat()
    name = hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest()
    rows = 1000 + number % 77
    low = {column: number * 10 + index for index, column in enumerate(COLUMNS)}
    high = {column: value + 9 for column, value in low.items()}
    stats = {"numRecords": rows, "minValues": low, "maxValues": high, "nullCount": dict.fromkeys(COLUMNS, 0)}
    return {
        "path": f"date={day}/part-{number:07d}-{name}.c000.snappy.parquet",
        "partitionValues": {"date": day},
        "size": 1_000_000 + number,
        "modificationTime": 1_700_000_000_000 + number,
        "dataChange": True,
        "stats": json.dumps(stats, separators=(",", ":")),
    }


def metadata() -> dict[str, object]:
    """Return the table's metaData action."""
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in COLUMNS]
    fields.append({"name": "date", "type": "date", "nullable": True, "metadata": {}})
    return {
        "id": "5f2f4e0e-0f6c-4c3c-9d1b-6a4e8f1b2c3d",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": ["date"],
        "configuration": {},
        "createdTime": 1_700_000_000_000,
    }


def write(root: Path, files: int) -> Path:
    """Write the log of a table of about `files` live files below `root` (once) and return its folder."""
    table = root / f"files_{files}"
    log = table / "_delta_log"
    hint = log / "_last_checkpoint"
    if hint.exists():
        return table
    log.mkdir(parents=True, exist_ok=True)
    checkpoint = log / f"{CHECKPOINT_VERSION:020d}.checkpoint.parquet"
    with pq.ParquetWriter(checkpoint, _CHECKPOINT, compression="snappy") as writer:
        for table_part in _row_groups(files):
            writer.write_table(table_part, row_group_size=ROW_GROUP)
    for version in range(CHECKPOINT_VERSION, CHECKPOINT_VERSION + COMMITS + 1):
        (log / f"{version:020d}.json").write_bytes(commit(version, files))
        (log / f"{version:020d}.crc").write_bytes(checksum(version, files))
    hint.write_text(json.dumps({"version": CHECKPOINT_VERSION, "size": files + files // 10 + 2}))
    return table


def commit(version: int, files: int) -> bytes:
    """Return the content of one commit of such a table."""
    return "".join(f"{json.dumps(action)}\n" for action in _commit(version, files)).encode()


def checksum(version: int, files: int) -> bytes:
    """Return the version checksum, as Spark writes one with every commit (Delta protocol, "Version Checksum File")."""
    commits = range(1, version - CHECKPOINT_VERSION + 1)
    added = [number for index in commits for number in _added(index, files)]
    gone = {number for index in commits for number in _removed(index, files)}
    live = files + len(added) - len(gone)
    total = sum(1_000_000 + number for number in added) - sum(1_000_000 + number for number in gone)
    content = {
        "tableSizeBytes": total + files * 1_000_000 + files * (files - 1) // 2,
        "numFiles": live,
        "numMetadata": 1,
        "numProtocol": 1,
        "metadata": metadata(),
        "protocol": {"minReaderVersion": 1, "minWriterVersion": 2},
    }
    return json.dumps(content).encode()


def _added(index: int, files: int) -> range:
    return range(files + index * ADDS_PER_COMMIT, files + (index + 1) * ADDS_PER_COMMIT)


def _removed(index: int, files: int) -> list[int]:
    return [(index * REMOVES_PER_COMMIT + number) % files for number in range(REMOVES_PER_COMMIT)]


def _row_groups(files: int) -> Iterator[pa.Table]:
    rows: list[dict[str, object]] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": metadata() | {"name": None, "description": None}},
    ]
    for number in range(files):
        rows.append({"add": add(number, files)})
        if number % 10 == 0:
            removed = {"path": f"gone-{number}.parquet", "deletionTimestamp": 1_700_000_000_000, "dataChange": True}
            rows.append({"remove": removed})
        if len(rows) >= ROW_GROUP:
            yield pa.Table.from_pylist(rows[:ROW_GROUP], schema=_CHECKPOINT)
            rows = rows[ROW_GROUP:]
    if rows:
        yield pa.Table.from_pylist(rows, schema=_CHECKPOINT)


def _commit(version: int, files: int) -> Iterator[dict[str, object]]:
    index = version - CHECKPOINT_VERSION
    yield {"commitInfo": {"timestamp": 1_700_000_000_000 + version * 1000, "operation": "WRITE"}}
    if index == 0:
        return
    for number in _added(index, files):
        yield {"add": add(number, files)}
    for number in _removed(index, files):
        victim = add(number, files)
        yield {
            "remove": {
                "path": victim["path"],
                "deletionTimestamp": 1_700_000_000_000,
                "dataChange": True,
                "partitionValues": victim["partitionValues"],
                "size": victim["size"],
            }
        }
