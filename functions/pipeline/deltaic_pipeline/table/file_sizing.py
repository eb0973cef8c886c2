"""Choose the number of files that one machine writes: few large files need few signed URLs."""

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SMALL = 16 << 20
"""Bytes, as Spark estimates them, above which a second core is worth a second file."""

LARGE = 512 << 20
"""Largest file in bytes, the same as in Delta's optimized writes."""

RANGE = 16 << 20
"""Bytes in memory of the rows of one file that holds a range of keys; Parquet takes a fifth of that."""

MOST_PLAUSIBLE = 1 << 40
"""Larger estimates are wrong: Spark multiplies the sizes of joined tables, and treats a database as infinite."""


def runs_on_one_machine(spark: "SparkSession") -> bool:
    """Return whether all tasks run in this process."""
    return (spark.sparkContext.master or "").startswith("local")


def few_files(rows: "DataFrame") -> "DataFrame":
    """Return the rows in as few tasks, and so files, as keep the cores busy, without a shuffle.

    Delta's optimized writes would shuffle every row, and leave up to 512 MB to a single task.
    """
    return rows.coalesce(task_count(estimated_size(rows), rows.sparkSession.sparkContext.defaultParallelism))


def sort_into_ranges(rows: "DataFrame", columns: Sequence[str]) -> "DataFrame":
    """Return persisted rows sorted by the columns, each task and so each file with a range of them.

    A change to neighboring rows then rewrites few files, and readers can skip the others.
    """
    return rows.repartitionByRange(ceil(estimated_size(rows) / RANGE) or 1, *columns).sortWithinPartitions(*columns)


def estimated_size(rows: "DataFrame") -> int:
    """Return the size in bytes that Spark's optimizer estimates; for persisted rows it is exact."""
    java: Any = rows._jdf  # noqa: SLF001 -- pyspark has no public way to the optimizer's estimate
    return int(str(java.queryExecution().optimizedPlan().stats().sizeInBytes()))


def task_count(size: int, cores: int) -> int:
    """Return the number of tasks to write rows of about `size` bytes."""
    if size > MOST_PLAUSIBLE:
        return cores
    return max(1, min(cores, ceil(size / SMALL)), ceil(size / LARGE))
