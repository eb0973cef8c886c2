"""The `add` rows of a checkpoint as batches of FILE_SCHEMA, whatever types their writer chose."""

from typing import Final, cast

import pyarrow as pa

from deltaic import compute as pc
from deltaic.delta.scan.file_batches import DELETION_VECTOR, FILE_SCHEMA

OUTPUT_LEAVES: Final = tuple(f"add.{field.name}" for field in FILE_SCHEMA)
"""The columns of a checkpoint that a file list needs."""
PARTITION_VALUES: Final = FILE_SCHEMA.field("partitionValues").type


def add_paths(add: pa.StructArray) -> tuple[pa.StringArray, pa.BooleanArray | None]:
    """Return the paths of the rows and which rows are adds; None for all. The path of another row means nothing.

    Writers differ in whether the fields of an absent struct are null or, declared required, empty.
    """
    paths = cast("pa.StringArray", _as(child(add, "path"), pa.string(), len(add)))
    present = pc.is_valid(add) if add.null_count else None
    return paths, both(present, pc.is_valid(paths) if paths.null_count else None)


def child(parent: pa.StructArray | pa.RecordBatch, name: str) -> pa.Array | None:
    """Return a field of a StructArray or a column of a RecordBatch; None when it is absent."""
    if isinstance(parent, pa.StructArray):
        at = parent.type.get_field_index(name)
        return parent.field(at) if at >= 0 else None
    at = parent.schema.get_field_index(name)
    return parent.column(at) if at >= 0 else None


def partition_values(add: pa.StructArray) -> pa.MapArray:
    """Return the partition values of the rows as `map<string,string>`."""
    return as_texts(child(add, "partitionValues"), len(add))


def coded_partition_values(add: pa.StructArray) -> pa.MapArray:
    """Return the partition values of the rows, text in codes where it was read so."""
    maps = child(add, "partitionValues")
    is_coded = isinstance(maps, pa.MapArray) and all(
        isinstance(side, pa.DictionaryArray) for side in (maps.keys, maps.items)
    )
    return cast("pa.MapArray", maps) if is_coded else as_texts(maps, len(add))


def as_texts(maps: pa.Array | None, rows: int) -> pa.MapArray:
    """Return partition values as `map<string,string>`, of text in codes and of other types."""
    if isinstance(maps, pa.MapArray) and maps.type != PARTITION_VALUES:
        # Not by a cast of the whole, which ends the process where codes stand for bytes, or rows were taken before.
        keys, items = (pc.cast(_decoded(side), pa.string()) for side in (maps.keys, maps.items))
        # With a mask Arrow takes no slice of offsets.
        offsets = pc.add(maps.offsets, pa.scalar(0, pa.int32()))
        return pa.MapArray.from_arrays(offsets, keys, items, mask=pc.is_null(maps))
    return cast("pa.MapArray", _as(maps, PARTITION_VALUES, rows))


def _decoded(texts: pa.Array) -> pa.Array:
    return pc.dictionary_decode(texts) if isinstance(texts, pa.DictionaryArray) else texts


def no_partition_values(rows: int) -> pa.MapArray:
    """Return partition values that are not known."""
    return cast("pa.MapArray", pa.nulls(rows, PARTITION_VALUES))


def deletion_vectors(add: pa.StructArray) -> pa.StructArray | None:
    """Return the rows' DELETION_VECTOR; None when no row has one."""
    vector = cast("pa.StructArray | None", child(add, "deletionVector"))
    if vector is None or vector.null_count == len(vector):
        return None
    kind = child(vector, "storageType")
    # Some writers write an absent vector as a struct of nulls.
    if kind is None or kind.null_count == len(kind):
        return None
    fields = [_as(child(vector, field.name), field.type, len(vector)) for field in DELETION_VECTOR]
    absent = pc.or_(pc.is_null(kind), pc.is_null(vector))
    return _structs(fields, DELETION_VECTOR, absent)


def parsed_statistics(add: pa.StructArray, zoned: frozenset[str]) -> pa.StructArray | None:
    """Return `stats_parsed` (None when absent): leaves at the paths `zoned` are instants in UTC, none is a view."""
    parsed = cast("pa.StructArray | None", child(add, "stats_parsed"))
    if parsed is None or not (zoned or _has_views(parsed.type)):
        return parsed
    return with_zones(parsed, "add.stats_parsed", zoned)


def _has_views(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(_has_views(field.type) for field in kind)
    return pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)


def with_zones(structs: pa.StructArray, path: str, zoned: frozenset[str]) -> pa.StructArray:
    """Return structs that stand at a dotted path, the leaves at the paths `zoned` being instants in UTC."""
    fields = [field.name for field in structs.type]
    if not fields:
        return structs
    children = [_with_zone(structs.field(at), f"{path}.{name}", zoned) for at, name in enumerate(fields)]
    kinds = pa.struct([pa.field(name, child.type) for name, child in zip(fields, children, strict=True)])
    return _structs(children, kinds, pc.is_null(structs))


def _structs(children: list[pa.Array], kind: pa.StructType, absent: pa.BooleanArray) -> pa.StructArray:
    """As `StructArray.from_arrays` with a mask, which imports `pyarrow.compute` for it."""
    present = pc.invert(absent).buffers()[1]
    return cast("pa.StructArray", pa.Array.from_buffers(kind, len(absent), [present], children=children))


def _with_zone(array: pa.Array, path: str, zoned: frozenset[str]) -> pa.Array:
    if isinstance(array, pa.StructArray):
        return with_zones(array, path, zoned)
    kind = array.type
    if pa.types.is_timestamp(kind) and path in zoned:
        return pc.cast(array, pa.timestamp(kind.unit, "UTC"))
    if _has_views(kind):
        # Arrow cannot choose rows of them.
        return pc.cast(array, pa.string() if pa.types.is_string_view(kind) else pa.binary())
    return array


def file_batch(add: pa.StructArray, paths: pa.StringArray, vectors: pa.StructArray | None) -> pa.RecordBatch:
    """Return the rows as FILE_SCHEMA; `paths` and `vectors` are passed in because replay has made them already."""
    columns: list[pa.Array] = []
    for field in FILE_SCHEMA:
        if field.name == "path":
            columns.append(paths)
        elif field.name == "deletionVector":
            columns.append(pa.nulls(len(add), DELETION_VECTOR) if vectors is None else vectors)
        else:
            columns.append(_as(child(add, field.name), field.type, len(add)))
    return pa.RecordBatch.from_arrays(columns, schema=FILE_SCHEMA)


def replace_column(batch: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    """Return the batch with one column exchanged."""
    at = batch.schema.get_field_index(name)
    return batch.set_column(at, batch.schema.field(at), column)


def both(first: pa.BooleanArray | None, second: pa.BooleanArray | None) -> pa.BooleanArray | None:
    """Return the conjunction of two masks, where None means all true."""
    if first is None or second is None:
        return second if first is None else first
    return pc.and_(first, second)


def _as(array: pa.Array | None, wanted: pa.DataType, length: int) -> pa.Array:
    if array is None:
        return pa.nulls(length, wanted)
    return array if array.type == wanted else pc.cast(array, wanted)
