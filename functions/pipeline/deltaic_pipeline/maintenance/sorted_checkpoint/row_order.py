"""Choose the columns by which a checkpoint is sorted: partition columns first, then clustering columns."""

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
"""Name of Delta's metadata domain with the clustering columns of a table."""


class SortKey(NamedTuple):
    """Column by which a checkpoint's rows are sorted, with its physical path."""

    path: tuple[str, ...]
    is_partition: bool

    @property
    def low(self) -> tuple[str, ...]:
        """Path of the column's minimum value within the `add` struct."""
        return (PARTITION, *self.path) if self.is_partition else (STATISTICS, "minValues", *self.path)

    @property
    def high(self) -> tuple[str, ...]:
        """Path of the column's maximum value within the `add` struct."""
        return self.low if self.is_partition else (STATISTICS, "maxValues", *self.path)


def sort_keys(metadata: Metadata, clustering: Iterable[Sequence[str]], zorder_by: Iterable[str]) -> tuple[SortKey, ...]:
    """Return the sort order of a table's files, given the physical paths of `clustering` and names in `zorder_by`.

    Skips partition and Z-order columns that the schema lacks, or whose type is not supported.
    """
    columns = Columns(metadata)
    partitions = [columns.find((name,)) for name in metadata.partition_columns]
    zorder_columns = [columns.find((name,)) for name in zorder_by]
    keys = [SortKey(column.path, is_partition=True) for column in partitions if column]
    keys += [SortKey(tuple(path), is_partition=False) for path in clustering]
    keys += [SortKey(column.path, column.is_partition) for column in zorder_columns if column]
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
                return []  # an unreadable declaration: files can be in any order
    return []


def field_values(adds: pa.StructArray, path: Sequence[str]) -> pa.Array:
    """Return the values of a field in the `add` struct by its path; null where a parent is null."""
    field: pa.Array = pc.struct_field(adds, list(path))
    return field
