"""The console's server: a port of this machine that nobody else's machine reaches, until it is told to stop."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from deltaic_ops.console.application import application
from deltaic_ops.console.desk import Desk
from deltaic_ops.console.entrance import Entrance
from deltaic_ops.console.provider import Provider
from deltaic_ops.local.embedded import bound

_STOP_SECONDS = 2


@contextmanager
def console(provider: Provider, port: int, told: Callable[[str], None]) -> Iterator[str]:
    """Serve the console as long as the block lasts; gives its address, and tells each link that lets somebody in.

    The key stands in the link's fragment, which no browser sends to anybody. Raises OSError for a port that is taken.
    """
    listener = bound(port)
    taken = listener.getsockname()[1]
    address = f"http://127.0.0.1:{taken}"
    desk = Desk(provider)
    entrance = Entrance(lambda key: told(f"{address}/#{key}"))
    config = uvicorn.Config(
        application(desk, entrance, taken),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=_STOP_SECONDS,
    )
    server = uvicorn.Server(config)
    listener.listen()
    thread = threading.Thread(target=server.run, args=([listener],), name="console", daemon=True)
    thread.start()
    try:
        yield address
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
