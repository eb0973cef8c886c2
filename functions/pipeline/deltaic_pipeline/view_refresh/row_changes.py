"""What is different between rows that a view gains and rows that it loses: real changes, and nothing else."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaic.partition_filters.audiences import AUDIENCE_COLUMN

from deltaic_pipeline.spark.casting import comparable
from deltaic_pipeline.spark.quoting import column, literal, quoted
from deltaic_pipeline.table.merging import undecided

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

OPERATION = "_deltaic_operation"
INSERT, UPDATE, DELETE = "insert", "update", "delete"

ROW, COUNT, THERE = "_deltaic_row", "_deltaic_count", "_deltaic_there"


@dataclass(frozen=True, slots=True)
class Counts:
    """How many rows of an audience change."""

    inserted: int
    updated: int
    deleted: int
    keys: tuple[str, str] | None = None
    """The first and the last value of the first column of their key, as texts; None where nobody asks for them."""


def net(gained: "DataFrame", lost: "DataFrame") -> "DataFrame":
    """Return each row of which more are gained than lost, or fewer: the audience, what it is compared by, and how many.

    Both have the audience and the same columns in the same order. A row's copies are counted, null is like null.
    """
    names = [quoted(name) for name in gained.columns]
    both = gained.selectExpr(*names, f"1 AS {COUNT}").unionAll(lost.selectExpr(*names, f"-1 AS {COUNT}"))
    compared = [f"{by} AS {name}" for name, by in _compared(gained.schema)]
    grouped = both.selectExpr(AUDIENCE_COLUMN, *compared, f"struct({', '.join(names[1:])}) AS {ROW}", COUNT).groupBy(
        AUDIENCE_COLUMN, *(name for name, _ in _compared(gained.schema))
    )
    counted = grouped.agg(
        column(f"sum({COUNT})").alias(COUNT),
        column(f"count_if({COUNT} < 0)").alias(THERE),
        column(f"first({ROW})").alias(ROW),
    )
    return counted.where(f"{COUNT} <> 0")


def by_key(changed: "DataFrame", key: Sequence[str]) -> "DataFrame":
    """Return one operation for each audience and key, of net changes; `counted_by_key` refuses what is no key."""
    keys = [column(f"{ROW}.{quoted(name)}").alias(f"_deltaic_key{number}") for number, name in enumerate(key)]
    grouped = changed.groupBy(AUDIENCE_COLUMN, *keys).agg(
        column(f"sum(greatest({COUNT}, 0))").alias(COUNT),
        column(f"sum(greatest(-{COUNT}, 0))").alias(THERE),
        column(f"first(if({COUNT} > 0, {ROW}, NULL), true)").alias("_deltaic_new"),
        column(f"first({ROW})").alias(ROW),
    )
    return grouped.selectExpr(
        AUDIENCE_COLUMN,
        f"coalesce(_deltaic_new, {ROW}) AS {ROW}",
        COUNT,
        f"CASE WHEN {COUNT} = 0 THEN '{DELETE}' WHEN {THERE} = 0 THEN '{INSERT}' ELSE '{UPDATE}' END AS {OPERATION}",
    )


def counted_by_key(staged: "DataFrame", key: Sequence[str]) -> dict[str, Counts]:
    """Count the operations of each audience; raises `PipelineError` for a key that is null or has several rows."""
    keys = [f"{ROW}.{quoted(name)}" for name in key]
    wrong = f"{COUNT} > 1 OR ({COUNT} > 0 AND ({' OR '.join(f'{name} IS NULL' for name in keys)}))"
    kind = staged.select(keys[0]).schema.fields[0].dataType
    ends = [f"CAST({end}({keys[0]}) AS STRING)" for end in ("min", "max")] if _ranged(kind) else ["NULL", "NULL"]
    counts: list[Any] = (
        staged.groupBy(AUDIENCE_COLUMN)
        .agg(
            *(column(f"count_if({OPERATION} = '{one}')") for one in (INSERT, UPDATE, DELETE)),
            column(f"first(if({wrong}, struct({', '.join(keys)}), NULL), true)"),
            *map(column, ends),
        )
        .collect()
    )
    for row in counts:
        if row[4] is not None:
            remedy = "reduce them to one in the SQL, or give --key the columns that tell them apart"
            raise undecided("of the view", key, tuple(row[4]), remedy)
    return {row[0]: Counts(row[1], row[2], row[3], None if row[5] is None else (row[5], row[6])) for row in counts}


def in_ranges_of(counts: Iterable[Counts], key: str, kind: str) -> str:
    """Return the condition that a row of the view (`old`) can have a key that changes; empty where nobody asked.

    Delta leaves out files by it, which it does not by the equality with the changes.
    """
    ends = [count.keys for count in counts]
    if None in ends:
        return ""
    ranges = (" AND ".join(f"CAST({literal(end)} AS {kind})" for end in pair) for pair in ends if pair)
    return f"({' OR '.join(f'old.{quoted(key)} BETWEEN {pair}' for pair in dict.fromkeys(ranges))})"


def _ranged(kind: "DataType") -> bool:
    """Tell whether a type's values are ordered in files' statistics as Spark orders them, and come back from texts."""
    from pyspark.sql import types

    return isinstance(kind, types.IntegralType | types.DecimalType | types.DateType | types.TimestampType) or (
        kind == types.StringType()
    )


def counted_as_rows(changed: "DataFrame") -> dict[str, Counts]:
    """Count the copies of rows that each audience gains and loses."""
    found: list[Any] = (
        changed.groupBy(AUDIENCE_COLUMN)
        .agg(column(f"sum(greatest({COUNT}, 0))"), column(f"sum(greatest(-{COUNT}, 0))"))
        .collect()
    )
    return {row[0]: Counts(row[1], 0, row[2]) for row in found}


def by_row(changed: "DataFrame") -> "DataFrame":
    """Return the operations on whole rows, of net changes, each with the number of equal rows that it concerns."""
    operation = f"if({COUNT} > 0, '{INSERT}', '{DELETE}') AS {OPERATION}"
    return changed.selectExpr(AUDIENCE_COLUMN, ROW, f"abs({COUNT}) AS {COUNT}", operation)


def new_rows(staged: "DataFrame") -> "DataFrame":
    """Return the rows that staged operations write, each as often as it is new, with its operation last."""
    copies = f"explode(sequence(1L, CAST({COUNT} AS BIGINT))) AS _deltaic_copy"
    rows = staged.where(f"{OPERATION} <> '{DELETE}'").selectExpr(AUDIENCE_COLUMN, f"{ROW}.*", OPERATION, copies)
    return rows.drop("_deltaic_copy")


def _compared(schema: "StructType") -> list[tuple[str, str]]:
    return [
        (f"_deltaic_by{number}", comparable(quoted(field.name), field.dataType))
        for number, field in enumerate(schema.fields[1:])
    ]
