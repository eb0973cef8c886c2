"""Figures of a table of ten million files: selective queries, beside the same over 100,000.

Its checkpoint is written by the code that `deltaic pipeline maintain` writes it with: v2, in order, zstd, types. A
thousand partitions by `date`; `c0` counts on through all of them, as an id or a time does, and the other nine columns
are random. About 3 GB, made once (ten minutes) and kept in the store; ten commits with 50 adds each follow.
"""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltaic_pipeline.maintenance.sorted_checkpoint.order import Key
from deltaic_pipeline.maintenance.sorted_checkpoint.sidecars import LAYOUT, write_sidecar

from bench import process, tables
from bench.client import Client
from bench.figures import Figure, files_named
from bench.objects import BUCKET, ObjectStore
from bench.scenarios import Cost, cost_of
from bench.serving import Server, Service

SIZES: Final = (100_000, 10_000_000)
FIRST: Final = 1000
"""Files of the table that each process is asked for first, so that what such a query needs is loaded."""

PARTITIONS: Final = 1000
"""So that one of them is 0.1 %."""

_ORDER: Final = (Key(("date",), is_partition=True), Key(("c0",), is_partition=False))
_VERSION: Final = tables.CHECKPOINT_VERSION
_STAMP: Final = pa.timestamp("us", "UTC")
_FIRST_DAY: Final = (tables.FIRST_DAY - date(1970, 1, 1)).days
_MILLION: Final = 1_000_000
_WARM: Final = 5


def name(files: int) -> str:
    """Return the name of such a table."""
    return f"huge_{files}"


def put(objects: ObjectStore, files: int, state: Path, say: Callable[[str], None]) -> str:
    """Put the log of a table into the store, unless it is there, and return its location."""
    log = f"{name(files)}/_delta_log/"
    if objects.client.list_objects_v2(Bucket=BUCKET, Prefix=f"{log}_last_checkpoint").get("KeyCount"):
        return f"s3://{BUCKET}/{name(files)}"
    actions: list[Mapping[str, Any]] = [{"checkpointMetadata": {"version": _VERSION}}, *_head()]
    size = 0
    for first in range(0, files, LAYOUT.sidecar):
        say(f"sidecar from file {first:,} of {files:,} on")
        rows = _rows(range(first, min(first + LAYOUT.sidecar, files)), files)
        size += pc.sum(pc.struct_field(rows["add"], ["size"])).as_py()
        with tempfile.TemporaryDirectory(dir=state) as folder:
            sidecar = write_sidecar(Path(folder), _VERSION, rows, _ORDER)
            objects.client.upload_file(str(sidecar.file), BUCKET, f"{log}_sidecars/{sidecar.name}")
        actions.append({"sidecar": sidecar.action})
    manifest = f"{_VERSION:020d}.checkpoint.ffffffff-0000-4000-8000-000000000000.json"
    content = {manifest: _lines(actions), **_commits(files, size)}
    content["_last_checkpoint"] = json.dumps({"version": _VERSION, "size": files + len(actions)}).encode()
    for key, body in content.items():
        objects.client.put_object(Bucket=BUCKET, Key=log + key, Body=body)
    return f"s3://{BUCKET}/{name(files)}"


def measured(objects: ObjectStore, service: Service, say: Callable[[str], None]) -> Iterator[Figure]:
    """Measure 0.1 % of each table, by partition and by the column of its order, with fresh processes and warm."""
    small, large = SIZES
    for what, hint in (("a partition", _partition), ("a range of a column", _range)):
        say(f"0.1 % by {what}")
        theirs = _figures(objects, service, small, hint)
        ours = _figures(objects, service, large, hint)
        for figure, (value, unit, bar) in ours.items():
            yield Figure(
                f"0.1 % of {files_named(large)}",
                f"by {what}, {figure}",
                value,
                unit,
                bar,
                f"the same of {files_named(small)}",
                theirs[figure][0],
            )


def _figures(
    objects: ObjectStore, service: Service, files: int, hint: Callable[[int], dict[str, object]]
) -> dict[str, tuple[float, str, float | None]]:
    first, body = (json.dumps({"jsonPredicateHints": json.dumps(hint(count))}).encode() for count in (FIRST, files))
    with service.fresh() as server:
        server.client.query(name(FIRST), first)
        process.forget_peak(server.pid)
        fresh = _cost(objects, server, partial(Client.query, table=name(files), body=body))
        peak = process.peak(server.pid)
        warm = [_cost(objects, server, partial(Client.query, table=name(files), body=body)) for _ in range(_WARM)]
    wanted = files // PARTITIONS
    if not wanted <= fresh.timing.lines - 2 <= wanted + tables.COMMITS * tables.ADDS_PER_COMMIT:
        raise RuntimeError(f"{fresh.timing.lines} lines for about {wanted} files")
    return {
        "fresh: first byte": (1000 * fresh.timing.first, "ms", 150),
        "fresh: last byte": (1000 * fresh.timing.last, "ms", None),
        "fresh: S3 requests": (fresh.requests, "", 20),
        "fresh: peak memory": (peak, "MB", 300),
        "warm: first byte": (1000 * min(cost.timing.first for cost in warm), "ms", None),
    }


def _cost(objects: ObjectStore, server: Server, ask: Callable[[Client], Any]) -> Cost:
    return cost_of(objects.requests, server, ask)


def _partition(files: int) -> dict[str, object]:
    """Return the hint for the partition in the middle."""
    day = tables.FIRST_DAY + timedelta(days=files // 2 * PARTITIONS // files)
    return _compared("equal", "date", day.isoformat(), "date")


def _range(files: int) -> dict[str, object]:
    """Return the hint for a thousandth of the values of `c0`, across the border of two partitions."""
    middle = 10 * (files // 2 - files // PARTITIONS // 2)
    ends = [("greaterThanOrEqual", middle), ("lessThan", middle + 10 * files // PARTITIONS)]
    return {"op": "and", "children": [_compared(op, "c0", str(value), "long") for op, value in ends]}


def _compared(operator: str, column: str, value: str, kind: str) -> dict[str, object]:
    return {
        "op": operator,
        "children": [
            {"op": "column", "name": column, "valueType": kind},
            {"op": "literal", "value": value, "valueType": kind},
        ],
    }


def _head() -> list[dict[str, object]]:
    features = ["v2Checkpoint"]
    told = tables.metadata() | {"configuration": {"delta.checkpointPolicy": "v2"}}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    return [{"protocol": protocol}, {"metaData": told}]


def _commits(files: int, size: int) -> dict[str, bytes]:
    """Return the commits after the checkpoint, and the checksum of the last."""
    commits = {}
    number = files
    for version in range(_VERSION, _VERSION + tables.COMMITS + 1):
        added = [tables.add(number + at, files) for at in range(tables.ADDS_PER_COMMIT if version > _VERSION else 0)]
        number += len(added)
        size += sum(int(str(one["size"])) for one in added)
        told = {"commitInfo": {"timestamp": 1_700_000_000_000 + version * 1000, "operation": "WRITE"}}
        commits[f"{version:020d}.json"] = _lines([told, *({"add": one} for one in added)])
    protocol, metadata = _head()
    totals = {"tableSizeBytes": size, "numFiles": number, "numMetadata": 1, "numProtocol": 1}
    commits[f"{version:020d}.crc"] = json.dumps({**totals, **protocol, "metadata": metadata["metaData"]}).encode()
    return commits


def _lines(actions: list[Mapping[str, Any]]) -> bytes:
    return b"".join(json.dumps(action, separators=(",", ":")).encode() + b"\n" for action in actions)


def _rows(numbers: range, files: int) -> Any:
    """Return the adds of some files, the same at every run."""
    count = len(numbers)
    random = np.random.default_rng(numbers.start)
    number = np.arange(numbers.start, numbers.stop)
    day = pa.array(number * PARTITIONS // files + _FIRST_DAY).cast(pa.int32()).cast(pa.date32())
    text = day.cast(pa.string())
    part = pc.utf8_lpad(pa.array(number % 200).cast(pa.string()), 5, "0")
    paths = pc.binary_join_element_wise(
        pc.binary_join_element_wise("date=", text, ""), pc.binary_join_element_wise("part-", part, ""), "/"
    )
    paths = pc.binary_join_element_wise(paths, _uuids(random, count), "-")
    typed = _statistics(number, random)
    fields = {
        "path": pc.binary_join_element_wise(paths, ".c000.snappy.parquet", ""),
        "partitionValues": pa.MapArray.from_arrays(
            pa.array(range(count + 1), pa.int32()), pa.repeat(pa.scalar("date"), count), text
        ),
        "size": pa.array(random.integers(1_000_000, 18_000_000, count)),
        "modificationTime": pa.array(1_700_000_000_000 + number // 200 * 60_000 + random.integers(0, 60_000, count)),
        "dataChange": pa.array(np.zeros(count, bool)),
        "stats": _json(typed),
        "partitionValues_parsed": pa.StructArray.from_arrays([day], names=["date"]),
        "stats_parsed": typed,
    }
    return pa.table({"add": pa.StructArray.from_arrays(list(fields.values()), names=list(fields))})


def _uuids(random: np.random.Generator, count: int) -> Any:
    digits = random.bytes(16 * count).hex().encode()
    offsets = pa.array(range(0, 32 * count + 1, 32), pa.int32()).buffers()[1]
    strings: Any = pa.StringArray
    whole = strings.from_buffers(count, offsets, pa.py_buffer(digits))
    ends = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))
    return pc.binary_join_element_wise(*(pc.utf8_slice_codeunits(whole, begin, end) for begin, end in ends), "-")


def _json(typed: pa.StructArray) -> Any:
    """Return the statistics as JSON, as Spark writes them: column by column, for row by row takes an hour."""
    pieces: list[Any] = ['{"numRecords":', typed.field("numRecords").cast(pa.string())]
    for part in ("minValues", "maxValues", "nullCount"):
        pieces.append(f',"{part}":{{')
        for at, column in enumerate(tables.COLUMNS):
            values = typed.field(part).field(column)
            mark = "" if part == "nullCount" else {"string": '"', "timestamp": '"'}.get(tables.COLUMNS[column], "")
            if pa.types.is_timestamp(values.type):
                values = pc.replace_substring(
                    values.cast(pa.timestamp("us")).cast(pa.timestamp("ms")).cast(pa.string()), " ", "T"
                )
                mark_after = 'Z"'
            else:
                mark_after = mark
            pieces += [f'{"," if at else ""}"{column}":{mark}', values.cast(pa.string()), mark_after]
        pieces.append("}")
    return pc.binary_join_element_wise(*pieces, "}", "")


def _statistics(number: Any, random: np.random.Generator) -> pa.StructArray:
    """Return statistics as `stats_parsed` has them: `c0` counts, the others are random (see tables.COLUMNS)."""
    count = len(number)

    def whole(below: int) -> Any:
        return random.integers(0, below, count)

    def digits(prefix: str, bits: int) -> pa.Array:
        return pa.array([f"{prefix}{value:010x}" for value in whole(1 << bits).tolist()])

    def cents(above: int, scale: int) -> Any:
        exact: Any = pa.array(whole(1 << 30) + above * 10**scale).cast(pa.decimal128(19, 0))
        return exact.view(pa.decimal128(19, scale)).cast(pa.decimal128(18, scale))

    began = whole(366 * 86_400_000) * 1000 + 1_704_067_200_000_000
    seen = whole(366 * 86_400_000) * 1000 + 1_704_067_200_000_000
    low = [number * 10, random.random(count) / 8, -random.random(count) * 1000, digits("a", 40), digits("A", 30)]
    low += [cents(0, 2), pa.array(began, _STAMP), pa.array(whole(10_000), pa.int32()), pa.array(seen, _STAMP)]
    high = [number * 10 + 9, 1 - random.random(count) / 8, random.random(count) * 1000, digits("z", 40)]
    high += [digits("Z", 30), cents(_MILLION, 2), pa.array(began + whole(86_400_000) * 1000, _STAMP)]
    high += [pa.array(10_000 + whole(_MILLION), pa.int32()), pa.array(seen + whole(86_400_000) * 1000, _STAMP)]
    low, high = [*low, cents(0, 4)], [*high, cents(100_000, 4)]
    nulls = [whole(128) if column in {"c1", "c3", "c5"} else np.zeros(count, np.int64) for column in tables.COLUMNS]
    names = list(tables.COLUMNS)
    parts = [pa.StructArray.from_arrays([pa.array(one) for one in kind], names=names) for kind in (low, high, nulls)]
    return pa.StructArray.from_arrays(
        [pa.array(1000 + whole(128)), *parts], names=["numRecords", "minValues", "maxValues", "nullCount"]
    )
