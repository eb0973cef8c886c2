"""Stop requests by SIGINT and SIGTERM for commands that end in order."""

import signal
import time


class StopFlag:
    """Whether a stop was requested.

    Python runs a signal handler between two instructions of the main thread, which may be those of the same handler.
    So a request takes no lock, which threading.Event would: it sets an attribute.
    """

    def __init__(self, *, interrupts: bool = False) -> None:
        self.interrupts = interrupts
        """Whether the first request raises KeyboardInterrupt, because nothing checks the flag yet."""
        self._requested = False

    def request(self, *_: object) -> None:
        """Request a stop: a callback, or a signal handler. Later requests do not disturb the stop that is under way."""
        repeated, self._requested = self._requested, True
        if self.interrupts and not repeated:
            raise KeyboardInterrupt

    def handle_signals(self) -> None:
        """Take SIGINT and SIGTERM as requests from now on; call this in the main thread."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.request)

    def wait(self, seconds: float) -> bool:
        """Sleep, unless a stop was requested before; return whether it is requested now."""
        if not self._requested:
            time.sleep(seconds)
        return self._requested
