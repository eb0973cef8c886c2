"""Write sorted sidecars with row groups of ten thousand rows, and a tag with min/max values of each group.

`deltaic.delta.scan.part_summary` reads the tag in the manifest; other readers ignore it.
"""

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltaic.delta.paths import version_prefix
from deltaic.delta.scan.part_summary import SUMMARY, PartSummary
from deltaic.delta.scan.stats_json import json_statistics
from deltaic.pruning.statistics_facts import has_leaf
from deltaic.pruning.stats_bounds import from_typed, is_text
from deltaic.pruning.values import column_type

from deltaic_pipeline.maintenance.sorted_checkpoint.row_order import SortKey, field_values


@dataclass(frozen=True, slots=True)
class Layout:
    """Numbers of rows in a row group and in a sidecar."""

    row_group: int = 10_000
    """Number of rows in a row group, which a reader decodes completely to find one file."""

    sidecar: int = 200_000
    """Number of rows in a sidecar; its footer, which readers download to read one row group, has some hundred KB."""


LAYOUT = Layout()
_DISTINCT = ("add.path", "add.stats", "add.stats_parsed", "remove.path")
"""Columns with few repeated values, for which dictionary encoding is useless."""
_MAYBE_NULL = pa.array(["", "__HIVE_DEFAULT_PARTITION__"])
"""Partition values that some readers interpret as null, and others as strings."""
_FOOTER_END = 8
"""Number of bytes after a Parquet footer: the footer's length, and the magic bytes."""


@dataclass(frozen=True, slots=True)
class SidecarFile:
    """Sidecar on the local disk, with its `sidecar` action for the manifest."""

    file: Path
    action: Mapping[str, Any]
    num_adds: int
    size_of_adds: int
    rows: int

    @property
    def name(self) -> str:
        """File name in `_sidecars/`."""
        return self.file.name


def write_sidecar(folder: Path, version: int, rows: pa.Table, order: Sequence[SortKey], layout: Layout) -> SidecarFile:
    """Write rows, either `add` or `remove` actions, as one sidecar for a version's checkpoint."""
    file = folder / f"{version_prefix(version)}.checkpoint.{uuid.uuid4()}.parquet"
    rows = rows.combine_chunks()
    adds = cast("pa.StructArray", rows["add"].chunk(0))
    pq.write_table(
        rows,
        file,
        row_group_size=layout.row_group,
        compression="zstd",
        compression_level=3,
        use_dictionary=_dictionary_columns(rows.schema),
        store_schema=False,
    )
    count = len(adds) - adds.null_count
    if count not in {0, len(adds)}:
        raise ValueError("a sidecar holds adds or removes, not both")
    summary = _summary(file, adds.slice(0, count), order, layout.row_group)
    action = {
        "path": summary.path,
        "sizeInBytes": summary.size_in_bytes,
        "modificationTime": int(time.time() * 1000),
        "tags": {SUMMARY: msgspec.json.encode(summary).decode()},
    }
    return SidecarFile(file, action, summary.num_adds, summary.size_of_adds, len(adds))


def _dictionary_columns(schema: pa.Schema) -> list[str]:
    with pa.BufferOutputStream() as buffer:
        pq.write_table(pa.Table.from_batches([], schema), buffer)
        parquet_schema = pq.read_metadata(pa.BufferReader(buffer.getvalue())).schema
    paths = [parquet_schema.column(number).path for number in range(len(parquet_schema))]
    return [path for path in paths if not f"{path}.".startswith(tuple(f"{name}." for name in _DISTINCT))]


def _summary(file: Path, adds: pa.StructArray, order: Sequence[SortKey], rows: int) -> PartSummary:
    vector = ("deletionVector", "storageType")
    vectors = field_values(adds, vector) if has_leaf(adds.type, vector) else None
    return PartSummary(
        path=file.name,
        size_in_bytes=file.stat().st_size,
        footer_bytes=pq.read_metadata(file).serialized_size + _FOOTER_END,
        num_adds=len(adds),
        size_of_adds=pc.sum(adds.field("size")).as_py() or 0,
        num_deletion_vectors=0 if vectors is None else len(vectors) - vectors.null_count,
        row_groups=tuple(
            msgspec.Raw(statistics(adds.slice(start, rows), order)) for start in range(0, len(adds), rows)
        ),
    )


def statistics(adds: pa.StructArray, order: Sequence[SortKey]) -> bytes:
    """Return min/max values and null counts over all files of these `add` actions as JSON, for `PartSummary`."""
    bounds: dict[str, dict[str, Any]] = {"minValues": {}, "maxValues": {}, "nullCount": {}}
    for key in order:
        if has_leaf(adds.type, key.low) and has_leaf(adds.type, key.high):
            _put(bounds["minValues"], key.path, _least(field_values(adds, key.low), key))
            _put(bounds["maxValues"], key.path, _greatest(field_values(adds, key.high), key))
            _put(bounds["nullCount"], key.path, _no_nulls(adds, key))
    return msgspec.json.encode({name: values for name, values in bounds.items() if values})


def _put(bounds: dict[str, Any], path: Sequence[str], value: msgspec.Raw | None) -> None:
    if value is not None:
        for name in path[:-1]:
            bounds = bounds.setdefault(name, {})
        bounds[path[-1]] = value


def _least(lows: pa.Array, key: SortKey) -> msgspec.Raw | None:
    return _json(pc.min_max(lows)["min"]) if _is_exact(lows, key) else None


def _greatest(highs: pa.Array, key: SortKey) -> msgspec.Raw | None:
    if is_text(highs.type) and not key.is_partition:
        # Writers truncate maxima at different lengths, so compare the greatest values that each can represent.
        widened = from_typed(highs, column_type("string"), upper=True)
        if widened is None:
            return None
        highs = widened
    return _json(pc.min_max(highs)["max"]) if _is_exact(highs, key) else None


def _no_nulls(adds: pa.StructArray, key: SortKey) -> msgspec.Raw | None:
    if key.is_partition:
        return msgspec.Raw(b"0") if _is_exact(field_values(adds, key.low), key) else None
    path = ("stats_parsed", "nullCount", *key.path)
    counts = field_values(adds, path) if has_leaf(adds.type, path) else None
    if counts is None or counts.null_count or not pa.types.is_integer(counts.type):
        return None
    return msgspec.Raw(b"0") if pc.min_max(counts)["max"].as_py() == 0 else None


def _is_exact(bounds: pa.Array, key: SortKey) -> bool:
    """Return whether every file has min/max values for the column, and all readers interpret them alike."""
    if bounds.null_count or (key.is_partition and pa.types.is_timestamp(bounds.type)):
        return False  # a partition value has a timestamp without its zone
    if key.is_partition and (is_text(bounds.type) or pa.types.is_binary(bounds.type)):
        return not pc.is_in(bounds, pc.cast(_MAYBE_NULL, bounds.type)).true_count
    return not (pa.types.is_floating(bounds.type) and pc.is_nan(bounds).true_count)


def _json(value: pa.Scalar) -> msgspec.Raw | None:
    # Without Python's datetime, which has no year 10000: in UTC, the last hours of 9999 in western zones are in it.
    struct = pa.StructArray.from_arrays([pa.repeat(value, 1)], names=["v"])
    text = json_statistics(struct)[0].as_py()
    prefix = '{"v":'
    return msgspec.Raw(text[len(prefix) : -1].encode()) if text and text.startswith(prefix) else None
