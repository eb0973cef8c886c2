"""Partition values as codes: each combination once, and for every row which one it has.

A table has few partitions and many files. Four bytes a row are kept instead of maps of strings, and a filter is asked
about each combination once instead of about each file.
"""

import msgspec
import pyarrow as pa

from deltaic import compute as pc
from deltaic.delta.file_filter import FileFilter
from deltaic.delta.scan.add_rows import as_texts


class PartitionCodes(msgspec.Struct, frozen=True):
    """The partition values of consecutive rows."""

    codes: pa.Int32Array
    """For every row its place in `distinct`; null for what is no add."""
    distinct: pa.MapArray

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return int(self.codes.nbytes + self.distinct.nbytes)

    @property
    def num_adds(self) -> int:
        """How many rows are adds."""
        return len(self.codes) - self.codes.null_count

    def chosen_by(self, wanted: FileFilter) -> pa.BooleanArray:
        """Return which rows the filter keeps by partition values alone; false for what is no add."""
        verdict = wanted.by_partition(self.distinct)
        return pc.coalesce(pc.take(verdict, self.codes), False)

    def values(self, rows: pa.BooleanArray) -> pa.MapArray:
        """Return the partition values of these rows."""
        return pc.take(self.distinct, pc.filter(self.codes, rows))


def partition_codes(values: pa.MapArray, alive: pa.BooleanArray) -> PartitionCodes | None:
    """Encode the partition values of the rows that are `alive`; None where writers left keys out or in other orders.

    Their text may stand in codes.
    """
    present = pc.filter(values, alive)
    rows = len(present)
    if rows == 0:
        return PartitionCodes(pa.nulls(len(alive), pa.int32()), as_texts(present, rows))
    if present.null_count:
        return None
    keys, items = present.keys, present.items
    lengths = pc.min_max(pc.subtract(present.offsets.slice(1), present.offsets.slice(0, rows))).as_py()
    width = int(lengths["max"])
    if lengths["min"] != width or len(items) != rows * width or not _same_keys(keys, width):
        return None
    if width == 1:
        return _of_one_key(keys, items, alive)
    combined = pa.repeat(pa.scalar(0, pa.int64()), rows)
    for column in range(width):
        own = pc.take(items, pa.array(range(column, rows * width, width), pa.int64()))
        encoded = pc.dictionary_encode(own)
        kinds = len(encoded.dictionary)
        codes = pc.coalesce(pc.cast(encoded.indices, pa.int64()), kinds)
        combined = pc.add(pc.multiply(combined, kinds + 1), codes)
        # Small codes again, so that no product of many columns can overflow.
        combined = pc.cast(pc.dictionary_encode(combined).indices, pa.int64())
    encoded = pc.dictionary_encode(combined)
    distinct = as_texts(pc.take(present, pc.index_in(encoded.dictionary, value_set=combined)), len(encoded.dictionary))
    codes = pc.replace_with_mask(pa.nulls(len(alive), pa.int32()), alive, encoded.indices)
    return PartitionCodes(codes, distinct)


def _of_one_key(keys: pa.Array, items: pa.Array, alive: pa.BooleanArray) -> PartitionCodes:
    """Take the codes of the only column, and of their values those that occur: Arrow gives each run those before it."""
    encoded = pc.dictionary_encode(items)
    used = pc.dictionary_encode(encoded.indices, null_encoding="encode")
    values = pc.cast(pc.take(encoded.dictionary, used.dictionary), pa.string())
    names = pa.repeat(pa.scalar(keys[0].as_py(), pa.string()), len(values))
    distinct = pa.MapArray.from_arrays(pa.array(range(len(values) + 1), pa.int32()), names, values)
    codes = pc.cast(used.indices, pa.int32())
    return PartitionCodes(pc.replace_with_mask(pa.nulls(len(alive), pa.int32()), alive, codes), distinct)


def _same_keys(keys: pa.Array, width: int) -> bool:
    """Tell whether every row has the same keys in the same order."""
    if width == 0:
        return len(keys) == 0
    # Of codes only those count that occur here.
    encoded = pc.dictionary_encode(keys.indices if isinstance(keys, pa.DictionaryArray) else keys)
    if len(encoded.dictionary) != width:
        return False
    if width == 1:
        return True
    first = encoded.indices.slice(0, width).to_pylist()
    # Every key is the one that stands a row's width before it.
    shifted = encoded.indices.slice(0, len(keys) - width)
    return first == list(range(width)) and bool(encoded.indices.slice(width).equals(shifted))
