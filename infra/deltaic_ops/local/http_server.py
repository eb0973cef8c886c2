"""Decides which connections a loopback port serves: a thread for each, and never more than the process has files for.

Where all places are taken, the connection that has waited for its client the longest gives up its place: whoever only
holds connections open, or has stopped reading, keeps nobody else out (decision 45).
"""

import contextlib
import logging
import resource
import socket
import threading
import time
from collections.abc import Callable
from typing import Self

from deltaic_ops.local.http_connection import Connection, Exchange, Patience

logger = logging.getLogger(__name__)

BACKLOG = 128
STOP_SECONDS = 5.0
CONNECTIONS = 1000
"""The most places, where the process may open files enough."""
IDLE_SECONDS = 0.25
GRACE_SECONDS = 1.0
"""How long a client is waited for between requests and in the middle of one before its place can be given away."""

_RESERVED_FILES = 64
_FILES_EACH = 6
"""A connection's own, the three of the event loop that its thread's function runs in, two to AWS."""
_PAUSE_SECONDS = 0.05


def places() -> int:
    """Return how many connections there may be at once, so that each finds the files that its answer takes."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = 2**20 if soft == resource.RLIM_INFINITY else soft
    return max(min((files - _RESERVED_FILES) // _FILES_EACH, CONNECTIONS), 8)


def bound(port: int = 0) -> socket.socket:
    """Take a loopback port (0: a free one); it refuses connections until the socket listens. Raises OSError."""
    taken = socket.socket()
    try:
        # The connections that an earlier server has closed must not keep the port. Two sockets may then take it before
        # one of them listens; for the other, listening is an OSError.
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
    except OSError:
        taken.close()
        raise
    return taken


class HttpServer:
    """A server on a loopback port, which opens as the block of this context manager begins."""

    def __init__(
        self,
        handle: Callable[[Exchange], None],
        listener: socket.socket | None = None,
        *,
        connections: int | None = None,
        patience: Patience | None = None,
    ) -> None:
        """Serve what comes to `listener`, a socket that is bound; a free port if there is none."""
        self._handle = handle
        self._listener = listener or bound()
        self._places = connections or places()
        self._patience = patience or Patience()
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self._open: set[Connection] = set()
        self._changed = threading.Condition()
        self._stopping = threading.Event()

    def __enter__(self) -> Self:
        """Open the port; raises OSError if another server has opened it since it was bound."""
        self._listener.listen(BACKLOG)
        threading.Thread(target=self._accept, name="gateway", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take no more connections, let answers under way end (for STOP_SECONDS), then close."""
        self._stopping.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        deadline = time.monotonic() + STOP_SECONDS
        with self._changed:
            while any(not each.idle for each in self._open) and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(min(left, _PAUSE_SECONDS))
            for each in self._open:
                each.reset()

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                sock, client = self._listener.accept()
            except OSError as error:
                if self._stopping.is_set():
                    return
                # No file is left (EMFILE), or the client has left before its turn: neither ends the server.
                logger.warning("a connection could not be taken: %s", error.strerror)
                self._give_a_place_away()
                time.sleep(_PAUSE_SECONDS)
                continue
            connection = Connection(sock, client[:2], self.address, self._handle, self._patience)
            self._wait_for_a_place(connection)
            try:
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()
            except RuntimeError as error:  # no thread is left
                logger.warning("a connection could not be served: %s", error)
                self._forget(connection)
                sock.close()

    def _wait_for_a_place(self, connection: Connection) -> None:
        with self._changed:
            while len(self._open) >= self._places and not self._stopping.is_set():
                self._give_a_place_away()
                self._changed.wait(_PAUSE_SECONDS)
            self._open.add(connection)

    def _give_a_place_away(self) -> None:
        """Break off the connection that has waited for its client the longest, if one has waited long enough."""
        with self._changed:
            now = time.monotonic()
            waiting = [
                (since, id(each), each)
                for each in self._open
                if (since := each.waiting_since) is not None
                and now - since > (IDLE_SECONDS if each.idle else GRACE_SECONDS)
            ]
            if waiting:
                min(waiting)[2].reset()

    def _serve(self, connection: Connection) -> None:
        try:
            connection.serve()
        except Exception:
            logger.exception("a connection failed")
        finally:
            self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        with self._changed:
            self._open.discard(connection)
            self._changed.notify_all()
