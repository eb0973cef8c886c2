"""Write Delta logs of the measured tables: of any size, without data files, with the same content in each run.

A log has a classic checkpoint at version 100 (snappy, row groups of 100,000 rows, 10 % tombstones), then ten commits,
each with 50 `add` and 20 `remove` actions. A table has max(10, files / 1,000) partitions by `date`. Paths of data files
have a UUID, as in Spark. The ten data columns have realistic statistics (about 800 bytes per file). `c0` is a counter,
so that conditions on it prune files. The other columns are random, because regular values would compress too well.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

CHECKPOINT_VERSION = 100
COMMITS = 10
ADDS_PER_COMMIT = 50
REMOVES_PER_COMMIT = 20
ROW_GROUP = 100_000
FIRST_DAY = date(2024, 1, 1)
COLUMNS: Mapping[str, str] = {
    "c0": "long",
    "c1": "double",
    "c2": "double",
    "c3": "string",
    "c4": "string",
    "c5": "decimal(12,2)",
    "c6": "timestamp",
    "c7": "integer",
    "c8": "date",
    "c9": "decimal(18,4)",
}
"""Delta types of the data columns, by name."""
_STATISTICS = (53, 53, 40, 40, 16, 16, 30, 30, 20, 20, 7, 7, 7)
"""Number of random bits in each of a file's statistics, which compression cannot reduce."""

_YEAR_SECONDS = 366 * 86_400

_MAP = pa.map_(pa.string(), pa.string())
_ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", _MAP),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
    ]
)
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
        ("add", _ADD),
        (
            "remove",
            pa.struct([("path", pa.string()), ("deletionTimestamp", pa.int64()), ("dataChange", pa.bool_())]),
        ),
    ]
)


def partitions(files: int) -> int:
    """Return the number of `date` partitions of a table with this number of files."""
    return max(10, files // 1000)


def name(files: int) -> str:
    """Return the name of a table with about this number of files."""
    return f"spark_{files}"


def add(number: int, files: int) -> dict[str, Any]:
    """Return the `add` action for file `number` of a table with `files` files."""
    day = _day(number, files)
    random = hashlib.blake2b(number.to_bytes(8, "little"), digest_size=64).digest()
    return {
        "path": _path(number, day, random),
        "partitionValues": {"date": day},
        "size": _size(number),
        "modificationTime": _modified(number, random),
        "dataChange": True,
        "stats": _statistics(number, random),
    }


def _day(number: int, files: int) -> str:
    return (FIRST_DAY + timedelta(days=number % partitions(files))).isoformat()


def _path(number: int, day: str, random: bytes) -> str:
    uuid = random[:16].hex()
    uuid = f"{uuid[:8]}-{uuid[8:12]}-4{uuid[13:16]}-{uuid[16:20]}-{uuid[20:]}"
    return f"date={day}/part-{number % 200:05d}-{uuid}.c000.snappy.parquet"


def _size(number: int) -> int:
    return 1_000_000 + number * 2_654_435_761 % 0x1000000


def _modified(number: int, random: bytes) -> int:
    return 1_700_000_000_000 + number // 200 * 60_000 + int.from_bytes(random[62:], "little") % 60_000


def _statistics(number: int, random: bytes) -> str:
    random_bits = int.from_bytes(random[16:62], "little")
    parts = []
    for bits in _STATISTICS:
        parts.append(random_bits & (1 << bits) - 1)
        random_bits >>= bits
    low, high, first, last, small, large, began, duration, price, prices, nulls, missing, rows = parts
    started = _timestamp(began % _YEAR_SECONDS, began % 1000)
    ended = _timestamp(began % _YEAR_SECONDS + 1 + duration % 86_400, duration % 1000)
    first_day_, last_day = sorted((_day_of_year(small % 366), _day_of_year(large % 366)))
    return (
        f'{{"numRecords":{1000 + rows},"minValues":{{"c0":{number * 10},"c1":{low / 2**56},"c2":{-high / 2**43:.2f},'
        f'"c3":"a{first:010x}","c4":"A{small:04X}","c5":{price / 100:.2f},"c6":"{started}","c7":{small % 10_000},'
        f'"c8":"{first_day_}","c9":{prices / 10_000:.4f}}},'
        f'"maxValues":{{"c0":{number * 10 + 9},"c1":{1 - high / 2**56},"c2":{low / 2**43:.2f},'
        f'"c3":"z{last:010x}","c4":"Z{large:04X}","c5":{1_000_000 + small / 100:.2f},"c6":"{ended}",'
        f'"c7":{10_000 + large % 1_000_000},"c8":"{last_day}","c9":{100_000 + large / 10_000:.4f}}},'
        f'"nullCount":{{"c0":0,"c1":{nulls},"c2":0,"c3":{missing},"c4":0,"c5":{rows},"c6":0,"c7":0,"c8":0,"c9":0}}}}'
    )


def _timestamp(seconds: int, milliseconds: int) -> str:
    days, rest = divmod(seconds, 86_400)
    return f"{_day_of_year(days)}T{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}.{milliseconds:03d}Z"


@lru_cache
def _day_of_year(days: int) -> str:
    return (FIRST_DAY + timedelta(days=days)).isoformat()


def metadata() -> dict[str, object]:
    """Return the `metaData` action of the measured tables, which all have the same schema."""
    types = {**COLUMNS, "date": "date"}
    fields = [{"name": column, "type": kind, "nullable": True, "metadata": {}} for column, kind in types.items()]
    return {
        "id": "5f2f4e0e-0f6c-4c3c-9d1b-6a4e8f1b2c3d",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": ["date"],
        "configuration": {},
        "createdTime": 1_700_000_000_000,
    }


def write(root: Path, files: int) -> Path:
    """Write the log of a table with about `files` active files below `root`, unless it exists; return its folder."""
    table = root / name(files)
    log = table / "_delta_log"
    hint = log / "_last_checkpoint"
    if hint.exists():
        return table
    log.mkdir(parents=True, exist_ok=True)
    checkpoint = log / f"{CHECKPOINT_VERSION:020d}.checkpoint.parquet"
    with pq.ParquetWriter(checkpoint, _CHECKPOINT, compression="snappy") as writer:
        actions = _checkpoint_actions(files)
        while group := list(islice(actions, ROW_GROUP)):
            writer.write_table(pa.Table.from_pylist(group, _CHECKPOINT))
    for version in range(CHECKPOINT_VERSION, CHECKPOINT_VERSION + COMMITS + 1):
        (log / f"{version:020d}.json").write_bytes(commit(version, files))
        (log / f"{version:020d}.crc").write_bytes(checksum(version, files))
    hint.write_text(json.dumps({"version": CHECKPOINT_VERSION, "size": files + files // 10 + 2}))
    return table


def commit(version: int, files: int) -> bytes:
    """Return the content of the commit file for a version."""
    return "".join(f"{json.dumps(action)}\n" for action in _commit(version, files)).encode()


def checksum(version: int, files: int) -> bytes:
    """Return the content of a version checksum file, which Spark writes after each commit (Delta protocol)."""
    commits = range(1, version - CHECKPOINT_VERSION + 1)
    added = [number for index in commits for number in _added(index, files)]
    removed = {number for index in commits for number in _removed(index, files)}
    live = files + len(added) - len(removed)
    total = sum(map(_size, added)) - sum(map(_size, removed))
    content = {
        "tableSizeBytes": total + _sizes(files),
        "numFiles": live,
        "numMetadata": 1,
        "numProtocol": 1,
        "metadata": metadata(),
        "protocol": {"minReaderVersion": 1, "minWriterVersion": 2},
    }
    return json.dumps(content).encode()


@lru_cache(maxsize=1)
def _sizes(files: int) -> int:
    return sum(map(_size, range(files)))


def _added(index: int, files: int) -> range:
    return range(files + index * ADDS_PER_COMMIT, files + (index + 1) * ADDS_PER_COMMIT)


def _removed(index: int, files: int) -> list[int]:
    return [(index * REMOVES_PER_COMMIT + number) % files for number in range(REMOVES_PER_COMMIT)]


def _checkpoint_actions(files: int) -> Iterator[dict[str, object]]:
    """Yield protocol and metadata, and an `add` action for each file, every tenth followed by a tombstone."""
    yield {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    yield {"metaData": metadata()}
    for number in range(files):
        action = add(number, files)
        yield {"add": {**action, "partitionValues": list(action["partitionValues"].items())}}
        if number % 10 == 0:
            path = f"gone-{number}.parquet"
            yield {"remove": {"path": path, "deletionTimestamp": 1_700_000_000_000, "dataChange": True}}


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
