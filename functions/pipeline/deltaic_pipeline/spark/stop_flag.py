"""Flag for stop requests by SIGINT and SIGTERM, for commands that finish their current work first."""

import signal
import time


class StopFlag:
    """Flag that is set when a stop was requested.

    Python can run a signal handler between any two instructions of the main thread, even within the same handler. So a
    request only sets an attribute; the lock of threading.Event could block forever.
    """

    def __init__(self, *, interrupts: bool = False) -> None:
        self.interrupts = interrupts
        """Whether the first request raises KeyboardInterrupt, for the time before any code checks the flag."""
        self._requested = False

    def request(self, *_: object) -> None:
        """Request a stop; can be a callback or signal handler. Requests after the first have no effect."""
        repeated, self._requested = self._requested, True
        if self.interrupts and not repeated:
            raise KeyboardInterrupt

    def handle_signals(self) -> None:
        """Treat SIGINT and SIGTERM as stop requests from now on; call this in the main thread."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.request)

    def wait(self, seconds: float) -> bool:
        """Sleep for some seconds, unless a stop was already requested; return whether one is requested now."""
        if not self._requested:
            time.sleep(seconds)
        return self._requested
