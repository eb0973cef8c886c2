"""Sorts the rows of a checkpoint's sidecars, however many: their keys in memory, the rows by way of the disk.

Ten million files take about 10 GB of rows, which are read twice: first the few columns that decide the order, then all
of them, each into the file of the sidecar that it belongs to. Memory: some 40 bytes a row, and one sidecar.
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

from deltaic_pipeline.maintenance.sorted_checkpoint.row_order import Key, has, values
from deltaic_pipeline.maintenance.sorted_checkpoint.typed_adds import TypedAdds

_BATCH = 65536
_RANK = "rank"
_TIME = ("modificationTime",)


@dataclass(frozen=True, slots=True)
class Ranks:
    """Where each row of the parts goes: adds first, in order, then removes."""

    ranks: pa.Array
    """int64, for the rows in which the parts have them."""
    num_adds: int


def ranks(parts: Sequence[ParquetPart], order: Sequence[Key], typed: TypedAdds) -> Ranks:
    """Return the order of all rows; raises ValueError for rows that are neither add nor remove."""
    batches = [keys for part in parts for keys in _keys(part, order, typed)]
    (table,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    sort_keys = [(name, "ascending") for name in table.schema.names]
    rows = pc.sort_indices(table, sort_keys=sort_keys)
    adds = table.num_rows - (pc.sum(table["removed"]).as_py() or 0)
    return Ranks(pc.inverse_permutation(rows.cast(pa.int64())).cast(pa.int64()), adds)


def _keys(part: ParquetPart, order: Sequence[Key], typed: TypedAdds) -> Iterator[pa.RecordBatch]:
    names = [typed.source(key) for key in order]
    # Of removes their time is read, of adds their path's sizes at least, so that the kind of each row is known.
    for batch in _batches(part, "add.size", "add.modificationTime", "remove.deletionTimestamp", "remove.size", *names):
        adds = typed.for_order(cast("pa.StructArray", batch.column("add")))
        removed = adds.is_null()
        if "remove" in batch.schema.names:
            neither = pc.and_(removed, batch.column("remove").is_null()).true_count
        else:
            neither = removed.true_count
        if neither:
            raise ValueError(f"{part.path} has rows that are neither add nor remove")
        columns = [removed, *(values(adds, key.low) for key in order), values(adds, _TIME)]
        yield pa.RecordBatch.from_arrays(columns, ["removed", *(f"k{at}" for at in range(len(order))), "time"])


def known(part: ParquetPart, order: Sequence[Key], typed: TypedAdds) -> tuple[Key, ...]:
    """Return the columns of an order that a part has with their types, or gets."""
    none = pa.array([], part.file.schema.field("add").type)
    add = typed.for_order(cast("pa.StructArray", none)).type
    return tuple(key for key in order if has(add, key.low) and has(add, key.high))


def in_order(parts: Sequence[ParquetPart], wanted: Ranks, sidecar_rows: int, folder: Path) -> Iterator[pa.Table]:
    """Yield all rows in order, `sidecar_rows` at a time, adds and removes apart; `folder` holds them until then.

    Columns other than `add` and `remove` have no row in a sidecar, and are left out.
    """
    with_adds = -(-wanted.num_adds // sidecar_rows)
    count = with_adds - (-(len(wanted.ranks) - wanted.num_adds) // sidecar_rows)
    files = [folder / f"{number}.arrows" for number in range(count)]
    _distribute(parts, wanted, sidecar_rows, files)
    for file in files:
        with pa.OSFile(str(file)) as source, pa.ipc.open_stream(source) as stream:
            table = stream.read_all()
        file.unlink()
        table = table.take(pc.sort_indices(table[_RANK]))
        yield table.drop_columns([_RANK])


def _distribute(parts: Sequence[ParquetPart], wanted: Ranks, sidecar_rows: int, files: Sequence[Path]) -> None:
    with_adds = -(-wanted.num_adds // sidecar_rows)
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with ExitStack() as stack:
        writers: list[pa.ipc.RecordBatchStreamWriter] = []
        at = 0
        for batch in (batch for part in parts for batch in _batches(part, "add", "remove")):
            place = wanted.ranks.slice(at, batch.num_rows)
            at += batch.num_rows
            removes = pc.add(pc.divide(pc.subtract(place, wanted.num_adds), sidecar_rows), with_adds)
            number = pc.if_else(pc.less(place, wanted.num_adds), pc.divide(place, sidecar_rows), removes)
            rows = pa.RecordBatch.from_arrays([*batch.columns, place], [*batch.schema.names, _RANK])
            if not writers:
                writers += [
                    stack.enter_context(pa.ipc.new_stream(str(file), rows.schema, options=options)) for file in files
                ]
            together = pc.sort_indices(number)
            rows = rows.take(together)
            start = 0
            for found in pc.value_counts(number.take(together)).to_pylist():
                writers[found["values"]].write_batch(rows.slice(start, found["counts"]))
                start += found["counts"]


def _batches(part: ParquetPart, *columns: str) -> Iterator[pa.RecordBatch]:
    file = part.file
    leaves = file.leaves(*columns)
    for group in range(file.footer.num_row_groups):
        cursor = Cursor(file, file.fetch(file.ranges([group], leaves)))
        for batch in cursor.batches(group, leaves, _BATCH):
            arrays = [_instants(batch.column(name), name, file.zoned) for name in batch.schema.names]
            yield pa.RecordBatch.from_arrays(arrays, batch.schema.names)


def _instants(array: pa.Array, name: str, zoned: frozenset[str]) -> pa.Array:
    """Give the instants of INT96 their zone: written anew they would be times without one."""
    return with_zones(array, name, zoned) if zoned and isinstance(array, pa.StructArray) else array
