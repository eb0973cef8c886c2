"""Scheduled Lambda function that sends events about expirations and new table versions to an EventBridge bus."""

from datetime import UTC, datetime
from typing import Any

from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.admin.table_locations import SharedLocation, SharedLocations
from deltaic.catalog.process_connection import dynamo
from deltaic.errors import DeltaicError, Unavailable
from deltaic.http.observability import error_fields, format_stack, logger
from deltaic.scheduled.notices import send_change_notices, send_expiration_notices
from deltaic.settings import settings
from deltaic.sharing.context import storage_config
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.event_bus import EventBus
from deltaic.storage.locations import Location, TableLocations
from deltaic.storage.objects import ObjectTableStore
from deltaic.storage.sessions import SigningSessions


def handler(event: dict[str, Any], context: Any) -> dict[str, int]:
    """Send events about expirations or new versions, and return counts; raises Unavailable if tables failed."""
    config = settings()
    bus = EventBus(config.notices_bus, config.notices_source, config.region, config.endpoint_url)
    if event["tell"] == "endings":
        admin = CatalogAdmin(config.catalog_table, config.tokens_table, dynamo())
        summary = {"told": send_expiration_notices(admin, bus.put, config.notice_days, datetime.now(UTC))}
        logger().info("endings", extra=summary)
        return summary
    versions = SharedLocations(config.catalog_table, dynamo())
    sessions = SigningSessions(region=config.region, endpoint=config.endpoint_url)
    home = StorageConfig(region=config.region, endpoint=config.endpoint_url, path_style=bool(config.endpoint_url))

    def log(table: SharedLocation) -> ObjectTableStore:
        storage = storage_config(versions.storage(table.storage)) if table.storage else home
        return ObjectTableStore(TableLocations(Location.parse(table.location)), storage, sessions.reader(storage))

    counts = send_change_notices(versions, log, bus.put, lambda: context.get_remaining_time_in_millis() / 1000, _report)
    logger().info("versions", extra=counts)
    if counts["failed"]:
        raise Unavailable(f"{counts['failed']} tables could not be checked or reported: see the log for their names")
    return counts


def _report(table: SharedLocation, error: Exception) -> None:
    stack = {} if isinstance(error, DeltaicError) else {"stack": format_stack(error)}
    logger().error("notice", extra={"table": table.location, **error_fields(error), **stack})
