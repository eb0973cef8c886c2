"""OPTIMIZE, a checkpoint, and properties that protect a table: what Spark does so that it stays cheap to read."""

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
from deltaic_pipeline.table.table_properties import USER_METADATA, configured, latest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG_CLEANUP = "delta.enableExpiredLogCleanup"
LOG_RETENTION = "delta.logRetentionDuration"
LOG_RETENTION_UNSAID = timedelta(days=30)
CHECKPOINT_POLICY = "delta.checkpointPolicy"
V2_CHECKPOINTS = {CHECKPOINT_POLICY: "v2"}
SIDECAR_ACTIONS = 500_000
RECENT_COMMITS = 20
NOTHING_NEW = frozenset({"OPTIMIZE", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "VACUUM START", "VACUUM END"})
"""Operations after which the rows lie where they lay."""


@dataclass(frozen=True, slots=True)
class Optimized:
    """What OPTIMIZE did."""

    removed: int
    added: int
    skipped: str = ""


def protection(configuration: Mapping[str, str], wanted: Sequence[Reader], window: timedelta) -> dict[str, str]:
    """Return the properties that keep every writer from deleting commits that the readers need.

    Delta deletes old commits after any checkpoint that any writer makes. Where somebody reads further back than the
    window no age is safe, so the log is not cleaned at all; else it is kept for the window at least.
    """
    if configuration.get(LOG_CLEANUP, "true").lower() == "false":
        return {}
    if any(reader.lasting for reader in wanted):
        return {LOG_CLEANUP: "false"}
    kept = parse_interval(configuration.get(LOG_RETENTION), LOG_RETENTION_UNSAID)
    return {LOG_RETENTION: format_interval(window)} if kept < window else {}


def mark(run_id: str) -> str:
    """Return what stands in `commitInfo` of a run's commits."""
    return json.dumps({"maintain": run_id})


def has_v2_checkpoints(configuration: Mapping[str, str]) -> bool:
    """Tell whether Spark writes v2 checkpoints of a table with these properties."""
    return configuration.get(CHECKPOINT_POLICY, "").lower() == "v2"


def optimize(spark: "SparkSession", location: str, zorder_by: Sequence[str], run_id: str) -> Optimized:
    """Join small files, by the table's own clustering or in Z-order where columns are named, as one version.

    Nothing is done again by the same run, nor where no row has come since the last time: Z-order would write the whole
    table anew.
    """
    order = f" ZORDER BY ({', '.join(map(quoted, zorder_by))})" if zorder_by else ""
    done = _done(spark, location, zorder_by, run_id)
    if done:
        return Optimized(0, 0, done)
    with marked(spark, run_id):
        row: Any = spark.sql(f"OPTIMIZE delta.{quoted(spark_path(location))}{order}").first()
    removed, added = row["metrics"]["filesRemoved"], row["metrics"]["filesAdded"]
    return Optimized(removed["totalFiles"], added["totalFiles"])


def checkpoint(spark: "SparkSession", location: str, *, v2: bool) -> None:
    """Write a checkpoint of the latest version; Delta tells no failure, so the caller looks for it in the log.

    One that is `v2` in as many sidecars as workers can write at once, and as the job can read one by one.
    """
    if v2:
        spark.conf.set("spark.databricks.delta.checkpoint.partSize", SIDECAR_ACTIONS)
    snapshot = latest(spark, spark_path(location))
    snapshot.deltaLog().checkpoint(snapshot, no_option())


def _done(spark: "SparkSession", location: str, zorder_by: Sequence[str], run_id: str) -> str:
    from delta.tables import DeltaTable

    recent: list[Any] = DeltaTable.forPath(spark, spark_path(location)).history(RECENT_COMMITS).collect()
    quiet = True
    for commit in recent:
        optimized = commit["operation"] == "OPTIMIZE"
        if optimized and commit["userMetadata"] == mark(run_id):
            return f"version {commit['version']} was this run's already"
        same = optimized and json.loads(commit["operationParameters"].get("zOrderBy") or "[]") == list(zorder_by)
        if same and quiet:
            return f"no rows have come since version {commit['version']}"
        quiet = quiet and commit["operation"] in NOTHING_NEW
    return ""


def marked(spark: "SparkSession", run_id: str) -> AbstractContextManager[None]:
    """Name the run in the log of what is committed in the block."""
    return configured(spark, {USER_METADATA: mark(run_id)})
