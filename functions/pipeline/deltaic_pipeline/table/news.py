"""The rows of a delivery that say something a table does not say, found while it is read once (decision 170)."""

from collections.abc import Iterator, Mapping, Sequence
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

SAID, NEW, HASH = "__said", "__new", "__hash_"
"""Beside a row's own columns: what it says in the table's types, whether the table does not say it, and its key."""

SEEDS = (1, 2)
"""Of the hashes by whose sums sets of keys are compared: 128 bits, of which chance does not make two alike."""


@dataclass(frozen=True, slots=True)
class News:
    """What a delivery has that a table has not; no two of its rows have the same key."""

    rows: "DataFrame"
    """Kept on disk: rows with a new key or none, rows that say something else, and those that are kept anyway."""

    measured: Mapping[str, Any]
    """What was asked of all rows of the delivery."""


@contextmanager
def news_of(  # noqa: PLR0913, PLR0917 -- what is compared, and what is asked of it
    rows: "DataFrame",
    own: "DataFrame",
    table: "DataFrame",
    target: Target,
    anyway: str,
    measures: "Sequence[Column]",
) -> Iterator[News | None]:
    """Read rows once and keep for the block those that a table, in its current rows, does not say already.

    `own` are the rows in the columns with which they enter the table, `anyway` is a condition on the others that are
    kept, `measures` are named aggregates over all rows. None where the rows lack keys of the table, or have one twice:
    then nothing is proved. Raises `PipelineError` for columns that the table's types cannot hold.
    """
    from pyspark import StorageLevel
    from pyspark.sql import Observation, functions

    keys = list(map(quoted, target.keys))
    since = [target.validity.at] if target.validity and target.validity.at else []
    said = f"struct({', '.join(conforming(rows.sparkSession, own, target))}) AS {SAID}"
    says = rows.selectExpr("*", said, f"{anyway} AS {NEW}").alias("new")
    kinds: Any = says.schema[SAID].dataType
    changed = differ(kinds, table.schema, [*target.keys, *since], f"new.{SAID}.")
    there = table.withColumn(THERE, functions.lit(True)).alias("old")  # noqa: FBT003 -- a value
    same = functions.expr(" AND ".join(f"old.{key} = new.{SAID}.{key}" for key in keys))
    # Only what is needed from here on: whoever observes gets each row whole.
    compared = says.join(there, on=same, how="left").selectExpr(
        *(f"new.{quoted(name)}" for name in rows.columns),
        f"new.{NEW} OR old.{THERE} IS NULL OR {changed} AS {NEW}",
        f"old.{THERE}",
        *_hashes([f"old.{key}" for key in keys]),
    )
    observation = Observation()
    watched = compared.observe(observation, *measures, *_sums(THERE))
    kept = watched.where(NEW).drop(NEW, *(f"{HASH}{seed}" for seed in SEEDS)).persist(StorageLevel.DISK_ONLY)
    try:
        strangers = kept.where(" AND ".join([f"{THERE} IS NULL", *(f"{key} IS NOT NULL" for key in keys)]))
        twice: Any = numbered(strangers, target.keys).agg(functions.count_if(functions.expr(f"{NUMBER} = 2"))).first()
        known: Any = table.selectExpr(*_hashes(keys)).agg(*_sums("true")).first()
        found, java = observed(observation), cast("Any", rows.sparkSession.sparkContext._jvm)  # noqa: SLF001 -- as there
        met = dict(java.scala.jdk.javaapi.CollectionConverters.asJava(found)) if found is not None else {}
        # Each key of the table was met once where those that were met are the table's, one for one.
        apart = not twice[0] and known.asDict().items() <= met.items()
        yield News(kept.drop(THERE), met) if apart else None
    finally:
        kept.unpersist()


def _hashes(keys: Sequence[str]) -> Iterator[str]:
    return (f"xxhash64({seed}, {', '.join(keys)}) AS {HASH}{seed}" for seed in SEEDS)


def _sums(where: str) -> "Iterator[Column]":
    """Return what two sets of keys have alike only if they are the same, each key as often: a count, sums of hashes."""
    from pyspark.sql import functions

    yield functions.expr(f"count_if({where})").alias(f"{HASH}count")
    for column in (f"{HASH}{seed}" for seed in SEEDS):
        for half, name in ((f"{column} & 4294967295", "low"), (f"shiftrightunsigned({column}, 32)", "high")):
            yield functions.expr(f"sum(CASE WHEN {where} THEN {half} END)").alias(f"{column}_{name}")
