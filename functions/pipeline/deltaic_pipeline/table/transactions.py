"""Identify the commit of a run in a Delta table's log, so that no run is committed twice."""

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
KEEPS_ROWS = frozenset({"OPTIMIZE", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "VACUUM START", "VACUUM END"})
"""Delta operations that change neither rows nor columns."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """Identity of a commit: an application id and a version (Delta protocol, "Transaction Identifiers")."""

    application: str
    version: int
    mark: Mapping[str, str | int | Mapping[str, int]]
    """Content of `userMetadata` in `commitInfo`, by which the commit is found again."""

    moves: bool = False
    """Commit even if no row changes, because the commit records a new reading position in a source."""

    delivery: str = ""
    """Digest of the run's input, written with the mark; empty: the next run must read its input again."""

    quarantine: bool = False
    """Whether the run also has rows for the quarantine table; written with the mark and the delivery."""

    described: str = ""
    """Digest of properties and comments that the table already has, written with the mark to skip later checks."""

    @classmethod
    def of_run(cls, run_id: str, dataset: str = "") -> "Transaction":
        """Return the transaction of a run; datasets can use the same run ids independently (decision 201)."""
        if not dataset:
            return cls(f"deltaic-publish/{run_id}", 1, {"run": run_id})
        return cls(f"deltaic-run/{dataset}/{run_id}", 1, {"dataset": dataset, "run": run_id})

    @classmethod
    def of_batch(cls, stream: str, batch: int) -> "Transaction":
        """Return the transaction of one batch of a stream; the stream is identified by its checkpoint."""
        return cls(f"deltaic-stream/{stream}", batch, {"stream": stream, "batch": batch})

    def of_target(self, location: str) -> "Transaction":
        """Return the run's transaction for a table that several targets share, such as a quarantine table."""
        target = catalog_location(location)
        return Transaction(f"{self.application} {target}", self.version, {**self.mark, "target": target}, self.moves)

    @property
    def user_metadata(self) -> str:
        """JSON text for `userMetadata` of the commit: `mark`, and the digests `delivery` and `described`, if any."""
        source = {"delivery": self.delivery, "aside": self.quarantine} if self.delivery else {}
        return json.dumps({**self.mark, **source, **({"described": self.described} if self.described else {})})

    def matches(self, user_metadata: str | None) -> bool:
        """Return whether a commit's `userMetadata` has the mark of this transaction, whatever the digests."""
        mark = parse_mark(user_metadata)
        return {name: mark[name] for name in mark if name not in {"delivery", "aside", "described"}} == self.mark

    def __str__(self) -> str:
        return " ".join(f"{name} {value}" for name, value in self.mark.items())


@dataclass(frozen=True, slots=True)
class WriteResult:
    """Result of writing a run's rows."""

    version: int
    """Version with the run's rows, or the latest version if an earlier attempt's commit is too old to be found."""

    repeated: bool
    """True if an earlier attempt of the same run had already committed, so that nothing was written now."""

    metrics: Mapping[str, str]
    deleted: int = 0
    missing: int = 0
    committed: bool = True
    """False if the table has all rows already; then `version` is the table's latest version."""


def exists(spark: "SparkSession", target: DeltaTarget) -> bool:
    """Return whether a table exists at the target's location."""
    return is_delta_table(spark, target.location)


def find_commit(spark: "SparkSession", target: DeltaTarget, transaction: Transaction) -> WriteResult | None:
    """Return the transaction's commit if it is among the latest commits, else None."""
    return find(spark, target, transaction)[1] if exists(spark, target) else None


def find(spark: "SparkSession", target: DeltaTarget, transaction: Transaction) -> tuple[int, WriteResult | None]:
    """Return the table's latest version, and the transaction's commit if it is among the latest commits.

    First reads one line of the newest commit, which is cheap: the list of transactions requires the table's state, and
    the history requires another Spark job.
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
    """Return the parsed `userMetadata` of the latest commit that may have changed rows; empty if none is found."""
    snapshot = latest_snapshot(spark, spark_path(target.location))
    newest = int(snapshot.version())
    with suppress(*spark_failures()):  # older commits can be deleted
        for version in range(newest, max(newest - RECENT_COMMITS, -1), -1):
            info = commit_info(snapshot, version)
            if info.get("operation") not in KEEPS_ROWS:
                return parse_mark(info.get("userMetadata"))
    return {}


def mark_commits(spark: "SparkSession", transaction: Transaction, *, spread: bool) -> AbstractContextManager[None]:
    """Add the transaction to all commits within the block, as `txn` action and in `commitInfo`.

    With `spread`, Delta shuffles the rows before it writes them, so that each partition gets few files.
    """
    settings = {
        "spark.databricks.delta.write.txnAppId": transaction.application,
        "spark.databricks.delta.write.txnVersion": str(transaction.version),
        USER_METADATA: transaction.user_metadata,
        "spark.databricks.delta.optimizeWrite.enabled": str(spread).lower(),
    }
    return session_settings(spark, settings)
