"""Lambda function that generates Iceberg metadata in the background, if a request would have to wait too long."""

from typing import Any

from deltaic.http.observability import logger
from deltaic.sharing.iceberg_clients.background_generation import generate_in_background
from deltaic.sharing.runtime import sharing


def handler(event: dict[str, Any], context: Any) -> dict[str, object]:  # noqa: ARG001 -- Lambda passes it
    """Generate the Iceberg metadata of the table that the event names, and log and return the result."""
    result = dict(generate_in_background(sharing(), event))
    logger().info("metadata", extra=result)
    return result
