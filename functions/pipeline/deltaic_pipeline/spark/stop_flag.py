"""Stop requests by SIGINT and SIGTERM, for commands that finish their current work first."""

import signal
import time


class StopFlag:
    """Flag that a stop was requested.

    Python can run a signal handler at any instruction of the main thread, also inside the same handler. So a request
    only sets an attribute, without a lock as in threading.Event.
    """

    def __init__(self, *, interrupts: bool = False) -> None:
        self.interrupts = interrupts
        """Whether the first request raises KeyboardInterrupt, because nothing checks the flag yet."""
        self._requested = False

    def request(self, *_: object) -> None:
        """Request a stop; usable as a callback and as a signal handler. Later requests have no effect."""
        repeated, self._requested = self._requested, True
        if self.interrupts and not repeated:
            raise KeyboardInterrupt

    def handle_signals(self) -> None:
        """Treat SIGINT and SIGTERM as stop requests from now on; call this in the main thread."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.request)

    def wait(self, seconds: float) -> bool:
        """Sleep, unless a stop was requested before; return whether a stop is requested now."""
        if not self._requested:
            time.sleep(seconds)
        return self._requested
