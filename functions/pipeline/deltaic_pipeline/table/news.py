"""The rows of a delivery that say something a table does not say, found while it is read once (decision 170)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from deltaic_pipeline.spark.observing import observed
from deltaic_pipeline.spark.quoting import quoted
from deltaic_pipeline.table.merging import NUMBER, THERE, differ, numbered
from deltaic_pipeline.table.schema_diff import conforming
from deltaic_pipeline.table.target import Target

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SAID, ANYWAY = "__said", "__anyway"
"""What a row says in the table's types, and whether it is kept in any case: beside its own columns."""

SEEDS = (1, 2)
"""Of the hashes by whose sums sets of keys are compared: 128 bits, of which chance does not make two alike."""


@dataclass(frozen=True, slots=True)
class News:
    """What a delivery has that a table has not."""

    rows: "DataFrame"
    """Kept on disk: rows with a new key or none, rows that say something else, and those that are kept anyway."""

    apart: bool
    """It is proved that no two rows of the delivery have the same key."""


@contextmanager
def news_of(rows: "DataFrame", own: "DataFrame", table: "DataFrame", target: Target, anyway: str) -> Iterator[News]:
    """Read rows once and keep for the block those that a table, in its current rows, does not say already.

    `own` are the rows in the columns with which they enter the table, `anyway` is a condition on the others that are
    kept. Raises `PipelineError` for columns that the table's types cannot hold.
    """
    from pyspark import StorageLevel
    from pyspark.sql import Observation, functions

    keys = target.keys
    since = [target.validity.at] if target.validity and target.validity.at else []
    said = f"struct({', '.join(conforming(rows.sparkSession, own, target))}) AS {SAID}"
    says = rows.selectExpr("*", said, f"{anyway} AS {ANYWAY}")
    kinds: Any = says.schema[SAID].dataType
    changed = differ(kinds, table.schema, [*keys, *since], f"new.{SAID}.")
    there = table.withColumn(THERE, functions.lit(True)).alias("old")  # noqa: FBT003 -- a value
    same = " AND ".join(f"old.{quoted(key)} = new.{SAID}.{quoted(key)}" for key in keys)
    joined = says.alias("new").join(there, on=functions.expr(same), how="left")
    matched = Observation()
    joined = joined.observe(matched, *_sums([f"old.{quoted(key)}" for key in keys], f"old.{THERE}"))
    new = joined.where(f"new.{ANYWAY} OR old.{THERE} IS NULL OR {changed}")
    kept = new.selectExpr("new.*", f"old.{THERE}").drop(SAID, ANYWAY).persist(StorageLevel.DISK_ONLY)
    try:
        strangers = kept.where(" AND ".join([f"{THERE} IS NULL", *(f"{quoted(key)} IS NOT NULL" for key in keys)]))
        twice: Any = numbered(strangers, keys).agg(functions.count_if(functions.expr(f"{NUMBER} = 2"))).first()
        known: Any = table.agg(*_sums(list(map(quoted, keys)), "true")).first()
        # Each key of the table was met once where those that were met are the table's, one for one.
        met, java = observed(matched), cast("Any", rows.sparkSession.sparkContext._jvm)  # noqa: SLF001 -- as `observed`
        met = met and dict(java.scala.jdk.javaapi.CollectionConverters.asJava(met))
        yield News(kept.drop(THERE), apart=not twice[0] and met == known.asDict())
    finally:
        kept.unpersist()


def _sums(keys: Sequence[str], where: str) -> "Iterator[Column]":
    """Return what two sets of keys have alike only if they are the same, each key as often: a count, sums of hashes."""
    from pyspark.sql import functions

    listed = ", ".join(keys)
    yield functions.expr(f"count_if({where})").alias("count")
    for seed in SEEDS:
        for half in (f"xxhash64({seed}, {listed}) & 4294967295", f"shiftrightunsigned(xxhash64({seed}, {listed}), 32)"):
            yield functions.expr(f"sum(CASE WHEN {where} THEN {half} END)").alias(f"sum {seed} {'&' in half}")
