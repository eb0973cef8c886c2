"""What takes longer than a page may: it runs beside the pages, says how far it is, and is asked for again."""

import math
import time
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import BoundedSemaphore, Lock, Thread
from traceback import print_exc
from typing import Any, Final

from deltaic.errors import DeltaicError, Unavailable

PATIENCE_SECONDS: Final = 0.5
"""How long a page waits for it at once."""

FRESH_SECONDS: Final = 30.0
"""How old a result may be that a page shows which did not ask for it."""

_AT_ONCE: Final = 4
_LINES: Final = 12
"""That a page shows of what a work says."""

_MOST: Final = 64
"""Results that are kept; of more, the oldest go."""

Say = Callable[[str], None]
"""Is told how far a work is."""


@dataclass(slots=True)
class Work:
    """One thing that is being found out, or was."""

    title: str
    future: "Future[Any]" = field(default_factory=Future)
    said: deque[str] = field(default_factory=lambda: deque(maxlen=_LINES))
    began: float = field(default_factory=time.time)

    @property
    def is_done(self) -> bool:
        """Whether its result, or what it raised, is there."""
        return self.future.done()

    def outcome(self) -> tuple[Any, str]:
        """Return what a work has found, or None and why it was refused."""
        try:
            return self.future.result(), ""
        except DeltaicError as refusal:
            return None, refusal.message

    @property
    def seconds(self) -> int:
        """Since when it runs."""
        return int(time.time() - self.began)


class Works:
    """The works of one console, by what they find out. May be asked from several threads.

    Their threads end with the process, whatever they are about: nobody waits for them any more then.
    """

    def __init__(self) -> None:
        self._places = BoundedSemaphore(_AT_ONCE)
        self._lock = Lock()
        self._known: dict[Hashable, Work] = {}

    def begun(self, key: Hashable, title: str, run: Callable[[Say], Any], *, older: float = math.inf) -> Work:
        """Return the work of this key, begun now if there is none, or only one that is done and older, in seconds."""
        with self._lock:
            known = self._known.get(key)
            if known is None or (known.is_done and time.time() - known.began > older):
                known = self._known[key] = Work(title)
                Thread(target=self._run, args=(known, run), name="console work", daemon=True).start()
                for oldest in [each for each, work in self._known.items() if work.is_done][:-_MOST]:
                    del self._known[oldest]
            return known

    def known(self, key: Hashable) -> Work | None:
        """Return a work that was begun, if it was."""
        return self._known.get(key)

    def taken(self, key: Hashable) -> None:
        """Forget a work, whose result was shown: the next page finds out anew."""
        with self._lock:
            self._known.pop(key, None)

    def _run(self, work: Work, run: Callable[[Say], Any]) -> None:
        with self._places:
            try:
                work.future.set_result(run(work.said.append))
            except DeltaicError as refusal:
                work.future.set_exception(refusal)
            except Exception as error:  # noqa: BLE001 -- pages know refusals alone, and offer to try again
                print_exc()
                why = f"this failed unexpectedly ({type(error).__name__}): the terminal of the console shows where"
                work.future.set_exception(Unavailable(why))
