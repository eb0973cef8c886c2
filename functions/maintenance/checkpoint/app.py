"""Scheduled Lambda function that writes checkpoints for small tables whose writers write none."""

import time
from typing import Any

from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit
from deltaic.catalog.admin.table_locations import SharedLocation, SharedLocations
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.leases import Leases
from deltaic.errors import DeltaicError
from deltaic.http.observability import NAMESPACE, error_fields, format_stack, logger
from deltaic.settings import settings
from deltaic.sharing.context import storage_config
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.locations import Location, TableLocations
from deltaic.storage.log_writer import LogWriter
from deltaic.storage.objects import ObjectTableStore
from deltaic.storage.sessions import SigningSessions
from deltaic_checkpoint.checkpoint_run import CheckpointResult, RunContext, run_checkpoints


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:  # noqa: ARG001 -- Lambda passes it
    """Write the due checkpoints of all tables with enabled checkpoints, and return the number of tables by status."""
    config, dynamo = settings(), Dynamo()
    checkpointing = SharedLocations(config.catalog_table, dynamo)
    sessions = SigningSessions(region=config.region, endpoint=config.endpoint_url)
    home = StorageConfig(region=config.region, endpoint=config.endpoint_url, path_style=bool(config.endpoint_url))

    def log(table: SharedLocation) -> tuple[ObjectTableStore, LogWriter]:
        storage = storage_config(checkpointing.storage(table.storage)) if table.storage else home
        log_arguments = (TableLocations(Location.parse(table.location)), storage, sessions.reader(storage))
        return ObjectTableStore(*log_arguments), LogWriter(*log_arguments)

    began = time.perf_counter()
    run_context = RunContext(
        checkpointing, Leases(config.catalog_table, dynamo), log, lambda: context.get_remaining_time_in_millis() / 1000
    )
    counts = run_checkpoints(run_context, f"the checkpoint function (request {context.aws_request_id})", _report)
    summary = {**counts, "seconds": round(time.perf_counter() - began, 1)}
    logger().info("checkpoints", extra={"requestId": context.aws_request_id, **summary})
    metrics = EphemeralMetrics(namespace=NAMESPACE)
    metrics.add_dimension("function", context.function_name)
    metrics.add_metric("CheckpointsWritten", MetricUnit.Count, summary["written"])
    metrics.add_metric("CheckpointsRefused", MetricUnit.Count, summary["refused"])
    metrics.add_metric("CheckpointFailures", MetricUnit.Count, summary["failed"])
    metrics.flush_metrics()
    return summary


def _report(result: CheckpointResult) -> None:
    line = {"table": result.location, "did": result.status, "version": result.version, "commits": result.commits}
    if result.reason:
        line["why"] = result.reason
    if isinstance(result.error, DeltaicError):
        logger().error("checkpoint", extra={**line, **error_fields(result.error)})
    elif result.error is not None:
        logger().error("checkpoint", extra={**line, **error_fields(result.error), "stack": format_stack(result.error)})
    elif result.status == "refused":
        logger().warning("checkpoint", extra=line)
    else:
        logger().info("checkpoint", extra=line)
