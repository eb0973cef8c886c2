"""What Spark has observed of a pass that has ended."""

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Observation

SECONDS = 30.0
"""How long to wait; Spark tells it on a thread of its own."""


def observed(observation: "Observation") -> Any:
    """Return the metrics by their names, as Scala's map; None if the optimizer had left the observing out."""
    deadline = time.monotonic() + SECONDS
    java: Any = observation._jo  # noqa: SLF001 -- the public `get` waits for ever
    while time.monotonic() < deadline:
        if java is not None and not java.getOrEmpty().isEmpty():
            return java.getOrEmpty()
        time.sleep(0.01)
    return None
