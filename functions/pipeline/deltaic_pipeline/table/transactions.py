"""The transaction by which the log of a Delta table knows a run's commit, and by which it is found again."""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.spark.spark_errors import spark_failures
from deltaic_pipeline.table.sources import catalog_location, spark_path
from deltaic_pipeline.table.table_properties import (
    USER_METADATA,
    commit_info,
    configured,
    is_delta_table,
    latest,
    mark_of,
)
from deltaic_pipeline.table.target import FORGETS, Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECENT_COMMITS = 20
KEEPS_ROWS = frozenset({"SET TBLPROPERTIES", "OPTIMIZE", "VACUUM START", "VACUUM END"})
"""Delta operations that change neither rows nor columns."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """Who writes: Delta commits a version of an application once (Delta protocol, "Transaction Identifiers")."""

    application: str
    version: int
    mark: Mapping[str, str | int | Mapping[str, int]]
    """Stands in `commitInfo`, by which the commit is found again."""

    moves: bool = False
    """It says something by itself, and is committed where no row changes too."""

    delivery: str = ""
    """Digest of the run's input, written to `commitInfo` with the mark; empty if the next run must read again."""

    aside: bool = False
    """The run also has rows for the quarantine table; written to `commitInfo` with the delivery."""

    described: str = ""
    """Digest of the descriptions that the table already has; written to `commitInfo`, so that no later check is due."""

    @classmethod
    def of_run(cls, run_id: str, dataset: str = "") -> "Transaction":
        """Return the transaction of a run: run ids of different datasets are independent (decision 201)."""
        if not dataset:
            return cls(f"deltaic-publish/{run_id}", 1, {"run": run_id})
        return cls(f"deltaic-run/{dataset}/{run_id}", 1, {"dataset": dataset, "run": run_id})

    @classmethod
    def of_batch(cls, stream: str, batch: int) -> "Transaction":
        """Name the commit of one batch of a stream, which its checkpoint gave a name."""
        return cls(f"deltaic-stream/{stream}", batch, {"stream": stream, "batch": batch})

    def of_target(self, location: str) -> "Transaction":
        """Return the same run's transaction in a table that several targets share, such as a quarantine table."""
        target = catalog_location(location)
        return Transaction(f"{self.application} {target}", self.version, {**self.mark, "target": target}, self.moves)

    @property
    def user_metadata(self) -> str:
        """The mark as it stands in the log."""
        read = {"delivery": self.delivery, "aside": self.aside} if self.delivery else {}
        return json.dumps({**self.mark, **read, **({"described": self.described} if self.described else {})})

    def made(self, user_metadata: str | None) -> bool:
        """Return whether a commit with this `userMetadata` is the transaction's, whatever it read."""
        mark = mark_of(user_metadata)
        return {name: mark[name] for name in mark if name not in {"delivery", "aside", "described"}} == self.mark

    def __str__(self) -> str:
        return " ".join(f"{name} {value}" for name, value in self.mark.items())


@dataclass(frozen=True, slots=True)
class Written:
    """What a run did to the table."""

    version: int
    """The version that holds the run's rows, or the latest one when an earlier attempt is too long ago to be found."""

    repeated: bool
    """True when an earlier attempt of the same run had already committed, so that nothing was written now."""

    metrics: Mapping[str, str]
    deleted: int = 0
    missing: int = 0
    committed: bool = True
    """False: the table says all that the rows say, and `version` is its latest."""


def exists(spark: "SparkSession", target: Target) -> bool:
    """Tell whether there is a table at the target's location."""
    return is_delta_table(spark, target.location)


def committed(spark: "SparkSession", target: Target, transaction: Transaction) -> Written | None:
    """Return what this run has committed already, if that is among the latest commits; else None."""
    return find(spark, target, transaction)[1] if exists(spark, target) else None


def find(spark: "SparkSession", target: Target, transaction: Transaction) -> tuple[int, Written | None]:
    """Return the table's latest version and the transaction's commit, if that is among the latest commits.

    Reads one line of the newest commit first. The table's transactions cost a computation of its state, and its history
    costs another Spark job.
    """
    from delta.tables import DeltaTable

    snapshot = latest(spark, spark_path(target.location))
    version = int(snapshot.version())
    newest = commit_info(snapshot, version)
    if transaction.made(newest.get("userMetadata")):
        return version, Written(version, repeated=True, metrics=newest.get("operationMetrics") or {})
    known = snapshot.transactions().get(transaction.application)
    has_none = known.isEmpty() or known.get() < transaction.version
    if has_none and not snapshot.metadata().configuration().contains(FORGETS):
        return version, None
    recent: list[Any] = DeltaTable.forPath(spark, spark_path(target.location)).history(RECENT_COMMITS).collect()
    mine = (commit for commit in recent if transaction.made(commit["userMetadata"]))
    found = (Written(one["version"], repeated=True, metrics=dict(one["operationMetrics"] or {})) for one in mine)
    return recent[0]["version"], next(found, None)


def last_write(spark: "SparkSession", target: Target) -> dict[str, Any]:
    """Return the mark of the last commit that may have changed the table's rows; empty if there is none to read."""
    snapshot = latest(spark, spark_path(target.location))
    newest = int(snapshot.version())
    with suppress(*spark_failures()):  # older commits may be deleted
        for version in range(newest, max(newest - RECENT_COMMITS, -1), -1):
            info = commit_info(snapshot, version)
            if info.get("operation") not in KEEPS_ROWS:
                return mark_of(info.get("userMetadata"))
    return {}


def marked(spark: "SparkSession", transaction: Transaction, *, spread: bool) -> AbstractContextManager[None]:
    """Mark the commits of a block with who writes, in the log's `txn` action and in `commitInfo`.

    `spread`: Delta shuffles the rows before it writes them, so that there are few files for each partition.
    """
    settings = {
        "spark.databricks.delta.write.txnAppId": transaction.application,
        "spark.databricks.delta.write.txnVersion": str(transaction.version),
        USER_METADATA: transaction.user_metadata,
        "spark.databricks.delta.optimizeWrite.enabled": str(spread).lower(),
    }
    return configured(spark, settings)
