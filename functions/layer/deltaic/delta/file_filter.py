"""The port of pruning: what a reading of live files asks of a filter."""

from collections.abc import Hashable
from typing import Protocol

import pyarrow as pa


class FileFilter(Protocol):
    """Decides which files may hold matching rows; it may keep too many, never too few.

    The log calls the steps in this order and reads what the next step needs only for what survived. Each step returns
    a boolean array as long as its input, without nulls: true keeps the file. Names are physical column names.
    """

    @property
    def identity(self) -> Hashable:
        """Name what this filter keeps: filters of one identity keep the same rows of any file of the log."""
        ...

    @property
    def needs_statistics(self) -> bool:
        """False when partition values alone decide: then neither statistics step is called."""
        ...

    @property
    def needs_partition_values(self) -> bool:
        """False when partition values say nothing: `by_partition` is not called then, and the others need none."""
        ...

    def by_bounds(self, statistics: pa.StringArray) -> pa.BooleanArray:
        """Decide about row groups by statistics, in JSON, that hold for the rows of all their files.

        Partition columns have their bounds there like any others; what is not told keeps the row group.
        """
        ...

    def by_partition(self, partition_values: pa.MapArray) -> pa.BooleanArray:
        """Decide by partition values (`map<string,string>`)."""
        ...

    def typed_leaves(self, stats_parsed: pa.StructType) -> list[str]:
        """Name the leaves of `stats_parsed` to read, such as `minValues.price`; empty: typed statistics cannot help."""
        ...

    def by_typed_statistics(self, partition_values: pa.MapArray, stats_parsed: pa.StructArray) -> pa.BooleanArray:
        """Decide by partition values and those leaves (other leaves are absent from the struct).

        Partition values that are not needed are null, here and in the next step.
        """
        ...

    def is_told_by(self, stats_parsed: pa.StructArray) -> bool:
        """Tell whether those leaves say everything of these files, so that `by_json_statistics` can say no more."""
        ...

    def by_json_statistics(self, partition_values: pa.MapArray, stats: pa.StringArray) -> pa.BooleanArray:
        """Decide by partition values and the raw statistics; a null or unreadable value keeps the file."""
        ...
