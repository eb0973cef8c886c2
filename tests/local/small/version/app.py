"""A buffered function under Mangum, reached by GET and by HEAD."""

from typing import Any

from deltaic.http.asgi import Receive, Scope, Send
from mangum import Mangum


async def app(scope: Scope, _: Receive, send: Send) -> None:
    table = scope["path"].split("/")[2].encode().hex()
    headers = [(b"delta-table-version", b"7"), (b"x-table", table.encode()), (b"www-authenticate", b"Basic")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


handler: Any = Mangum(app, lifespan="off")  # type: ignore[arg-type]  # our scope is a mapping
