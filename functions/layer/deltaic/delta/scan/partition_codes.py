"""Decides how partition values are kept: each combination once, and for every row which one it has.

A table has few partitions and many files. Four bytes a row are kept instead of maps of strings, and a filter is asked
about each combination once instead of about each file.
"""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltaic.delta.file_filter import FileFilter


@dataclass(frozen=True, slots=True)
class PartitionCodes:
    """The partition values of consecutive rows."""

    codes: pa.Int32Array
    """For every row its place in `distinct`; null for what is no add."""
    distinct: pa.MapArray

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return int(self.codes.nbytes + self.distinct.nbytes)

    def chosen_by(self, wanted: FileFilter) -> pa.BooleanArray:
        """Return which rows the filter keeps by partition values alone; false for what is no add."""
        verdict = wanted.by_partition(self.distinct)
        return pc.fill_null(verdict.take(self.codes), False)  # noqa: FBT003 -- the value, not a switch

    def values(self, rows: pa.BooleanArray) -> pa.MapArray:
        """Return the partition values of these rows."""
        return self.distinct.take(self.codes.filter(rows))


def partition_codes(values: pa.MapArray, alive: pa.BooleanArray) -> PartitionCodes | None:
    """Encode the partition values of the rows that are `alive`; None where writers left keys out or in other orders."""
    present = values.filter(alive)
    rows = len(present)
    if rows == 0:
        return PartitionCodes(pa.nulls(len(alive), pa.int32()), present)
    if present.null_count:
        return None
    keys, items = present.keys, present.items
    lengths = pc.min_max(pc.subtract(present.offsets.slice(1), present.offsets.slice(0, rows))).as_py()
    width = int(lengths["max"])
    if lengths["min"] != width or len(items) != rows * width or not _same_keys(keys, width):
        return None
    combined = pa.repeat(pa.scalar(0, pa.int64()), rows)
    for column in range(width):
        own = items if width == 1 else items.take(pa.array(range(column, rows * width, width), pa.int64()))
        encoded = own.dictionary_encode()
        kinds = len(encoded.dictionary)
        codes = pc.fill_null(encoded.indices.cast(pa.int64()), kinds)
        combined = pc.add(pc.multiply(combined, kinds + 1), codes)
        if width > 1:
            # Small codes again, so that no product of many columns can overflow.
            combined = combined.dictionary_encode().indices.cast(pa.int64())
    encoded = combined.dictionary_encode()
    distinct = present.take(pc.index_in(encoded.dictionary, value_set=combined))
    codes = pc.replace_with_mask(pa.nulls(len(alive), pa.int32()), alive, encoded.indices)
    return PartitionCodes(codes, distinct)


def _same_keys(keys: pa.Array, width: int) -> bool:
    """Tell whether every row has the same keys in the same order."""
    if width == 0:
        return len(keys) == 0
    encoded = keys.dictionary_encode()
    if len(encoded.dictionary) != width:
        return False
    if width == 1:
        return True
    first = encoded.indices.slice(0, width).to_pylist()
    # Every key is the one that stands a row's width before it.
    shifted = encoded.indices.slice(0, len(keys) - width)
    return first == list(range(width)) and bool(encoded.indices.slice(width).equals(shifted))
