"""Decode manifests value by value: the obvious way, with which tests compare the fast one."""

import json
import struct
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from math import isfinite
from typing import Any

import fastavro
from deltaic.iceberg_source.file_statistics import partition_text, to_dict
from deltaic.iceberg_source.manifest_files import ManifestReader, SourceManifest, partition_key
from deltaic.pruning.values import EXACTLY, ColumnType

METRICS = ("lower_bounds", "upper_bounds", "null_value_counts", "nan_value_counts")


def live_files(reader: ManifestReader, manifest: SourceManifest, content: bytes) -> list[tuple[dict[str, Any], Any]]:
    """Return the live files of a manifest as rows of FILE_SCHEMA without nulls, and their keys."""
    columns = {key: column for key, column in reader.columns.items() if key not in reader.partition_columns}
    sources = [field["source-id"] for field in reader.specs[manifest.spec_id]]
    rows = []
    for entry in fastavro.reader(BytesIO(content)):
        assert isinstance(entry, dict)
        if entry["status"] == 2:
            continue
        file = entry["data_file"]
        values = dict(zip(sources, map(partition_text, file["partition"].values()), strict=True))
        add = {
            "path": reader.paths.logged(file["file_path"]),
            "partitionValues": [(name, values[key]) for key, name in reader.partition_columns.items()],
            "size": file["file_size_in_bytes"],
            "modificationTime": reader.times.get(entry["snapshot_id"] or manifest.snapshot_id, 0),
            "stats": statistics(file["record_count"], columns, [to_dict(file.get(name)) for name in METRICS]),
        }
        number = entry["sequence_number"]
        rows.append((add, (manifest.sequence_number if number is None else number, partition_key(file["partition"]))))
    return rows


def statistics(rows: int, columns: Mapping[int, tuple[Any, ColumnType]], metrics: list[dict[int, Any]]) -> Any:
    """Return the statistics of one file, as decoded JSON."""
    lower, upper, nulls, nans = metrics
    trees: dict[str, Any] = {"minValues": {}, "maxValues": {}, "nullCount": {}}
    for key, (path, type_) in columns.items():
        _put(trees["nullCount"], path, nulls.get(key))
        if nans.get(key) == 0 or type_.name not in {"float", "double"}:
            _put(trees["minValues"], path, bound(type_, lower.get(key), upper=False))
            _put(trees["maxValues"], path, bound(type_, upper.get(key), upper=True))
    return {"numRecords": rows, **{name: tree for name, tree in trees.items() if tree}, "tightBounds": False}


def bound(type_: ColumnType, raw: bytes | None, *, upper: bool) -> Any:
    """Return a bound as in decoded JSON, with decimals for floats; None for invalid bounds."""
    if raw is None or (not raw and type_.name != "string"):
        return None
    try:
        if type_.name == "string":
            return raw.decode()
        if type_.name != "decimal" and len(raw) not in {4, 8}:
            return None
        if type_.name in {"float", "double"}:
            value = struct.unpack("<f" if len(raw) == 4 else "<d", raw)[0]
            return Decimal(repr(value)) if isfinite(value) else None
        if type_.name == "decimal":
            number = int.from_bytes(raw, "big", signed=True)
            return Decimal(number).scaleb(-type_.scale, EXACTLY) if abs(number) < 10**38 and len(raw) <= 16 else None
        number = int.from_bytes(raw, "little", signed=True)
        if type_.name == "date":
            return (date(1970, 1, 1) + timedelta(number)).isoformat()
        if type_.name in {"timestamp", "timestamp_ntz"}:
            time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=(number + 999 * upper) // 1000)
            return time.isoformat(timespec="milliseconds")[:-6] + "Z" * (type_.name == "timestamp")
        if type_.name in {"integer", "long"} and -(1 << 63) <= number < 1 << 63:
            return number
    except (ValueError, struct.error, OverflowError, ArithmeticError):
        pass
    return None


def parsed(text: str) -> Any:
    """Return the statistics of a file without empty objects, as `statistics` returns them."""

    def present(values: list[tuple[str, Any]]) -> dict[str, Any]:
        return {name: value for name, value in values if value != {}}

    return json.loads(text, parse_float=Decimal, object_pairs_hook=present)


def _put(tree: dict[str, Any], path: Any, value: Any) -> None:
    if value is not None:
        for name in path[:-1]:
            tree = tree.setdefault(name, {})
        tree[path[-1]] = value
