"""Decides by which columns files of a checkpoint lie together: partition columns first, then those of clustering."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from deltaic.delta.actions import Metadata
from deltaic.pruning.columns import Columns

PARTITION = "partitionValues_parsed"
STATISTICS = "stats_parsed"
CLUSTERING = "delta.clustering"
"""The domain in which a clustered table names its columns."""


class Key(NamedTuple):
    """One column of an order, by its physical path."""

    path: tuple[str, ...]
    is_partition: bool

    @property
    def low(self) -> tuple[str, ...]:
        """Where a file's least value stands, below `add`."""
        return (PARTITION, *self.path) if self.is_partition else (STATISTICS, "minValues", *self.path)

    @property
    def high(self) -> tuple[str, ...]:
        """Where a file's greatest value stands, below `add`."""
        return self.low if self.is_partition else (STATISTICS, "maxValues", *self.path)


def order_of(metadata: Metadata, clustering: Iterable[Sequence[str]], zorder_by: Iterable[str]) -> tuple[Key, ...]:
    """Return the order of a table's files; `clustering` by physical paths, `zorder_by` by the columns' names.

    Columns that the schema does not have, or whose values follow other rules, are left out.
    """
    columns = Columns(metadata)
    partitions = [columns.find((name,)) for name in metadata.partition_columns]
    named = [columns.find((name,)) for name in zorder_by]
    keys = [Key(found.path, is_partition=True) for found in partitions if found]
    keys += [Key(tuple(path), is_partition=False) for path in clustering]
    keys += [Key(found.path, found.is_partition) for found in named if found]
    return tuple(dict.fromkeys(keys))


class _Clustering(msgspec.Struct, rename="camel"):
    clustering_columns: list[list[str]] = []


def clustering_columns(domains: Iterable[object]) -> list[list[str]]:
    """Return the physical paths of a table's clustering columns, given its `domainMetadata` actions."""
    for domain in domains:
        if isinstance(domain, dict) and domain.get("domain") == CLUSTERING and not domain.get("removed"):
            try:
                return msgspec.json.decode(domain["configuration"], type=_Clustering).clustering_columns
            except (KeyError, TypeError, msgspec.MsgspecError):
                return []  # files may lie in any order
    return []


def has(kind: pa.DataType, path: Sequence[str]) -> bool:
    """Tell whether a struct has a field at a path, which is no struct itself."""
    for name in path:
        if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
            return False
        kind = kind.field(name).type
    return not pa.types.is_nested(kind)


def values(adds: pa.StructArray, path: Sequence[str]) -> pa.Array:
    """Return a field of `add` by its path; null where something above it is."""
    found: pa.Array = pc.struct_field(adds, list(path))
    return found
