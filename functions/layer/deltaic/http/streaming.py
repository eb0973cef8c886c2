"""Decides whether an ASGI app's answer leaves a Lambda function chunk by chunk or whole.

`StreamingMangum` is Mangum (its events, scopes, bodies and answers) with another response cycle (response_cycle.py).
With `stream` the first bytes leave when the app sends them, behind the prelude that API Gateway wants. Where nobody
here can stream, because AWS's client is not as it was known, the same bytes leave whole: later, but right.

Without `stream` the answer is a buffered one as API Gateway's Lambda proxy integration wants it; one that does not fit
Lambda's 6 MB is refused with the remedy, never cut.
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
from deltaic.http.response_cycle import AnswerTooLarge, DeadlineReached, Opener, ResponseCycle, Streamed, Whole, prelude
from deltaic.http.runtime_stream import find_runtime
from deltaic.platform_limits import BUFFERED_BYTES

__all__ = ["FEWER_FILES", "DeadlineReached", "StreamingMangum", "answer_too_large"]

logger = logging.getLogger(__name__)

TEXT_TYPES = ["text/", "application/json", "application/x-ndjson"]
"""Mangum answers these as text; without NDJSON among them the client would receive base64."""

MARGIN_SECONDS = 2.0
"""How long before the function's time limit an answer is ended in order; a quarter of what is left, if that is less."""

UNLIMITED_SECONDS = 900.0

FEWER_FILES = (
    "Ask for it in pages (maxFiles, then pageToken) or for fewer files (predicateHints, limitHint); its provider can "
    "lift the limit by streaming."
)
"""What helps where an answer names files."""


class StreamingMangum(Mangum):
    """The Lambda handler of an ASGI app: `handler = StreamingMangum(app, stream=True)`.

    It streams if the context offers it (`open_response_stream`, as the local gateway's does) or if AWS's client in
    this process could be hooked. Construct it while the function's module is imported, before other tools patch the
    client: a client that somebody else has patched is left alone.
    """

    def __init__(
        self,
        app: App,
        *,
        stream: bool,
        remedy: str = "Let it be compressed (Accept-Encoding: gzip), or ask for less at a time (maxResults).",
    ) -> None:
        """`remedy` is what a client can do about an answer that is too large or takes too long."""
        super().__init__(app, lifespan="off", text_mime_types=TEXT_TYPES)  # type: ignore[arg-type]
        self.stream = stream
        self._remedy = remedy
        self._runtime = find_runtime() if stream else None

    def __call__(self, event: dict[str, Any], context: Any) -> Any:
        """Answer one invocation; returns None if a stream has, else a proxy answer or, with `stream`, its raw bytes.

        With `stream` an exception before the first byte is raised: the function fails, the caller gets a 5xx.
        """
        try:
            handler = self.infer(event, context)
        except RuntimeError:
            # Nothing was asked over HTTP (a warm-up, a notice of the platform), so nothing need be answered.
            logger.warning("the event is not an HTTP request; its keys: %s", sorted(event))
            return None
        opener = self._opener(context) if self.stream else None
        out = Streamed(opener) if opener else Whole(limit=None if self.stream else BUFFERED_BYTES)
        cycle = ResponseCycle(handler.scope, handler.body, out, _seconds_left(context))
        try:
            _event_loop().run_until_complete(cycle(self.app))
        except AnswerTooLarge:
            return handler(_error(answer_too_large(self._remedy)))
        except Exception as error:
            if self.stream:
                raise
            logger.exception("the app failed")
            return handler(_error(_in_time(self._remedy) if isinstance(error, DeadlineReached) else DeltaicError("")))
        if isinstance(out, Streamed):
            return None
        if self.stream:
            return prelude(out.status, out.headers) + out.body
        answer = handler({"status": out.status, "headers": out.headers, "body": bytes(out.body)})
        return answer if _fits(answer) else handler(_error(answer_too_large(self._remedy)))

    def _opener(self, context: Any) -> Opener | None:
        offered: Opener | None = getattr(context, "open_response_stream", None)
        runtime = self._runtime
        if offered is not None or runtime is None:
            return offered
        return lambda: runtime.open(context.aws_request_id)


def _event_loop() -> asyncio.AbstractEventLoop:
    """Return this thread's event loop, as Mangum does: it outlives the invocation."""
    try:
        return asyncio.get_event_loop()
    except RuntimeError:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        return loop


def _seconds_left(context: Any) -> float:
    left_in_millis: Callable[[], int] | None = getattr(context, "get_remaining_time_in_millis", None)
    if left_in_millis is None:
        return UNLIMITED_SECONDS
    left = left_in_millis() / 1000
    return max(left - min(MARGIN_SECONDS, left / 4), 0.0)


def _fits(answer: dict[str, Any]) -> bool:
    """Tell whether the proxy answer fits Lambda's limit as the JSON document that Lambda counts."""
    if len(answer["body"]) * 6 < BUFFERED_BYTES // 2:  # no escape is longer than six bytes
        return True
    return len(json.dumps(answer, ensure_ascii=False).encode()) <= BUFFERED_BYTES


def answer_too_large(remedy: str) -> DeltaicError:
    """Return the refusal of a buffered answer over BUFFERED_BYTES: permanent, so no 5xx, and with the remedy."""
    return UnsupportedOperation(
        f"The answer is larger than the 6 MB that this server can send in one piece. {remedy}",
        "deploy with ResponseStreaming=enabled",
    )


def _in_time(remedy: str) -> DeltaicError:
    return UnsupportedOperation(f"The answer was not ready in the time that this server has. {remedy}")


def _error(error: DeltaicError) -> Any:
    answer = error_response(error)
    headers = [[name.encode("latin-1"), value.encode("latin-1")] for name, value in answer.headers.items()]
    return {"status": answer.status, "headers": headers, "body": answer.body}
