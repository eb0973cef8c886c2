"""How far a pull is, told to whoever shows it; and how its threads are stopped."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock
from typing import Final, TypeVar

PARALLEL: Final = 8
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Stopped(Exception):
    """The pull has ended: what is still being fetched is left for the next one."""


class Tally:
    """Counts of one pull. May be told from several threads; `shown` is called after each change."""

    def __init__(self, shown: "Callable[[Tally], None]" = lambda _: None) -> None:
        self._shown = shown
        self._lock = Lock()
        self._stopped = False
        self.files = self.files_expected = self.bytes = self.bytes_expected = 0

    def expect(self, files: int, size: int) -> None:
        """Say that there is more to fetch."""
        with self._lock:
            self.files_expected += files
            self.bytes_expected += size
        self._shown(self)

    def brought(self, size: int) -> None:
        """Say that bytes came; raises Stopped where nobody waits for more."""
        if self._stopped:
            raise Stopped
        with self._lock:
            self.bytes += size
        self._shown(self)

    def finished(self) -> None:
        """Say that a file is in its place."""
        with self._lock:
            self.files += 1
        self._shown(self)

    @contextmanager
    def ahead(self, items: Iterable[_Item], work: Callable[[_Item], _Result]) -> Iterator[Iterator[_Result]]:
        """Give what work makes of each item, in order, some items ahead of whoever takes them; stops at an error.

        Its threads end with the block. A generator would wait for them where the garbage collector finds it: in a
        thread that is just starting, for ever.
        """
        self._stopped = False
        running: deque[Future[_Result]] = deque()
        pool = ThreadPoolExecutor(PARALLEL)

        def results() -> Iterator[_Result]:
            for item in items:
                if len(running) >= 2 * PARALLEL:
                    yield running.popleft().result()
                running.append(pool.submit(work, item))
            while running:
                yield running.popleft().result()

        try:
            yield results()
        finally:
            self._stopped = bool(running)
            pool.shutdown(cancel_futures=True)
