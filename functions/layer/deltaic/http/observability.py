"""Decides what is told of each request: one structured log line and its metrics, and never a secret.

The log line is the audit record (who asked for which table, what was answered); bearer tokens, signed URLs and page
tokens never enter it. Metrics leave as CloudWatch EMF; set POWERTOOLS_METRICS_DISABLED=true where nobody reads them.

Powertools is imported when the first request has been answered and not before: it is a third of what a listing
function would import, and a streamed answer has left by then.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from deltaic.http.request import Request

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger

NAMESPACE = "Deltaic"


@cache
def logger() -> "Logger":
    """Return the logger of this process (level and service come from POWERTOOLS_* variables)."""
    from aws_lambda_powertools import Logger

    return Logger(service="deltaic")


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request under way."""

    endpoint: str
    request: Request | None = None
    """None until it has been read."""
    began: float = field(default_factory=time.perf_counter)

    def record(self, status: int, facts: Mapping[str, object], *, failed: bool = False) -> None:
        """Write the request's log line and metrics; `facts` is what the use case wants remembered (version, files)."""
        milliseconds = round((time.perf_counter() - self.began) * 1000, 1)
        line: dict[str, object] = {"endpoint": self.endpoint, "status": status, "milliseconds": milliseconds}
        if self.request is not None:
            line |= {
                "requestId": self.request.request_id,
                "recipientId": self.request.caller.recipient_id,
                "tokenId": self.request.caller.token_id,
                "names": dict(self.request.names),
                "userAgent": self.request.headers.get("user-agent", ""),
            }
        line |= facts
        if failed:
            logger().error("request failed", extra=line)
        else:
            logger().info("request", extra=line)
        from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

        metrics = EphemeralMetrics(namespace=NAMESPACE, service="deltaic")
        metrics.add_dimension("endpoint", self.endpoint)
        metrics.add_metric("Latency", MetricUnit.Milliseconds, milliseconds)
        metrics.add_metric("Failures", MetricUnit.Count, int(failed))
        metrics.flush_metrics()
