"""Asks again what failed in passing: a busy server, a broken connection."""

import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from delta_sharing_pull.errors import PullError, Unavailable

PAUSES: Final = (0.5, 2.0, 8.0, 20.0)
"""Seconds before each further attempt, unless the server names its own."""
_LONGEST: Final = 120.0
_T = TypeVar("_T")


def patiently(
    attempt: Callable[[], _T], pauses: Sequence[float] = PAUSES, passing: type[PullError] = Unavailable
) -> _T:
    """Return what an attempt returns, made again after each pause while it raises an error that may pass."""
    for pause in pauses:
        try:
            return attempt()
        except passing as error:
            time.sleep(min(getattr(error, "retry_after", None) or pause, _LONGEST))
    return attempt()
