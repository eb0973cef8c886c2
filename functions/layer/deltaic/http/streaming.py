"""Lambda handler of an ASGI app that streams its responses or sends them buffered.

`StreamingMangum` is Mangum with another response cycle (response_cycle.py). With `stream`, bytes are sent when the app
sends them, after the prelude that API Gateway requires. If AWS's client in this process has an unsupported version, the
same bytes are sent when the app has returned.

Without `stream`, the response has the format of API Gateway's Lambda proxy integration. A response above Lambda's 6 MB
is replaced by an error that says what to do, and never truncated.
"""

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

from mangum import Mangum

from deltaic.errors import DeltaicError, UnsupportedOperation
from deltaic.http.asgi import App
from deltaic.http.response import error_response
from deltaic.http.response_cycle import Buffered, DeadlineReached, Opener, ResponseCycle, Streamed, TooLarge, prelude
from deltaic.http.runtime_stream import find_runtime
from deltaic.platform_limits import BUFFERED_BYTES

__all__ = ["FEWER_FILES", "DeadlineReached", "StreamingMangum", "too_large_error"]

logger = logging.getLogger(__name__)

TEXT_TYPES = ["text/", "application/json", "application/x-ndjson"]
"""Content types that Mangum sends as text. Without NDJSON in this list, clients would receive base64."""

MARGIN_SECONDS = 2.0
"""Time before the function's time limit to end a response, in seconds; at most a quarter of the remaining time."""

UNLIMITED_SECONDS = 900.0

FEWER_FILES = (
    "Request it in pages (maxFiles, then pageToken), or request fewer files (predicateHints, limitHint). The provider "
    "can enable streaming to remove the limit."
)
"""What a client can do if a response that lists files is too large."""


class StreamingMangum(Mangum):
    """The Lambda handler of an ASGI app: `handler = StreamingMangum(app, stream=True)`.

    It streams if the context has `open_response_stream`, as in the local gateway, or if AWS's client in this process
    can be wrapped. Create it while the function's module is imported, before other tools patch the client: a patched
    client is not wrapped.
    """

    def __init__(
        self,
        app: App,
        *,
        stream: bool,
        remedy: str = "Accept compression (Accept-Encoding: gzip), or request smaller pages (maxResults).",
    ) -> None:
        """Wrap an app; `remedy` tells clients what to do if a response is too large or too slow."""
        super().__init__(app, lifespan="off", text_mime_types=TEXT_TYPES)  # type: ignore[arg-type]
        self.stream = stream
        self._remedy = remedy
        self._runtime = find_runtime() if stream else None

    def __call__(self, event: dict[str, Any], context: Any) -> Any:
        """Respond to one invocation; returns None after streaming, raw bytes with `stream`, or a proxy response.

        With `stream`, an exception before the first byte is raised: the function fails, and the client gets a 5xx.
        """
        try:
            handler = self.infer(event, context)
        except RuntimeError:
            # A warm-up or another event without an HTTP request needs no response.
            logger.warning("ignored an event that is not an HTTP request, with these keys: %s", sorted(event))
            return None
        opener = self._stream_opener(context) if self.stream else None
        output = Streamed(opener) if opener else Buffered(limit=None if self.stream else BUFFERED_BYTES)
        cycle = ResponseCycle(handler.scope, handler.body, output, _available_seconds(context))
        try:
            _event_loop().run_until_complete(cycle(self.app))
        except TooLarge:
            return handler(_answer_with(too_large_error(self._remedy)))
        except Exception as error:
            if self.stream:
                raise
            logger.exception("the ASGI app raised an exception")
            is_late = isinstance(error, DeadlineReached)
            return handler(_answer_with(_too_slow_error(self._remedy) if is_late else DeltaicError("")))
        if isinstance(output, Streamed):
            return None
        if self.stream:
            return prelude(output.status, output.headers) + output.body
        answer = handler({"status": output.status, "headers": output.headers, "body": bytes(output.body)})
        return answer if _fits_limit(answer) else handler(_answer_with(too_large_error(self._remedy)))

    def _stream_opener(self, context: Any) -> Opener | None:
        context_opener: Opener | None = getattr(context, "open_response_stream", None)
        runtime = self._runtime
        if context_opener is not None or runtime is None:
            return context_opener
        return lambda: runtime.open(context.aws_request_id)


def _event_loop() -> asyncio.AbstractEventLoop:
    """Return this thread's event loop, which is reused by all invocations, as in Mangum."""
    try:
        return asyncio.get_event_loop()
    except RuntimeError:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        return loop


def _available_seconds(context: Any) -> float:
    remaining_millis: Callable[[], int] | None = getattr(context, "get_remaining_time_in_millis", None)
    if remaining_millis is None:
        return UNLIMITED_SECONDS
    remaining = remaining_millis() / 1000
    return max(remaining - min(MARGIN_SECONDS, remaining / 4), 0.0)


def _fits_limit(answer: dict[str, Any]) -> bool:
    """Return whether the proxy response, encoded as JSON, is within Lambda's limit of 6 MB."""
    if len(answer["body"]) * 6 < BUFFERED_BYTES // 2:  # no escape is longer than six bytes
        return True
    return len(json.dumps(answer, ensure_ascii=False).encode()) <= BUFFERED_BYTES


def too_large_error(remedy: str) -> DeltaicError:
    """Return the error for a buffered response above 6 MB: no 5xx, because a retry would not help."""
    return UnsupportedOperation(
        f"The response is larger than the 6 MB that this server can send without streaming. {remedy}",
        "deploy with ResponseStreaming=enabled",
    )


def _too_slow_error(remedy: str) -> DeltaicError:
    return UnsupportedOperation(f"The response was not ready before the time limit of this server. {remedy}")


def _answer_with(error: DeltaicError) -> Any:
    answer = error_response(error)
    headers = [[name.encode("latin-1"), value.encode("latin-1")] for name, value in answer.headers.items()]
    return {"status": answer.status, "headers": headers, "body": answer.body}
