"""Repeat a request after a temporary failure, for example of a busy server or a connection."""

import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from delta_sharing_pull.errors import PullError, Unavailable

PAUSES: Final = (0.5, 2.0, 8.0, 20.0)
"""Seconds to wait before each further attempt, unless the server sends Retry-After."""
_MAX_PAUSE: Final = 120.0
_T = TypeVar("_T")


def retry(attempt: Callable[[], _T], pauses: Sequence[float] = PAUSES, temporary: type[PullError] = Unavailable) -> _T:
    """Call `attempt` and return its result; after a `temporary` error, wait for the next pause and call it again."""
    for pause in pauses:
        try:
            return attempt()
        except temporary as error:
            time.sleep(min(getattr(error, "retry_after", None) or pause, _MAX_PAUSE))
    return attempt()
