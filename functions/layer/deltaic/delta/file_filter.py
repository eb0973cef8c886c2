"""Interface of file filters, which `pruning` and `sharing` implement."""

from collections.abc import Hashable
from typing import Protocol

import pyarrow as pa


class FileFilter(Protocol):
    """Filter of files that may keep too many, but never drops a matching row.

    The log calls the methods in this order, and reads the input of each step only for the files that the previous steps
    kept. Each step returns a boolean array as long as its input, without nulls; true keeps the file. Names are physical
    column names.
    """

    @property
    def identity(self) -> Hashable:
        """Key of this filter; filters with equal keys keep the same files."""

    @property
    def needs_statistics(self) -> bool:
        """Return whether statistics can change the result; if not, the two statistics methods are not called."""

    @property
    def needs_partition_values(self) -> bool:
        """Return whether partition values can change the result; if not, `by_partition` is not called."""

    def by_bounds(self, statistics: pa.StringArray) -> pa.BooleanArray:
        """Select row groups of a checkpoint by JSON statistics that are valid for all their files.

        The statistics include bounds of partition columns. Missing statistics keep the row group.
        """

    def by_partition(self, partition_values: pa.MapArray) -> pa.BooleanArray:
        """Select files by their partition values (`map<string,string>`)."""

    def typed_leaves(self, stats_parsed: pa.StructType) -> list[str]:
        """Return the leaf columns of `stats_parsed` to read to drop files, such as `minValues.price`, or none."""

    def by_typed_statistics(self, partition_values: pa.MapArray, stats_parsed: pa.StructArray) -> pa.BooleanArray:
        """Select files by partition values and the columns in `typed_leaves`; the struct has no other columns.

        Partition values that are not needed are null, here and in `by_json_statistics`.
        """

    def is_decided_by(self, stats_parsed: pa.StructArray) -> bool:
        """Return whether these typed statistics are complete, so that `by_json_statistics` cannot drop more files."""

    def by_json_statistics(self, partition_values: pa.MapArray, stats: pa.StringArray) -> pa.BooleanArray:
        """Select files by partition values and JSON statistics; null or invalid statistics keep the file."""
