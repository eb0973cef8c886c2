"""Count the progress of one download, and run its work in threads."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock
from typing import Final, TypeVar

THREADS: Final = 8
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Stopped(Exception):
    """The download has ended, so its threads stop. The next download continues incomplete files."""


class Progress:
    """Thread-safe counters of a download's files and bytes. Each change calls `on_change`."""

    def __init__(self, on_change: "Callable[[Progress], None]" = lambda _: None) -> None:
        self._on_change = on_change
        self._lock = Lock()
        self._stopped = False
        self.files = self.files_expected = self.bytes = self.bytes_expected = 0

    def expect(self, files: int, size: int) -> None:
        """Add a number of files, and their total size in bytes, to the expected total of the download."""
        with self._lock:
            self.files_expected += files
            self.bytes_expected += size
        self._on_change(self)

    def add_bytes(self, size: int) -> None:
        """Count downloaded bytes; raises Stopped if the download has ended."""
        if self._stopped:
            raise Stopped
        with self._lock:
            self.bytes += size
        self._on_change(self)

    def add_file(self) -> None:
        """Count a file whose download is complete."""
        with self._lock:
            self.files += 1
        self._on_change(self)

    @contextmanager
    def parallel(self, items: Iterable[_Item], work: Callable[[_Item], _Result]) -> Iterator[Iterator[_Result]]:
        """Run `work` on each item in several threads, and yield the results in order.

            At most twice as many items as threads are in progress. The threads end with the `with` block. A
        generator that waits for threads could deadlock: garbage collection may close it in one of the threads.
        """
        self._stopped = False
        running: deque[Future[_Result]] = deque()
        pool = ThreadPoolExecutor(THREADS)

        def results() -> Iterator[_Result]:
            for item in items:
                if len(running) >= 2 * THREADS:
                    yield running.popleft().result()
                running.append(pool.submit(work, item))
            while running:
                yield running.popleft().result()

        try:
            yield results()
        finally:
            self._stopped = bool(running)
            pool.shutdown(cancel_futures=True)
