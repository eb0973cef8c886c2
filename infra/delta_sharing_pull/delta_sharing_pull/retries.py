"""Repeat a request that failed temporarily, for example because a server was busy or a connection broke."""

import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from delta_sharing_pull.errors import PullError, Unavailable

PAUSES: Final = (0.5, 2.0, 8.0, 20.0)
"""Seconds before each further attempt, unless the server sends Retry-After."""
_MAX_PAUSE: Final = 120.0
_T = TypeVar("_T")


def retry(attempt: Callable[[], _T], pauses: Sequence[float] = PAUSES, temporary: type[PullError] = Unavailable) -> _T:
    """Return the result of `attempt`, repeated after each pause while it raises a `temporary` error."""
    for pause in pauses:
        try:
            return attempt()
        except temporary as error:
            time.sleep(min(getattr(error, "retry_after", None) or pause, _MAX_PAUSE))
    return attempt()
