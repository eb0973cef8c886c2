"""Sort any number of rows of a checkpoint's sidecars, with the sort keys in memory and the rows on disk.

The rows (about 10 GB for ten million files) are read twice: first only the sort columns, then all columns, to write
each row to the file for its sidecar. This needs some 40 bytes of memory for each row, and memory for one sidecar.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
from deltaic.delta.scan.add_rows import with_zones
from deltaic.delta.scan.checkpoint_parts import ParquetPart
from deltaic.delta.scan.parquet_file import Cursor
from deltaic.pruning.statistics_facts import has_leaf

from deltaic_pipeline.maintenance.sorted_checkpoint.row_order import SortKey, field_values

_BATCH = 65536
_RANK = "rank"
_TIME = ("modificationTime",)


@dataclass(frozen=True, slots=True)
class Ranks:
    """Position of each row in the sorted order: first `add` actions, then `remove` actions."""

    ranks: pa.Array
    """Positions as int64, in the original order of the rows."""
    num_adds: int


def ranks(parts: Sequence[ParquetPart], order: Sequence[SortKey]) -> Ranks:
    """Return the sorted positions of all rows; raises ValueError for rows that are neither `add` nor `remove`."""
    batches = [keys for part in parts for keys in _keys(part, order)]
    (table,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    sort_keys = [(name, "ascending") for name in table.schema.names]
    rows = pc.sort_indices(table, sort_keys=sort_keys)
    adds = table.num_rows - (pc.sum(table["removed"]).as_py() or 0)
    return Ranks(pc.inverse_permutation(rows.cast(pa.int64())).cast(pa.int64()), adds)


def _keys(part: ParquetPart, order: Sequence[SortKey]) -> Iterator[pa.RecordBatch]:
    names = [".".join(("add", *key.low)) for key in order]
    # At least one column of removes and one of adds are read, so that the kind of each row is known.
    for batch in _batches(part, "add.size", "add.modificationTime", "remove.deletionTimestamp", "remove.size", *names):
        adds = cast("pa.StructArray", batch.column("add"))
        removed = adds.is_null()
        if "remove" in batch.schema.names:
            neither = pc.and_(removed, batch.column("remove").is_null()).true_count
        else:
            neither = removed.true_count
        if neither:
            raise ValueError(f"{part.path} has rows that are neither add nor remove")
        columns = [removed, *(field_values(adds, key.low) for key in order), field_values(adds, _TIME)]
        yield pa.RecordBatch.from_arrays(columns, ["removed", *(f"k{number}" for number in range(len(order))), "time"])


def available_keys(part: ParquetPart, order: Sequence[SortKey]) -> tuple[SortKey, ...]:
    """Return the sort keys for which a checkpoint file has typed columns, and not only strings."""
    add = part.file.schema.field("add").type
    return tuple(key for key in order if has_leaf(add, key.low) and has_leaf(add, key.high))


def sorted_tables(
    parts: Sequence[ParquetPart], positions: Ranks, sidecar_rows: int, folder: Path
) -> Iterator[pa.Table]:
    """Yield tables of up to `sidecar_rows` sorted rows, either `add` or `remove`, via temporary files in `folder`.

    Only the columns `add` and `remove` are kept: the other columns are empty in a sidecar.
    """
    add_files = -(-positions.num_adds // sidecar_rows)
    count = add_files - (-(len(positions.ranks) - positions.num_adds) // sidecar_rows)
    files = [folder / f"{number}.arrows" for number in range(count)]
    _distribute(parts, positions, sidecar_rows, files)
    for file in files:
        with pa.OSFile(str(file)) as source, pa.ipc.open_stream(source) as stream:
            table = stream.read_all()
        file.unlink()
        table = table.take(pc.sort_indices(table[_RANK]))
        yield table.drop_columns([_RANK])


def _distribute(parts: Sequence[ParquetPart], positions: Ranks, sidecar_rows: int, files: Sequence[Path]) -> None:
    add_files = -(-positions.num_adds // sidecar_rows)
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with ExitStack() as stack:
        writers: list[pa.ipc.RecordBatchStreamWriter] = []
        start = 0
        for batch in (batch for part in parts for batch in _batches(part, "add", "remove")):
            ranks = positions.ranks.slice(start, batch.num_rows)
            start += batch.num_rows
            removes = pc.add(pc.divide(pc.subtract(ranks, positions.num_adds), sidecar_rows), add_files)
            file_numbers = pc.if_else(pc.less(ranks, positions.num_adds), pc.divide(ranks, sidecar_rows), removes)
            rows = pa.RecordBatch.from_arrays([*batch.columns, ranks], [*batch.schema.names, _RANK])
            if not writers:
                writers += [
                    stack.enter_context(pa.ipc.new_stream(str(file), rows.schema, options=options)) for file in files
                ]
            by_file = pc.sort_indices(file_numbers)
            rows = rows.take(by_file)
            begin = 0
            for group in pc.value_counts(file_numbers.take(by_file)).to_pylist():
                writers[group["values"]].write_batch(rows.slice(begin, group["counts"]))
                begin += group["counts"]


def _batches(part: ParquetPart, *columns: str) -> Iterator[pa.RecordBatch]:
    file = part.file
    leaves = file.leaves(*columns)
    for group in range(file.footer.num_row_groups):
        cursor = Cursor(file, file.fetch(file.ranges([group], leaves)))
        for batch in cursor.batches(group, leaves, _BATCH):
            arrays = [_restore_zones(batch.column(name), name, file.zoned) for name in batch.schema.names]
            yield pa.RecordBatch.from_arrays(arrays, batch.schema.names)


def _restore_zones(array: pa.Array, name: str, zoned: frozenset[str]) -> pa.Array:
    """Restore the time zone of INT96 timestamps, which would otherwise be written again without a time zone."""
    return with_zones(array, name, zoned) if zoned and isinstance(array, pa.StructArray) else array
