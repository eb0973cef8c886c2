"""A streaming function: `slow` with pauses, `many` fast, `fails` amid or `late` (before it begins), `plain` never."""

import asyncio
from typing import Any

from deltaic.http.asgi import Receive, Scope, Send
from deltaic.http.streaming import StreamingMangum

STOPPED: list[int] = []


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    kind = scope["path"].rpartition("/")[2]
    body: bytes = (await receive())["body"]
    if kind == "late":
        raise LookupError("secret-of-the-function")
    headers = [(b"content-type", b"application/x-ndjson"), (b"x-two", b"a"), (b"x-two", b"b")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    if kind == "stopped":
        body = b"%d" % STOPPED.pop()
        await send({"type": "http.response.body", "body": body})
        return
    sent = 0
    try:
        while kind == "endless" or sent < 20:
            await send(
                {"type": "http.response.body", "body": body * (2_000 if kind != "slow" else 1), "more_body": True}
            )
            sent += 1
            if kind == "slow":
                await asyncio.sleep(0.02)
            if kind == "fails" and sent == 5:
                raise LookupError("secret-of-the-function")
    except OSError:
        STOPPED.append(sent)
        raise
    await send({"type": "http.response.body", "body": b"", "more_body": False})


STREAMS: Any = StreamingMangum(app, stream=True)


def handler(event: dict[str, Any], context: Any) -> Any:
    if event["path"].endswith("/plain"):
        return {"statusCode": 200, "body": "not a stream"}
    if event["path"].endswith("/whole"):
        return STREAMS(event, object())  # a runtime that cannot stream
    return STREAMS(event, context)
