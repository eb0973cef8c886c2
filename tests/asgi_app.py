"""Call an endpoint's ASGI app without a gateway, and collect its messages."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from deltaic.http.asgi import Message
from deltaic.http.edge import UseCase, application
from deltaic.http.streaming import DeadlineReached

FAILED = b"!aborted\n"
T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run on a separate event loop, because `asyncio.run` would replace the loop of other tests' handlers."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


def scope(**headers: str) -> dict[str, Any]:
    """Return the scope that Mangum creates for an authorized request."""
    return {
        "type": "http",
        "method": "POST",
        "path": "/x",
        "query_string": b"",
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
        "aws.event": {
            "requestContext": {
                "authorizer": {"recipientId": "alice", "tokenId": "t"},
                "identity": {"sourceIp": "203.0.113.7"},
                "requestId": "q-1",
            }
        },
    }


def answer_of(
    use_case: UseCase,
    *,
    stream: bool,
    refuse_after: int | None = None,
    most_bytes: int = 0,
    page_bytes: int = 0,
    **headers: str,
) -> tuple[list[Message], Exception | None]:
    """Run the app; after `refuse_after` messages, `send` raises DeadlineReached once."""
    sent: list[Message] = []
    raised = False

    async def send(message: Message) -> None:
        nonlocal raised
        if refuse_after is not None and len(sent) >= refuse_after and not raised:
            raised = True
            raise DeadlineReached
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    try:
        app = application("test", use_case, stream=stream, most_bytes=most_bytes, page_bytes=page_bytes)
        run(app(scope(**headers), receive, send))
    except Exception as error:  # noqa: BLE001 -- the test checks the exception
        return sent, error
    return sent, None


def body_of(sent: list[Message]) -> bytes:
    return b"".join(message.get("body", b"") for message in sent[1:])
