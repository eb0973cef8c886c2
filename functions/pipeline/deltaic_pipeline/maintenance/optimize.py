"""Run OPTIMIZE and write checkpoints with Spark, and choose the properties that keep commits for readers."""

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from deltaic.delta.property_intervals import format_interval, parse_interval

from deltaic_pipeline.maintenance.retention import Reader
from deltaic_pipeline.spark.jvm import no_option
from deltaic_pipeline.spark.quoting import quoted
from deltaic_pipeline.table.sources import spark_path
from deltaic_pipeline.table.table_properties import USER_METADATA, latest_snapshot, session_settings
from deltaic_pipeline.table.transactions import KEEPS_ROWS, RECENT_COMMITS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG_CLEANUP = "delta.enableExpiredLogCleanup"
LOG_RETENTION = "delta.logRetentionDuration"
LOG_RETENTION_DEFAULT = timedelta(days=30)
CHECKPOINT_POLICY = "delta.checkpointPolicy"
V2_CHECKPOINTS = {CHECKPOINT_POLICY: "v2", "delta.checkpoint.writeStatsAsStruct": "true"}
"""Properties for v2 checkpoints with typed partition values and statistics, by which `maintain` can sort them."""

SIDECAR_ACTIONS = 500_000


@dataclass(frozen=True, slots=True)
class OptimizeResult:
    """Numbers of files that OPTIMIZE removed and added, or the reason why it was skipped."""

    removed: int
    added: int
    skipped: str = ""


def protection(configuration: Mapping[str, str], readers: Sequence[Reader], window: timedelta) -> dict[str, str]:
    """Return the table properties to set so that no writer deletes commits that the readers need.

    Writers delete old commits after each checkpoint. If a reader needs commits that are older than `window`, this
    deletion is disabled; otherwise commits are kept for at least `window`.
    """
    if configuration.get(LOG_CLEANUP, "true").lower() == "false":
        return {}
    if any(reader.lasting for reader in readers):
        return {LOG_CLEANUP: "false"}
    log_retention = parse_interval(configuration.get(LOG_RETENTION), LOG_RETENTION_DEFAULT)
    return {LOG_RETENTION: format_interval(window)} if log_retention < window else {}


def mark(run_id: str) -> str:
    """Return the `userMetadata` by which the commits of a maintenance run are recognized."""
    return json.dumps({"maintain": run_id})


def missing_v2_properties(configuration: Mapping[str, str]) -> dict[str, str]:
    """Return those of the properties for v2 checkpoints that a table lacks."""
    return {name: value for name, value in V2_CHECKPOINTS.items() if configuration.get(name, "").lower() != value}


def has_v2_checkpoints(configuration: Mapping[str, str]) -> bool:
    """Return whether Spark writes v2 checkpoints for a table with these properties."""
    return configuration.get(CHECKPOINT_POLICY, "").lower() == "v2"


def optimize(spark: "SparkSession", location: str, zorder_by: Sequence[str], run_id: str) -> OptimizeResult:
    """Compact small files in one commit, by the table's clustering or in Z-order of the given columns.

    Skipped if this run has run OPTIMIZE already, or if no rows have changed since an OPTIMIZE in the same order.
    """
    order = f" ZORDER BY ({', '.join(map(quoted, zorder_by))})" if zorder_by else ""
    if reason := _skip_reason(spark, location, zorder_by, run_id):
        return OptimizeResult(0, 0, reason)
    with mark_commits(spark, run_id):
        row: Any = spark.sql(f"OPTIMIZE delta.{quoted(spark_path(location))}{order}").first()
    removed, added = row["metrics"]["filesRemoved"], row["metrics"]["filesAdded"]
    return OptimizeResult(removed["totalFiles"], added["totalFiles"])


def checkpoint(spark: "SparkSession", location: str, *, v2: bool) -> None:
    """Write a checkpoint of the latest version; Delta hides failures, so the caller checks that the checkpoint exists.

    The sidecars of a `v2` checkpoint are small enough to be written in parallel, and read one by one for sorting.
    """
    if v2:
        spark.conf.set("spark.databricks.delta.checkpoint.partSize", SIDECAR_ACTIONS)
    snapshot = latest_snapshot(spark, spark_path(location))
    snapshot.deltaLog().checkpoint(snapshot, no_option())


def _skip_reason(spark: "SparkSession", location: str, zorder_by: Sequence[str], run_id: str) -> str:
    from delta.tables import DeltaTable

    recent: list[Any] = DeltaTable.forPath(spark, spark_path(location)).history(RECENT_COMMITS).collect()
    rows_unchanged = True
    for commit in recent:
        is_optimize = commit["operation"] == "OPTIMIZE"
        if is_optimize and commit["userMetadata"] == mark(run_id):
            return f"this run has written version {commit['version']} already"
        same_order = is_optimize and json.loads(commit["operationParameters"].get("zOrderBy") or "[]") == list(
            zorder_by
        )
        if same_order and rows_unchanged:
            return f"no rows have changed since version {commit['version']}"
        rows_unchanged = rows_unchanged and commit["operation"] in KEEPS_ROWS
    return ""


def mark_commits(spark: "SparkSession", run_id: str) -> AbstractContextManager[None]:
    """Add the run id to all commits within the block, as `userMetadata`."""
    return session_settings(spark, {USER_METADATA: mark(run_id)})
