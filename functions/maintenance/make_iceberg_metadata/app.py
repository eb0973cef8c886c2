"""Makes metadata for Iceberg's clients that takes longer than they are waited for; invoked by what loads tables."""

from typing import Any

from deltaic.http.observability import logger
from deltaic.sharing.iceberg_clients.background_generation import generate_in_background
from deltaic.sharing.runtime import sharing


def handler(event: dict[str, Any], context: Any) -> dict[str, object]:  # noqa: ARG001 -- as Lambda calls it
    """Make it and return what came of it, which the log is told, too."""
    ended = dict(generate_in_background(sharing(), event))
    logger().info("metadata", extra=ended)
    return ended
