"""The console's server: a port of this machine that nobody else's machine reaches, until it is told to stop."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from deltaic_ops.console.application import application
from deltaic_ops.console.desk import Desk
from deltaic_ops.console.entrance import Entrance
from deltaic_ops.console.provider import Provider
from deltaic_ops.local.embedded import bound
from deltaic_ops.local.http_server import serving


@contextmanager
def console(provider: Provider, port: int, told: Callable[[str], None]) -> Iterator[str]:
    """Serve the console as long as the block lasts; gives its address, and tells each link that lets somebody in.

    The key stands in the link's fragment, which no browser sends to anybody. Raises OSError for a port that is taken.
    """
    with bound(port) as listener:
        taken = listener.getsockname()[1]
        address = f"http://127.0.0.1:{taken}"
        entrance = Entrance(lambda key: told(f"{address}/#{key}"))
        with serving(application(Desk(provider), entrance, taken), listener):
            yield address
