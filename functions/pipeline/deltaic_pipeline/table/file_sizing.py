"""The number of files for rows that one machine writes all: few large files are few signed URLs."""

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SMALL = 16 << 20
"""Bytes, as Spark estimates them, from which on a second core is worth a second file."""

LARGE = 512 << 20
"""Bytes from which on a file is cut, as Delta's own optimized writes do it."""

RANGE = 16 << 20
"""Bytes in memory of the rows of one file where files are of ranges: a fifth of it as Parquet."""

BELIEVED = 1 << 40
"""An estimate beyond this is none: Spark multiplies the sizes of what is joined, and takes a database for infinite."""


def one_machine(spark: "SparkSession") -> bool:
    """Tell whether all tasks run in this one process."""
    return (spark.sparkContext.master or "").startswith("local")


def few_files(rows: "DataFrame") -> "DataFrame":
    """Return the rows in as few tasks, and so files, as keep the machine's cores busy; none is moved for it.

    Delta's optimized writes would send every row through a shuffle, and leave up to 512 MB of it to a single task.
    """
    return rows.coalesce(tasks_for(estimated_size(rows), rows.sparkSession.sparkContext.defaultParallelism))


def in_ranges(rows: "DataFrame", columns: Sequence[str]) -> "DataFrame":
    """Return rows that are kept already in tasks, and so files, of a range of the columns each, in their order.

    Who changes rows that are neighbours rewrites few of the files then, and readers leave out the others.
    """
    return rows.repartitionByRange(ceil(estimated_size(rows) / RANGE) or 1, *columns).sortWithinPartitions(*columns)


def estimated_size(rows: "DataFrame") -> int:
    """Return the bytes that Spark's optimizer thinks rows have; of rows that are kept already, it knows."""
    java: Any = rows._jdf  # noqa: SLF001 -- pyspark has no public way to the optimizer's estimate
    return int(str(java.queryExecution().optimizedPlan().stats().sizeInBytes()))


def tasks_for(size: int, cores: int) -> int:
    """Return how many tasks write rows of about `size` bytes."""
    if size > BELIEVED:
        return cores
    return max(1, min(cores, ceil(size / SMALL)), ceil(size / LARGE))
