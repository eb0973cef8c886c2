"""Lock of a local folder, which permits only one download to it at a time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from delta_sharing_pull.errors import Conflict

STATE_FOLDER: Final = ".deltaic-pull"
"""Name of the subfolder for incomplete files and state. Delta readers ignore names that start with a period."""


@contextmanager
def lock_folder(folder: Path) -> Iterator[Path]:
    """Create and lock a folder, and yield its state folder; raises Conflict if another process has locked it."""
    state = folder / STATE_FOLDER
    state.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(state / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(f"Another download to {folder} is running: wait until it ends") from None
        yield state
