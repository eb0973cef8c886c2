"""Compute the net changes of a view from the rows that it gains and the rows that it loses."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaic.partition_filters.audiences import AUDIENCE_COLUMN

from deltaic_pipeline.spark.casting import comparable
from deltaic_pipeline.spark.quoting import column, literal, quoted
from deltaic_pipeline.table.merging import ambiguous_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

OPERATION = "_deltaic_operation"
INSERT, UPDATE, DELETE = "insert", "update", "delete"

ROW, COUNT, EXISTING = "_deltaic_row", "_deltaic_count", "_deltaic_existing"


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """Numbers of inserted, updated and deleted rows of one audience (combination of recipient properties)."""

    inserted: int
    updated: int
    deleted: int
    keys: tuple[str, str] | None = None
    """Least and greatest changed value of the first key column as strings; None if its type has no usable order."""


def net_changes(gained: "DataFrame", lost: "DataFrame") -> "DataFrame":
    """Return each row that occurs more often in one input, with its audience and the difference.

    Both inputs have the audience and then the same columns in the same order. Equal rows are counted; nulls are equal.
    """
    names = [quoted(name) for name in gained.columns]
    both = gained.selectExpr(*names, f"1 AS {COUNT}").unionAll(lost.selectExpr(*names, f"-1 AS {COUNT}"))
    compared = [f"{sql} AS {name}" for name, sql in _compared_columns(gained.schema)]
    grouped = both.selectExpr(AUDIENCE_COLUMN, *compared, f"struct({', '.join(names[1:])}) AS {ROW}", COUNT).groupBy(
        AUDIENCE_COLUMN, *(name for name, _ in _compared_columns(gained.schema))
    )
    totals = grouped.agg(
        column(f"sum({COUNT})").alias(COUNT),
        column(f"count_if({COUNT} < 0)").alias(EXISTING),
        column(f"first({ROW})").alias(ROW),
    )
    return totals.where(f"{COUNT} <> 0")


def by_key(changed: "DataFrame", key: Sequence[str]) -> "DataFrame":
    """Return one operation (insert, update or delete) for each audience and key, given the rows from `net_changes`."""
    keys = [column(f"{ROW}.{quoted(name)}").alias(f"_deltaic_key{number}") for number, name in enumerate(key)]
    grouped = changed.groupBy(AUDIENCE_COLUMN, *keys).agg(
        column(f"sum(greatest({COUNT}, 0))").alias(COUNT),
        column(f"sum(greatest(-{COUNT}, 0))").alias(EXISTING),
        column(f"first(if({COUNT} > 0, {ROW}, NULL), true)").alias("_deltaic_new"),
        column(f"first({ROW})").alias(ROW),
    )
    return grouped.selectExpr(
        AUDIENCE_COLUMN,
        f"coalesce(_deltaic_new, {ROW}) AS {ROW}",
        COUNT,
        f"CASE WHEN {COUNT} = 0 THEN '{DELETE}' WHEN {EXISTING} = 0 THEN '{INSERT}' ELSE '{UPDATE}' END AS {OPERATION}",
    )


def count_by_key(staged: "DataFrame", key: Sequence[str]) -> dict[str, ChangeCounts]:
    """Count the operations from `by_key` for each audience; raises `PipelineError` for a null or duplicate key."""
    keys = [f"{ROW}.{quoted(name)}" for name in key]
    wrong = f"{COUNT} > 1 OR ({COUNT} > 0 AND ({' OR '.join(f'{name} IS NULL' for name in keys)}))"
    kind = staged.select(keys[0]).schema.fields[0].dataType
    ends = (
        [f"CAST({end}({keys[0]}) AS STRING)" for end in ("min", "max")]
        if _has_ordered_statistics(kind)
        else ["NULL", "NULL"]
    )
    counts: list[Any] = (
        staged.groupBy(AUDIENCE_COLUMN)
        .agg(
            *(column(f"count_if({OPERATION} = '{name}')") for name in (INSERT, UPDATE, DELETE)),
            column(f"first(if({wrong}, struct({', '.join(keys)}), NULL), true)"),
            *map(column, ends),
        )
        .collect()
    )
    for row in counts:
        if row[4] is not None:
            remedy = "reduce them to one in the SQL, or add columns to --key that distinguish them"
            raise ambiguous_key("of the view", key, tuple(row[4]), remedy)
    return {
        row[0]: ChangeCounts(row[1], row[2], row[3], None if row[5] is None else (row[5], row[6])) for row in counts
    }


def key_ranges(counts: Iterable[ChangeCounts], key: str, kind: str) -> str:
    """Return a SQL condition for rows of the view (`old`) whose keys can change; empty if a range is unknown.

    Delta skips files by this condition, but not by a join with the changed keys.
    """
    ends = [count.keys for count in counts]
    if None in ends:
        return ""
    ranges = (" AND ".join(f"CAST({literal(end)} AS {kind})" for end in pair) for pair in ends if pair)
    return f"({' OR '.join(f'old.{quoted(key)} BETWEEN {pair}' for pair in dict.fromkeys(ranges))})"


def _has_ordered_statistics(kind: "DataType") -> bool:
    """Return whether file statistics order a type as Spark does, and its values can be cast to strings and back."""
    from pyspark.sql import types

    return isinstance(kind, types.IntegralType | types.DecimalType | types.DateType | types.TimestampType) or (
        kind == types.StringType()
    )


def count_by_row(changed: "DataFrame") -> dict[str, ChangeCounts]:
    """Count the rows that each audience gains and loses, given the rows from `net_changes`, if the view has no key."""
    counts: list[Any] = (
        changed.groupBy(AUDIENCE_COLUMN)
        .agg(column(f"sum(greatest({COUNT}, 0))"), column(f"sum(greatest(-{COUNT}, 0))"))
        .collect()
    )
    return {row[0]: ChangeCounts(row[1], 0, row[2]) for row in counts}


def by_row(changed: "DataFrame") -> "DataFrame":
    """Return one operation (insert or delete) for each row from `net_changes`, with the number of equal rows."""
    operation = f"if({COUNT} > 0, '{INSERT}', '{DELETE}') AS {OPERATION}"
    return changed.selectExpr(AUDIENCE_COLUMN, ROW, f"abs({COUNT}) AS {COUNT}", operation)


def new_rows(staged: "DataFrame") -> "DataFrame":
    """Return the rows to write for operations from `by_key` or `by_row`, n times if n are equal, with the operation."""
    copies = f"explode(sequence(1L, CAST({COUNT} AS BIGINT))) AS _deltaic_copy"
    rows = staged.where(f"{OPERATION} <> '{DELETE}'").selectExpr(AUDIENCE_COLUMN, f"{ROW}.*", OPERATION, copies)
    return rows.drop("_deltaic_copy")


def _compared_columns(schema: "StructType") -> list[tuple[str, str]]:
    return [
        (f"_deltaic_by{number}", comparable(quoted(field.name), field.dataType))
        for number, field in enumerate(schema.fields[1:])
    ]
