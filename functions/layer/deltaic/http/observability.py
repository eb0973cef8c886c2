"""The record of each request: one structured log line and its metrics, and never a secret.

The log line is the audit record (who asked for which table from where, what was answered, which files were signed),
one for each request, written when its answer has ended; `deltaic usage collect` joins it with what S3 tells of the
fetches (decision 60). Bearer tokens, signed URLs
and page tokens never enter it: of a message only what cannot be one, of a failure only its own stack, because the
causes behind it quote requests. Metrics leave as CloudWatch EMF; set POWERTOOLS_METRICS_DISABLED=true where nobody
reads them.

Powertools is imported when the first request has been answered and not before: it is a third of what a listing
function would import, and a streamed answer has left by then.
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
"""How an answer ended: sent to its end, an error instead of one, broken off by us, or left by its reader."""

_TOKEN = re.compile(r"[\w-]{40,}")
_QUERY_STRING = re.compile(r"\?\S*=\S*")
"""What might sign a URL that a log names; names of data files are as long as tokens, and stay."""


@cache
def logger() -> "Logger":
    """Return the logger of this process (level and service come from POWERTOOLS_* variables)."""
    from aws_lambda_powertools import Logger

    return Logger()


def facts_of(error: BaseException) -> dict[str, object]:
    """Return what the log may say of a failure: texts of the tree without anything long enough to be a token.

    Their detail goes whole, but for query strings: it is where the provider finds the bucket, the path, the setting.
    """
    if isinstance(error, DeltaicError):
        facts: dict[str, object] = {"errorCode": error.code, "error": _TOKEN.sub("...", error.message)}
        return facts | {"detail": _QUERY_STRING.sub("?...", error.detail)} if error.detail else facts
    return {"error": type(error).__name__}


def stack_of(error: BaseException) -> str:
    """Return where an unexpected failure arose, without its causes."""
    return "".join(traceback.format_exception(error, chain=False))


class Exchange(msgspec.Struct, frozen=True):
    """One request under way."""

    endpoint: str
    request_id: str
    request: PublicRequest | None = None
    """None until it has been read."""
    began: float = msgspec.field(default_factory=time.perf_counter)
    first_byte: float | None = None
    """When an answer began to leave, by the clock of `began`; None if it left at once when it was ready."""

    time: float = msgspec.field(default_factory=time.time)

    def record(self, status: int, ended: Ended, facts: Mapping[str, object], *, failed: bool = False) -> None:
        """Write the request's log line and metrics; `facts` is what is to be said beside the use case's notes."""
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
                "names": dict(self.request.names),  # of a public route they may be secret
            }
        if self.request is not None:
            self.request.audit.end()
            line |= {
                "sourceIp": self.request.source_ip,
                "userAgent": self.request.headers.get("user-agent", ""),
                **self.request.audit.facts(),
            }
        line |= facts
        if failed:
            logger().error("request failed", extra=line)
        else:
            logger().info("request", extra=line)
        from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

        of_endpoint = EphemeralMetrics(namespace=NAMESPACE)
        of_endpoint.add_dimension("endpoint", str(line["endpoint"]))
        of_endpoint.add_metric("Latency", MetricUnit.Milliseconds, milliseconds)
        of_endpoint.add_metric("Failures", MetricUnit.Count, int(failed))
        of_endpoint.flush_metrics()
        # Of all endpoints together, because alarms look at these: an alarm cannot join what has other dimensions.
        of_service = EphemeralMetrics(namespace=NAMESPACE)
        first_byte = (self.first_byte or now) - self.began
        of_service.add_metric("FirstByte", MetricUnit.Milliseconds, round(first_byte * 1000, 1))
        of_service.add_metric("BrokenStreams", MetricUnit.Count, int(ended == "failed"))
        of_service.flush_metrics()
