"""Writes sidecars: rows in order, row groups of ten thousand, and a tag that tells their bounds.

The tag is read by `deltaic.delta.scan.part_summary`; every other reader finds a sidecar like any other.
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
from deltaic.pruning.stats_bounds import from_typed, is_text
from deltaic.pruning.values import column_type

from deltaic_pipeline.maintenance.sorted_checkpoint.row_order import Key, has, values
from deltaic_pipeline.maintenance.sorted_checkpoint.typed_adds import TypedAdds


@dataclass(frozen=True, slots=True)
class Layout:
    """How many rows lie together."""

    row_group: int = 10_000
    """What a reader decodes for one file that it wants."""

    sidecar: int = 200_000
    """With so many its footer, which a reader fetches for one row group, stays at some hundred KB."""


LAYOUT = Layout()
_DISTINCT = ("add.path", "add.stats", "add.stats_parsed", "remove.path")
"""Columns in which hardly a value repeats: a dictionary of them would be thrown away."""
_MAYBE_NULL = pa.array(["", "__HIVE_DEFAULT_PARTITION__"])
"""Partition values that are null to some readers, and strings to others."""
_FOOTER_END = 8
"""Bytes after a Parquet footer: its length, and the magic."""


@dataclass(frozen=True, slots=True)
class Sidecar:
    """A sidecar on disk, and what the manifest says of it."""

    file: Path
    action: Mapping[str, Any]
    num_adds: int
    size_of_adds: int
    rows: int

    @property
    def name(self) -> str:
        """Its name below `_sidecars/`."""
        return self.file.name


def write_sidecar(  # noqa: PLR0913, PLR0917 -- what is written, where, and what is said of it
    folder: Path,
    version: int,
    rows: pa.Table,
    order: Sequence[Key],
    layout: Layout,
    typed: TypedAdds,
) -> Sidecar:
    """Write rows of `add` and `remove`, adds only or removes only, as one sidecar of a version's checkpoint.

    `typed` gives the adds what they have as text only.
    """
    file = folder / f"{version_prefix(version)}.checkpoint.{uuid.uuid4()}.parquet"
    rows = rows.combine_chunks()
    adds = typed.for_rows(cast("pa.StructArray", rows["add"].chunk(0)))
    rows = rows.set_column(rows.schema.get_field_index("add"), "add", adds)
    pq.write_table(
        rows,
        file,
        row_group_size=layout.row_group,
        compression="zstd",
        compression_level=3,
        use_dictionary=_repeating(rows.schema),
        store_schema=False,
    )
    count = len(adds) - adds.null_count
    if count not in {0, len(adds)}:
        raise ValueError("a sidecar holds adds or removes, not both")
    summary = _summary(file, typed.with_partitions(adds.slice(0, count)), order, layout.row_group)
    action = {
        "path": summary.path,
        "sizeInBytes": summary.size_in_bytes,
        "modificationTime": int(time.time() * 1000),
        "tags": {SUMMARY: msgspec.json.encode(summary).decode()},
    }
    return Sidecar(file, action, summary.num_adds, summary.size_of_adds, len(adds))


def _repeating(schema: pa.Schema) -> list[str]:
    with pa.BufferOutputStream() as nothing:
        pq.write_table(pa.Table.from_batches([], schema), nothing)
        found = pq.read_metadata(pa.BufferReader(nothing.getvalue())).schema
    paths = [found.column(at).path for at in range(len(found))]
    return [path for path in paths if not f"{path}.".startswith(tuple(f"{name}." for name in _DISTINCT))]


def _footer_bytes(file: Path) -> int:
    with file.open("rb") as opened:
        opened.seek(-_FOOTER_END, 2)
        return int.from_bytes(opened.read(4), "little") + _FOOTER_END


def _summary(file: Path, adds: pa.StructArray, order: Sequence[Key], rows: int) -> PartSummary:
    vector = ("deletionVector", "storageType")
    vectors = values(adds, vector) if has(adds.type, vector) else None
    return PartSummary(
        path=file.name,
        size_in_bytes=file.stat().st_size,
        footer_bytes=_footer_bytes(file),
        num_adds=len(adds),
        size_of_adds=pc.sum(adds.field("size")).as_py() or 0,
        num_deletion_vectors=0 if vectors is None else len(vectors) - vectors.null_count,
        row_groups=tuple(
            msgspec.Raw(statistics(adds.slice(start, rows), order)) for start in range(0, len(adds), rows)
        ),
    )


def statistics(adds: pa.StructArray, order: Sequence[Key]) -> bytes:
    """Return statistics that hold for the rows of all these files, as JSON; see PartSummary."""
    bounds: dict[str, dict[str, Any]] = {"minValues": {}, "maxValues": {}, "nullCount": {}}
    for key in order:
        if has(adds.type, key.low) and has(adds.type, key.high):
            _put(bounds["minValues"], key.path, _least(values(adds, key.low), key))
            _put(bounds["maxValues"], key.path, _greatest(values(adds, key.high), key))
            _put(bounds["nullCount"], key.path, _no_nulls(adds, key))
    return msgspec.json.encode({name: told for name, told in bounds.items() if told})


def _put(bounds: dict[str, Any], path: Sequence[str], value: msgspec.Raw | None) -> None:
    if value is not None:
        for name in path[:-1]:
            bounds = bounds.setdefault(name, {})
        bounds[path[-1]] = value


def _least(lows: pa.Array, key: Key) -> msgspec.Raw | None:
    return _json(pc.min_max(lows)["min"]) if _is_whole(lows, key) else None


def _greatest(highs: pa.Array, key: Key) -> msgspec.Raw | None:
    if is_text(highs.type) and not key.is_partition:
        # Maxima may have been cut, each at another place: the greatest is that of what they may stand for.
        widened = from_typed(highs, column_type("string"), upper=True)
        if widened is None:
            return None
        highs = widened
    return _json(pc.min_max(highs)["max"]) if _is_whole(highs, key) else None


def _no_nulls(adds: pa.StructArray, key: Key) -> msgspec.Raw | None:
    if key.is_partition:
        return msgspec.Raw(b"0") if _is_whole(values(adds, key.low), key) else None
    path = ("stats_parsed", "nullCount", *key.path)
    counts = values(adds, path) if has(adds.type, path) else None
    if counts is None or counts.null_count or not pa.types.is_integer(counts.type):
        return None
    return msgspec.Raw(b"0") if pc.min_max(counts)["max"].as_py() == 0 else None


def _is_whole(bounds: pa.Array, key: Key) -> bool:
    """Tell whether every file has a bound, and one that is read alike by everybody."""
    if bounds.null_count or (key.is_partition and pa.types.is_timestamp(bounds.type)):
        return False  # a partition's timestamp is written without its zone
    if key.is_partition and (is_text(bounds.type) or pa.types.is_binary(bounds.type)):
        return not pc.is_in(bounds, pc.cast(_MAYBE_NULL, bounds.type)).true_count
    return not (pa.types.is_floating(bounds.type) and pc.is_nan(bounds).true_count)


def _json(value: pa.Scalar) -> msgspec.Raw | None:
    # Not by way of Python, which knows no year 10000: the last second of 9999 is there in zones west of UTC.
    struct = pa.StructArray.from_arrays([pa.repeat(value, 1)], names=["v"])
    text = json_statistics(struct)[0].as_py()
    prefix = '{"v":'
    return msgspec.Raw(text[len(prefix) : -1].encode()) if text and text.startswith(prefix) else None
