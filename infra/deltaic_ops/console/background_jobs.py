"""Run the console's slow reads and commands in background threads, and keep their results in memory."""

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

MAX_WAIT_SECONDS: Final = 0.5
"""Time that a request waits for a job before it returns a progress page."""

MAX_AGE_SECONDS: Final = 30.0
"""Maximum age of a result that a page reuses; if the result is older, the page starts the job again."""

LONG_AGE_SECONDS: Final = 300.0
"""Maximum age of a result that takes long to read."""

_MAX_RUNNING: Final = 4
_MAX_MESSAGES: Final = 12
_MAX_RESULTS: Final = 64
"""Maximum number of finished jobs in memory; the oldest are dropped."""

ReportProgress = Callable[[str], None]
"""Function that a job calls with each progress message."""


@dataclass(slots=True)
class BackgroundJob:
    """A function that runs in a background thread or has finished, with its progress messages."""

    title: str
    future: "Future[Any]" = field(default_factory=Future)
    messages: deque[str] = field(default_factory=lambda: deque(maxlen=_MAX_MESSAGES))
    started_at: float = field(default_factory=time.time)

    @property
    def is_done(self) -> bool:
        """Return whether the job has finished, with a result or an error."""
        return self.future.done()

    def result(self) -> tuple[Any, str]:
        """Return the job's result and an empty string, or None and its error message."""
        try:
            return self.future.result(), ""
        except DeltaicError as error:
            return None, error.message

    @property
    def seconds(self) -> int:
        """Seconds since the job started."""
        return int(time.time() - self.started_at)


class BackgroundJobs:
    """Thread-safe registry of a console's background jobs by key; their daemon threads end with the process."""

    def __init__(self) -> None:
        self._slots = BoundedSemaphore(_MAX_RUNNING)
        self._lock = Lock()
        self._jobs: dict[Hashable, BackgroundJob] = {}

    def start(
        self, key: Hashable, title: str, function: Callable[[ReportProgress], Any], *, max_age: float = math.inf
    ) -> BackgroundJob:
        """Return the job of a key; start it if none exists or its result is older than `max_age` seconds."""
        with self._lock:
            job = self._jobs.get(key)
            if job is None or (job.is_done and time.time() - job.started_at > max_age):
                job = self._jobs[key] = BackgroundJob(title)
                Thread(target=self._run, args=(job, function), name="console job", daemon=True).start()
                for oldest in [name for name, other in self._jobs.items() if other.is_done][:-_MAX_RESULTS]:
                    del self._jobs[oldest]
            return job

    def get(self, key: Hashable) -> BackgroundJob | None:
        """Return the job of a key; None if no job with this key was started."""
        return self._jobs.get(key)

    def forget(self, key: Hashable) -> None:
        """Remove a job whose result was shown, so that the next page runs it again."""
        with self._lock:
            self._jobs.pop(key, None)

    def _run(self, job: BackgroundJob, function: Callable[[ReportProgress], Any]) -> None:
        with self._slots:
            try:
                job.future.set_result(function(job.messages.append))
            except DeltaicError as error:
                job.future.set_exception(error)
            except Exception as error:  # noqa: BLE001 -- pages show only DeltaicError, and offer to try again
                print_exc()
                message = f"unexpected error ({type(error).__name__}): see the traceback in the terminal of the console"
                job.future.set_exception(Unavailable(message))
