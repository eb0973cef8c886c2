"""Puts notices on a bus of EventBridge: what ends soon, and tables with a new version; invoked by two schedules."""

from datetime import UTC, datetime
from typing import Any

from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.admin.table_locations import SharedLocation, SharedLocations
from deltaic.catalog.process_connection import dynamo
from deltaic.errors import DeltaicError, Unavailable
from deltaic.http.observability import error_fields, format_stack, logger
from deltaic.scheduled.notices import tell_endings, tell_versions
from deltaic.settings import settings
from deltaic.sharing.context import storage_config
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.event_bus import EventBus
from deltaic.storage.locations import Location, TableLocations
from deltaic.storage.objects import ObjectTableStore
from deltaic.storage.sessions import SigningSessions


def handler(event: dict[str, Any], context: Any) -> dict[str, int]:
    """Tell what the schedule asks for and return how much it was; raises Unavailable if not all could be told."""
    config = settings()
    bus = EventBus(config.notices_bus, config.notices_source, config.region, config.endpoint_url)
    if event["tell"] == "endings":
        admin = CatalogAdmin(config.catalog_table, config.tokens_table, dynamo())
        summary = {"told": tell_endings(admin, bus.put, config.notice_days, datetime.now(UTC))}
        logger().info("endings", extra=summary)
        return summary
    versions = SharedLocations(config.catalog_table, dynamo())
    sessions = SigningSessions(region=config.region, endpoint=config.endpoint_url)
    home = StorageConfig(region=config.region, endpoint=config.endpoint_url, path_style=bool(config.endpoint_url))

    def log(place: SharedLocation) -> ObjectTableStore:
        storage = storage_config(versions.storage(place.storage)) if place.storage else home
        return ObjectTableStore(TableLocations(Location.parse(place.location)), storage, sessions.reader(storage))

    looked = tell_versions(versions, log, bus.put, lambda: context.get_remaining_time_in_millis() / 1000, _report)
    logger().info("versions", extra=looked)
    if looked["failed"]:
        raise Unavailable(f"{looked['failed']} tables could not be looked at or told of: the log names them")
    return looked


def _report(place: SharedLocation, error: Exception) -> None:
    facts = (
        error_fields(error)
        if isinstance(error, DeltaicError)
        else {**error_fields(error), "stack": format_stack(error)}
    )
    logger().error("notice", extra={"table": place.location, **facts})
