"""Choose how many files Spark on one machine writes: readers need fewer signed URLs for fewer files."""

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SMALL = 16 << 20
"""Size in bytes, as Spark estimates it, above which writing a second file in parallel saves time."""

LARGE = 512 << 20
"""Maximum size of a file in bytes, the same as in Delta's optimized writes."""

RANGE = 16 << 20
"""Bytes in memory of the rows that `sort_into_ranges` puts in one file; the file itself has about a fifth of that."""

MOST_PLAUSIBLE = 1 << 40
"""Maximum plausible estimate in bytes: Spark multiplies sizes of joined tables, and treats databases as infinite."""


def runs_on_one_machine(spark: "SparkSession") -> bool:
    """Return whether Spark runs all tasks on this machine (`local` mode)."""
    return (spark.sparkContext.master or "").startswith("local")


def few_files(rows: "DataFrame") -> "DataFrame":
    """Coalesce the rows without a shuffle into the fewest tasks, and so files, that keep all cores busy.

    Delta's optimized writes would shuffle every row, and give up to 512 MB to a single task.
    """
    return rows.coalesce(task_count(estimated_size(rows), rows.sparkSession.sparkContext.defaultParallelism))


def sort_into_ranges(rows: "DataFrame", columns: Sequence[str]) -> "DataFrame":
    """Sort persisted rows by the columns, so that each task, and so each file, has one range of values.

    A change to neighboring rows then rewrites few files, and readers can skip the others.
    """
    return rows.repartitionByRange(ceil(estimated_size(rows) / RANGE) or 1, *columns).sortWithinPartitions(*columns)


def estimated_size(rows: "DataFrame") -> int:
    """Return the size of the rows in bytes, as Spark's optimizer estimates it; exact for persisted rows."""
    java: Any = rows._jdf  # noqa: SLF001 -- pyspark has no public way to the optimizer's estimate
    return int(str(java.queryExecution().optimizedPlan().stats().sizeInBytes()))


def task_count(size: int, cores: int) -> int:
    """Return the number of tasks, and so files, for writing rows of about `size` bytes."""
    if size > MOST_PLAUSIBLE:
        return cores
    return max(1, min(cores, ceil(size / SMALL)), ceil(size / LARGE))
