"""Asks again what failed in passing: a busy server, a broken connection."""

import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from deltaic.errors import TooManyRequests, Unavailable

PAUSES: Final = (0.5, 2.0, 8.0, 20.0)
"""Seconds before each further attempt, unless the server names its own."""
_LONGEST: Final = 120.0
_T = TypeVar("_T")


def patiently(attempt: Callable[[], _T], pauses: Sequence[float] = PAUSES) -> _T:
    """Return what an attempt returns, made again after each pause while it raises TooManyRequests or Unavailable."""
    for pause in pauses:
        try:
            return attempt()
        except TooManyRequests as busy:
            time.sleep(min(busy.retry_after or pause, _LONGEST))
        except Unavailable:
            time.sleep(pause)
    return attempt()
