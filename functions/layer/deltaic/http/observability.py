"""Decides what is told of each request: one structured log line and its metrics, and never a secret.

The log line is the audit record (who asked for which table, what was answered); bearer tokens, signed URLs and page
tokens never enter it. Metrics leave as CloudWatch EMF; set POWERTOOLS_METRICS_DISABLED=true where nobody reads them.
"""

from collections.abc import Mapping
from functools import cache

from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from deltaic.http.request import Request

NAMESPACE = "Deltaic"


@cache
def logger() -> Logger:
    """Return the logger of this process (level and service come from POWERTOOLS_* variables)."""
    return Logger(service="deltaic")


def record(
    endpoint: str, request: Request | None, status: int, seconds: float, facts: Mapping[str, object], *, failed: bool
) -> None:
    """Write the request's log line and metrics; `facts` is what the use case wants remembered (version, files)."""
    line: dict[str, object] = {"endpoint": endpoint, "status": status, "milliseconds": round(seconds * 1000, 1)}
    if request is not None:
        line |= {
            "requestId": request.request_id,
            "recipientId": request.caller.recipient_id,
            "tokenId": request.caller.token_id,
            "names": dict(request.names),
            "userAgent": request.headers.get("user-agent", ""),
        }
    line |= facts
    if failed:
        logger().error("request failed", extra=line)
    else:
        logger().info("request", extra=line)
    metrics = EphemeralMetrics(namespace=NAMESPACE, service="deltaic")
    metrics.add_dimension("endpoint", endpoint)
    metrics.add_metric("Latency", MetricUnit.Milliseconds, seconds * 1000)
    metrics.add_metric("Failures", MetricUnit.Count, int(failed))
    metrics.flush_metrics()
