"""Decides what a state folder (`.deltaic`) tells: who uses it now, and how others reach the AWS that runs in it."""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

RUNNING = "aws.json"
LOCK = "lock"


class StateInUse(Exception):
    """Another process serves from this folder."""


@contextmanager
def locked(state: Path) -> Iterator[None]:
    """Hold the folder for this process; raises StateInUse with the other one's id. The kernel frees it with us."""
    state.mkdir(parents=True, exist_ok=True)
    with (state / LOCK).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            raise StateInUse(
                f"{state} is in use by process {holder}. Stop it (Ctrl-C, or kill {holder}), or choose another folder "
                "with --state."
            ) from error
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


@contextmanager
def announced(state: Path, endpoint: str, pid: int, environment: Mapping[str, str]) -> Iterator[None]:
    """Tell other processes how to reach the embedded AWS, for as long as it runs."""
    known = {"endpoint": endpoint, "pid": pid, "environment": dict(environment)}
    path, fresh = state / RUNNING, state / f"{RUNNING}.new"
    fresh.touch(mode=0o600)
    fresh.write_text(json.dumps(known, indent=2) + "\n")
    fresh.replace(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def running(state: Path) -> Mapping[str, str] | None:
    """Return the variables with which the folder's running embedded AWS is reached; None if none runs."""
    try:
        known: dict[str, Any] = json.loads((state / RUNNING).read_text())
        os.kill(int(known["pid"]), 0)
    except (OSError, KeyError, ValueError):
        return None
    environment: dict[str, str] = known["environment"]
    return environment
