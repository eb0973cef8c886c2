"""One pull at a time in a folder."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from delta_sharing_pull.errors import Conflict

OWN: Final = ".deltaic-pull"
"""The folder in which a pull keeps what is not yet whole, and what it knows; readers of Delta pass over such a name."""


@contextmanager
def alone(folder: Path) -> Iterator[Path]:
    """Hold a folder, made if need be, and yield the pull's own in it; raises Conflict if another pull holds it."""
    own = folder / OWN
    own.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(own / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(f"another pull is at work in {folder}: wait until it has ended") from None
        yield own
