"""Convert the `add` rows of a checkpoint to FILE_SCHEMA, whatever types their writer used."""

from typing import Final, cast

import pyarrow as pa

from deltaic import compute as pc
from deltaic.delta.scan.file_batches import DELETION_VECTOR, FILE_SCHEMA

OUTPUT_LEAVES: Final = tuple(f"add.{field.name}" for field in FILE_SCHEMA)
"""Columns of a checkpoint from which batches of FILE_SCHEMA are made."""
PARTITION_VALUES: Final = FILE_SCHEMA.field("partitionValues").type


def add_paths(add: pa.StructArray) -> tuple[pa.StringArray, pa.BooleanArray | None]:
    """Return the paths of the rows, and a mask of the rows that are `add` actions; None if all are.

    Paths of other rows are undefined: in an absent struct, some writers write null fields, others empty required
    fields.
    """
    paths = cast("pa.StringArray", _cast_or_null(child(add, "path"), pa.string(), len(add)))
    present = pc.is_valid(add) if add.null_count else None
    return paths, both(present, pc.is_valid(paths) if paths.null_count else None)


def child(parent: pa.StructArray | pa.RecordBatch, name: str) -> pa.Array | None:
    """Return a field of a StructArray or RecordBatch; None if it is missing."""
    if isinstance(parent, pa.StructArray):
        at = parent.type.get_field_index(name)
        return parent.field(at) if at >= 0 else None
    at = parent.schema.get_field_index(name)
    return parent.column(at) if at >= 0 else None


def partition_values(add: pa.StructArray) -> pa.MapArray:
    """Return the partition values of the rows as `map<string,string>`."""
    return as_texts(child(add, "partitionValues"), len(add))


def coded_partition_values(add: pa.StructArray) -> pa.MapArray:
    """Return the partition values of the rows, dictionary-encoded if Arrow read them that way."""
    maps = child(add, "partitionValues")
    is_coded = isinstance(maps, pa.MapArray) and all(
        isinstance(side, pa.DictionaryArray) for side in (maps.keys, maps.items)
    )
    return cast("pa.MapArray", maps) if is_coded else as_texts(maps, len(add))


def as_texts(maps: pa.Array | None, rows: int) -> pa.MapArray:
    """Convert partition values of other types, or with dictionary-encoded strings, to `map<string,string>`."""
    if isinstance(maps, pa.MapArray) and maps.type != PARTITION_VALUES:
        # A cast of the map crashes the process if the codes are bytes, or after `take`.
        keys, items = (pc.cast(_decode(side), pa.string()) for side in (maps.keys, maps.items))
        # With a mask Arrow rejects sliced offsets, so copy them.
        offsets = pc.add(maps.offsets, pa.scalar(0, pa.int32()))
        return pa.MapArray.from_arrays(offsets, keys, items, mask=pc.is_null(maps))
    return cast("pa.MapArray", _cast_or_null(maps, PARTITION_VALUES, rows))


def _decode(texts: pa.Array) -> pa.Array:
    return pc.dictionary_decode(texts) if isinstance(texts, pa.DictionaryArray) else texts


def no_partition_values(rows: int) -> pa.MapArray:
    """Return an array with null instead of partition values for each row."""
    return cast("pa.MapArray", pa.nulls(rows, PARTITION_VALUES))


def deletion_vectors(add: pa.StructArray) -> pa.StructArray | None:
    """Return the deletion vectors of the rows as DELETION_VECTOR; None if no row has one."""
    vector = cast("pa.StructArray | None", child(add, "deletionVector"))
    if vector is None or vector.null_count == len(vector):
        return None
    kind = child(vector, "storageType")
    # Some writers write a missing vector as a struct of nulls.
    if kind is None or kind.null_count == len(kind):
        return None
    fields = [_cast_or_null(child(vector, field.name), field.type, len(vector)) for field in DELETION_VECTOR]
    absent = pc.or_(pc.is_null(kind), pc.is_null(vector))
    return _make_structs(fields, DELETION_VECTOR, absent)


def parsed_statistics(add: pa.StructArray, zoned: frozenset[str]) -> pa.StructArray | None:
    """Return `stats_parsed` without string views, and with UTC for the timestamps in `zoned`; None if missing."""
    parsed = cast("pa.StructArray | None", child(add, "stats_parsed"))
    if parsed is None or not (zoned or _has_views(parsed.type)):
        return parsed
    return with_zones(parsed, "add.stats_parsed", zoned)


def _has_views(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(_has_views(field.type) for field in kind)
    return pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)


def with_zones(structs: pa.StructArray, path: str, zoned: frozenset[str]) -> pa.StructArray:
    """Return the structs at `path` with the time zone UTC for the timestamp columns in `zoned` (dotted paths)."""
    fields = [field.name for field in structs.type]
    if not fields:
        return structs
    children = [_with_zone(structs.field(at), f"{path}.{name}", zoned) for at, name in enumerate(fields)]
    kinds = pa.struct([pa.field(name, child.type) for name, child in zip(fields, children, strict=True)])
    return _make_structs(children, kinds, pc.is_null(structs))


def _make_structs(children: list[pa.Array], kind: pa.StructType, absent: pa.BooleanArray) -> pa.StructArray:
    """Create a StructArray with nulls; `StructArray.from_arrays` with a mask would import `pyarrow.compute`."""
    present = pc.invert(absent).buffers()[1]
    return cast("pa.StructArray", pa.Array.from_buffers(kind, len(absent), [present], children=children))


def _with_zone(array: pa.Array, path: str, zoned: frozenset[str]) -> pa.Array:
    if isinstance(array, pa.StructArray):
        return with_zones(array, path, zoned)
    kind = array.type
    if pa.types.is_timestamp(kind) and path in zoned:
        return pc.cast(array, pa.timestamp(kind.unit, "UTC"))
    if _has_views(kind):
        # Arrow cannot filter arrays of view types.
        return pc.cast(array, pa.string() if pa.types.is_string_view(kind) else pa.binary())
    return array


def file_batch(add: pa.StructArray, paths: pa.StringArray, vectors: pa.StructArray | None) -> pa.RecordBatch:
    """Convert `add` rows to FILE_SCHEMA; `paths` and `vectors` are already converted."""
    columns: list[pa.Array] = []
    for field in FILE_SCHEMA:
        if field.name == "path":
            columns.append(paths)
        elif field.name == "deletionVector":
            columns.append(pa.nulls(len(add), DELETION_VECTOR) if vectors is None else vectors)
        else:
            columns.append(_cast_or_null(child(add, field.name), field.type, len(add)))
    return pa.RecordBatch.from_arrays(columns, schema=FILE_SCHEMA)


def replace_column(batch: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    """Return the batch with one column replaced."""
    at = batch.schema.get_field_index(name)
    return batch.set_column(at, batch.schema.field(at), column)


def both(first: pa.BooleanArray | None, second: pa.BooleanArray | None) -> pa.BooleanArray | None:
    """Combine two masks with AND; None means all true."""
    if first is None or second is None:
        return second if first is None else first
    return pc.and_(first, second)


def _cast_or_null(array: pa.Array | None, kind: pa.DataType, length: int) -> pa.Array:
    if array is None:
        return pa.nulls(length, kind)
    return array if array.type == kind else pc.cast(array, kind)
