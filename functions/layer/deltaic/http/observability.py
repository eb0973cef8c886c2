"""Write logs and metrics: one structured log line for each request, without secrets.

The log line is the audit record: recipient, table, IP address, status and signed files. It is written when the
response has ended. `deltaic usage collect` joins it with S3's access logs (decision 60). Bearer tokens, signed URLs and
page tokens are never logged: messages are logged without strings that could be tokens, and stack traces without causes,
which can quote requests. Metrics are written as CloudWatch EMF; POWERTOOLS_METRICS_DISABLED=true disables them.

Powertools is imported after the first response, because it would add a third to the imports of a listing function.
"""

import re
import time
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Literal

import msgspec

from deltaic.errors import DeltaicError
from deltaic.http.request import PublicRequest, Request

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger

NAMESPACE = "Deltaic"

Ended = Literal["whole", "refused", "failed", "abandoned"]
"""How a response ended: complete, with an error status, aborted by the server, or abandoned by the client."""

_TOKEN = re.compile(r"[\w-]{40,}")
_QUERY_STRING = re.compile(r"\?\S*=\S*")
"""Query string of a URL, removed from `detail` because it could contain a signature."""


@cache
def logger() -> "Logger":
    """Return the logger of this process, configured by POWERTOOLS_* environment variables."""
    from aws_lambda_powertools import Logger

    return Logger()


def error_fields(error: BaseException) -> dict[str, object]:
    """Return the log fields of an exception, without strings that are long enough to be tokens.

    The field `detail` keeps long strings, such as bucket and path, for the provider, but not the query strings of URLs.
    """
    if isinstance(error, DeltaicError):
        fields: dict[str, object] = {"errorCode": error.code, "error": _TOKEN.sub("...", error.message)}
        return fields | {"detail": _QUERY_STRING.sub("?...", error.detail)} if error.detail else fields
    return {"error": type(error).__name__}


def format_stack(error: BaseException) -> str:
    """Return the stack trace of an exception without its causes."""
    return "".join(traceback.format_exception(error, chain=False))


class RequestLog(msgspec.Struct, frozen=True):
    """Data about a request in progress, for its log line and metrics."""

    endpoint: str
    request_id: str
    request: PublicRequest | None = None
    """The request, or None before it is parsed."""
    began: float = msgspec.field(default_factory=time.perf_counter)
    first_byte: float | None = None
    """Time of the first byte in seconds, by the clock of `began`; None if the response was not streamed."""

    time: float = msgspec.field(default_factory=time.time)

    def record(self, status: int, ended: Ended, fields: Mapping[str, object], *, failed: bool = False) -> None:
        """Write the request's log line, with `fields` added, and metrics, which count it as a failure if `failed`."""
        now = time.perf_counter()
        milliseconds = round((now - self.began) * 1000, 1)
        line: dict[str, object] = {
            "endpoint": self.endpoint,
            "requestId": self.request_id,
            "time": datetime.fromtimestamp(self.time, UTC).isoformat(timespec="milliseconds"),
            "status": status,
            "ended": ended,
            "milliseconds": milliseconds,
        }
        if isinstance(self.request, Request):
            caller = self.request.caller
            line |= {
                "recipientId": caller.recipient_id,
                "recipient": caller.recipient,
                "tokenId": caller.token_id,
                "names": dict(self.request.names),  # not of public routes, where they can be secrets
            }
        if self.request is not None:
            self.request.audit.end()
            line |= {
                "sourceIp": self.request.source_ip,
                "userAgent": self.request.headers.get("user-agent", ""),
                **self.request.audit.facts(),
            }
        line |= fields
        if failed:
            logger().error("request failed", extra=line)
        else:
            logger().info("request", extra=line)
        from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

        endpoint_metrics = EphemeralMetrics(namespace=NAMESPACE)
        endpoint_metrics.add_dimension("endpoint", str(line["endpoint"]))
        endpoint_metrics.add_metric("Latency", MetricUnit.Milliseconds, milliseconds)
        endpoint_metrics.add_metric("Failures", MetricUnit.Count, int(failed))
        endpoint_metrics.flush_metrics()
        # Alarms use these metrics without dimensions, because an alarm cannot combine several dimensions.
        service_metrics = EphemeralMetrics(namespace=NAMESPACE)
        first_byte = (self.first_byte or now) - self.began
        service_metrics.add_metric("FirstByte", MetricUnit.Milliseconds, round(first_byte * 1000, 1))
        service_metrics.add_metric("BrokenStreams", MetricUnit.Count, int(ended == "failed"))
        service_metrics.flush_metrics()
