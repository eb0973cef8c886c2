"""Transaction that identifies a run's commit in the log of a Delta table."""

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
    is_delta_table,
    latest_snapshot,
    parse_mark,
    session_settings,
)
from deltaic_pipeline.table.target import TRANSACTION_RETENTION, DeltaTarget

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECENT_COMMITS = 20
KEEPS_ROWS = frozenset({"SET TBLPROPERTIES", "OPTIMIZE", "VACUUM START", "VACUUM END"})
"""Delta operations that change neither rows nor columns."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """Identity of a commit: Delta commits a version of an application once (protocol, "Transaction Identifiers")."""

    application: str
    version: int
    mark: Mapping[str, str | int | Mapping[str, int]]
    """Written to `commitInfo`, to find the commit again."""

    moves: bool = False
    """Commit it even if no row changes, because it moves the position in a source."""

    delivery: str = ""
    """Digest of the run's input, written to `commitInfo` with the mark; empty if the next run must read again."""

    quarantine: bool = False
    """The run also has rows for the quarantine table; written to `commitInfo` with the delivery."""

    described: str = ""
    """Digest of the descriptions that the table already has; in `commitInfo` it saves a later check."""

    @classmethod
    def of_run(cls, run_id: str, dataset: str = "") -> "Transaction":
        """Return the transaction of a run: run ids of different datasets are independent (decision 201)."""
        if not dataset:
            return cls(f"deltaic-publish/{run_id}", 1, {"run": run_id})
        return cls(f"deltaic-run/{dataset}/{run_id}", 1, {"dataset": dataset, "run": run_id})

    @classmethod
    def of_batch(cls, stream: str, batch: int) -> "Transaction":
        """Return the transaction of one batch of a stream, whose name comes from its checkpoint."""
        return cls(f"deltaic-stream/{stream}", batch, {"stream": stream, "batch": batch})

    def of_target(self, location: str) -> "Transaction":
        """Return the run's transaction in a table that several targets share, such as a quarantine table."""
        target = catalog_location(location)
        return Transaction(f"{self.application} {target}", self.version, {**self.mark, "target": target}, self.moves)

    @property
    def user_metadata(self) -> str:
        """The mark as JSON for the log."""
        source = {"delivery": self.delivery, "aside": self.quarantine} if self.delivery else {}
        return json.dumps({**self.mark, **source, **({"described": self.described} if self.described else {})})

    def matches(self, user_metadata: str | None) -> bool:
        """Return whether a commit with this `userMetadata` belongs to the transaction, whatever it read."""
        mark = parse_mark(user_metadata)
        return {name: mark[name] for name in mark if name not in {"delivery", "aside", "described"}} == self.mark

    def __str__(self) -> str:
        return " ".join(f"{name} {value}" for name, value in self.mark.items())


@dataclass(frozen=True, slots=True)
class WriteResult:
    """Result of writing a run's rows."""

    version: int
    """The version with the run's rows, or the latest version if the commit of an earlier attempt is too old."""

    repeated: bool
    """True if an earlier attempt of the same run had already committed, so that nothing was written now."""

    metrics: Mapping[str, str]
    deleted: int = 0
    missing: int = 0
    committed: bool = True
    """False if the table has all rows already; then `version` is its latest."""


def exists(spark: "SparkSession", target: DeltaTarget) -> bool:
    """Return whether a table exists at the target's location."""
    return is_delta_table(spark, target.location)


def find_commit(spark: "SparkSession", target: DeltaTarget, transaction: Transaction) -> WriteResult | None:
    """Return the transaction's commit if it is among the latest commits, else None."""
    return find(spark, target, transaction)[1] if exists(spark, target) else None


def find(spark: "SparkSession", target: DeltaTarget, transaction: Transaction) -> tuple[int, WriteResult | None]:
    """Return the table's latest version, and the transaction's commit if it is among the latest commits.

    First reads one line of the newest commit, because the list of transactions needs the table's state, and the history
    another Spark job.
    """
    from delta.tables import DeltaTable

    snapshot = latest_snapshot(spark, spark_path(target.location))
    version = int(snapshot.version())
    newest = commit_info(snapshot, version)
    if transaction.matches(newest.get("userMetadata")):
        return version, WriteResult(version, repeated=True, metrics=newest.get("operationMetrics") or {})
    last_version = snapshot.transactions().get(transaction.application)
    has_none = last_version.isEmpty() or last_version.get() < transaction.version
    if has_none and not snapshot.metadata().configuration().contains(TRANSACTION_RETENTION):
        return version, None
    recent: list[Any] = DeltaTable.forPath(spark, spark_path(target.location)).history(RECENT_COMMITS).collect()
    match = next((commit for commit in recent if transaction.matches(commit["userMetadata"])), None)
    if match is None:
        return recent[0]["version"], None
    metrics = dict(match["operationMetrics"] or {})
    return recent[0]["version"], WriteResult(match["version"], repeated=True, metrics=metrics)


def last_write(spark: "SparkSession", target: DeltaTarget) -> dict[str, Any]:
    """Return the mark of the last commit that can have changed rows; empty if there is none."""
    snapshot = latest_snapshot(spark, spark_path(target.location))
    newest = int(snapshot.version())
    with suppress(*spark_failures()):  # older commits can be deleted
        for version in range(newest, max(newest - RECENT_COMMITS, -1), -1):
            info = commit_info(snapshot, version)
            if info.get("operation") not in KEEPS_ROWS:
                return parse_mark(info.get("userMetadata"))
    return {}


def mark_commits(spark: "SparkSession", transaction: Transaction, *, spread: bool) -> AbstractContextManager[None]:
    """Write the transaction to the commits of a block, in the log's `txn` action and in `commitInfo`.

    `spread` lets Delta shuffle the rows before it writes them, so that each partition gets few files.
    """
    settings = {
        "spark.databricks.delta.write.txnAppId": transaction.application,
        "spark.databricks.delta.write.txnVersion": str(transaction.version),
        USER_METADATA: transaction.user_metadata,
        "spark.databricks.delta.optimizeWrite.enabled": str(spread).lower(),
    }
    return session_settings(spark, settings)
