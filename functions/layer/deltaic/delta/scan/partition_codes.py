"""Dictionary-encode partition values: each distinct combination once, and its index for each row.

A table has few partitions and many files. A row needs four bytes instead of a map of strings, and a filter evaluates
each combination once instead of once per file.
"""

import msgspec
import pyarrow as pa

from deltaic import compute as pc
from deltaic.delta.file_filter import FileFilter
from deltaic.delta.scan.add_rows import as_texts


class PartitionCodes(msgspec.Struct, frozen=True):
    """Dictionary-encoded partition values of consecutive rows of a checkpoint."""

    codes: pa.Int32Array
    """Index in `distinct` for each row; null for rows that are not `add` actions."""
    distinct: pa.MapArray

    @property
    def nbytes(self) -> int:
        """Bytes in memory of codes and distinct values."""
        return int(self.codes.nbytes + self.distinct.nbytes)

    @property
    def num_adds(self) -> int:
        """Number of rows that are `add` actions."""
        return len(self.codes) - self.codes.null_count

    def select_rows(self, file_filter: FileFilter) -> pa.BooleanArray:
        """Return a mask of the `add` rows whose partition values pass the filter."""
        verdict = file_filter.by_partition(self.distinct)
        return pc.coalesce(pc.take(verdict, self.codes), False)

    def values(self, rows: pa.BooleanArray) -> pa.MapArray:
        """Return the partition values of the rows that the mask selects."""
        return pc.take(self.distinct, pc.filter(self.codes, rows))


def partition_codes(values: pa.MapArray, alive: pa.BooleanArray) -> PartitionCodes | None:
    """Encode the partition values of the rows in the mask `alive`; None if their maps differ in keys or order.

    Keys and values can be dictionary-encoded strings.
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
    if lengths["min"] != width or len(items) != rows * width or not _have_same_keys(keys, width):
        return None
    if width == 1:
        return _encode_single_key(keys, items, alive)
    combined = pa.repeat(pa.scalar(0, pa.int64()), rows)
    for column in range(width):
        column_values = pc.take(items, pa.array(range(column, rows * width, width), pa.int64()))
        encoded = pc.dictionary_encode(column_values)
        num_distinct = len(encoded.dictionary)
        codes = pc.coalesce(pc.cast(encoded.indices, pa.int64()), num_distinct)
        combined = pc.add(pc.multiply(combined, num_distinct + 1), codes)
        # Encode again, so that the product of many columns cannot overflow.
        combined = pc.cast(pc.dictionary_encode(combined).indices, pa.int64())
    encoded = pc.dictionary_encode(combined)
    distinct = as_texts(pc.take(present, pc.index_in(encoded.dictionary, value_set=combined)), len(encoded.dictionary))
    codes = pc.replace_with_mask(pa.nulls(len(alive), pa.int32()), alive, encoded.indices)
    return PartitionCodes(codes, distinct)


def _encode_single_key(keys: pa.Array, items: pa.Array, alive: pa.BooleanArray) -> PartitionCodes:
    """Encode the values of a table's only partition column; `distinct` has only values that occur."""
    encoded = pc.dictionary_encode(items)
    used = pc.dictionary_encode(encoded.indices, null_encoding="encode")
    values = pc.cast(pc.take(encoded.dictionary, used.dictionary), pa.string())
    names = pa.repeat(pa.scalar(keys[0].as_py(), pa.string()), len(values))
    distinct = pa.MapArray.from_arrays(pa.array(range(len(values) + 1), pa.int32()), names, values)
    codes = pc.cast(used.indices, pa.int32())
    return PartitionCodes(pc.replace_with_mask(pa.nulls(len(alive), pa.int32()), alive, codes), distinct)


def _have_same_keys(keys: pa.Array, width: int) -> bool:
    if width == 0:
        return len(keys) == 0
    # A dictionary can contain keys that do not occur here, so encode the codes.
    encoded = pc.dictionary_encode(keys.indices if isinstance(keys, pa.DictionaryArray) else keys)
    if len(encoded.dictionary) != width:
        return False
    if width == 1:
        return True
    first = encoded.indices.slice(0, width).to_pylist()
    # Each key must equal the key `width` positions before it.
    shifted = encoded.indices.slice(0, len(keys) - width)
    return first == list(range(width)) and bool(encoded.indices.slice(width).equals(shifted))
