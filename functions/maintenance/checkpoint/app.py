"""Writes checkpoints for small tables whose writers leave none; invoked by a schedule."""

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
from deltaic_checkpoint.checkpoint_run import Dependencies, Outcome, go_round


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:  # noqa: ARG001 -- a schedule says nothing
    """Go one round through the tables that take part and return what came of it, in counts."""
    config, dynamo = settings(), Dynamo()
    checkpointing = SharedLocations(config.catalog_table, dynamo)
    sessions = SigningSessions(region=config.region, endpoint=config.endpoint_url)
    home = StorageConfig(region=config.region, endpoint=config.endpoint_url, path_style=bool(config.endpoint_url))

    def log(place: SharedLocation) -> tuple[ObjectTableStore, LogWriter]:
        storage = storage_config(checkpointing.storage(place.storage)) if place.storage else home
        where = (TableLocations(Location.parse(place.location)), storage, sessions.reader(storage))
        return ObjectTableStore(*where), LogWriter(*where)

    began = time.perf_counter()
    dependencies = Dependencies(
        checkpointing, Leases(config.catalog_table, dynamo), log, lambda: context.get_remaining_time_in_millis() / 1000
    )
    done = go_round(dependencies, f"the checkpoint function (request {context.aws_request_id})", _report)
    summary = {**done, "seconds": round(time.perf_counter() - began, 1)}
    logger().info("checkpoints", extra={"requestId": context.aws_request_id, **summary})
    metrics = EphemeralMetrics(namespace=NAMESPACE)
    metrics.add_dimension("function", context.function_name)
    metrics.add_metric("CheckpointsWritten", MetricUnit.Count, summary["written"])
    metrics.add_metric("CheckpointsRefused", MetricUnit.Count, summary["refused"])
    metrics.add_metric("CheckpointFailures", MetricUnit.Count, summary["failed"])
    metrics.flush_metrics()
    return summary


def _report(outcome: Outcome) -> None:
    line = {"table": outcome.location, "did": outcome.did, "version": outcome.version, "commits": outcome.commits}
    if outcome.why:
        line["why"] = outcome.why
    if isinstance(outcome.error, DeltaicError):
        logger().error("checkpoint", extra={**line, **error_fields(outcome.error)})
    elif outcome.error is not None:
        logger().error(
            "checkpoint", extra={**line, **error_fields(outcome.error), "stack": format_stack(outcome.error)}
        )
    elif outcome.did == "refused":
        logger().warning("checkpoint", extra=line)
    else:
        logger().info("checkpoint", extra=line)
