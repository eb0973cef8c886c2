"""Lock and announcement of a state folder (`.deltaic`): who uses it now, how others reach the AWS that runs in it.

Whoever uses the folder holds its lock, and a server that is ready is announced beside it. So who meets a held folder
waits for the one or the other: for the announcement, or for the lock. A server that is starting says so in the lock,
because whoever waits for it must not take its end for an ordinary one.
"""

import fcntl
import json
import os
import shlex
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from deltaic_ops.local.private import (
    StateUnusable,
    is_this_machine,
    private_folder,
    read_private,
    unusable,
    write_private,
)

RUNNING = "aws.json"
LOCK = "lock"
STARTING = "starting"

WAIT_SECONDS = 90.0
"""How long the folder is waited for: longer than a server may take to start."""
TELL_SECONDS = 1.0
_POLL_SECONDS = 0.05

_TOLD = (
    *("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_DEFAULT_REGION"),
    *("CATALOG_TABLE", "TOKENS_TABLE", "TOKEN_KEY_SECRET", "SIGNING_ROLE_ARN", "ICEBERG_BUCKET"),
    "DELTAIC_ENDPOINT",
)
"""The variables that an announcement may set: others could lead programs to load or run what its writer likes."""


class StateInUse(StateUnusable):
    """Another process uses this folder; `environment` tells how to reach the AWS in it, None if it is not announced."""

    def __init__(self, message: str, environment: Mapping[str, str] | None) -> None:
        super().__init__(message)
        self.environment = environment


class _Holder(NamedTuple):
    pid: str
    """Empty if it has ended, and processes of its own hold the folder until they have."""
    starting: bool


@contextmanager
def locked(state: Path, *, to_serve: bool = False, seconds: float = WAIT_SECONDS) -> Iterator[int]:
    """Hold the folder for this process; yields the lock's file descriptor. With `to_serve`, it is a starting server's.

    Raises StateInUse if a server runs here (at once), or if the folder is still held after `seconds`; StateUnusable if
    a server that was starting has ended instead (unless to serve is what is wanted), or the folder cannot be written.
    The kernel frees the folder when this process has ended, and every other that was handed the descriptor.
    """
    private_folder(state)
    with _open_lock(state) as lock:
        _wait(state, lock, to_serve=to_serve, seconds=seconds)
        _hold(state, f"{os.getpid()} {STARTING}" if to_serve else str(os.getpid()))
        try:
            yield lock.fileno()
        finally:
            lock.truncate(0)


@contextmanager
def announced(state: Path, endpoint: str, pid: int, environment: Mapping[str, str]) -> Iterator[None]:
    """Tell other processes how to reach the embedded AWS, for as long as the block runs and the process lives."""
    known = {"endpoint": endpoint, "pid": pid, "environment": dict(environment)}
    path = state / RUNNING
    try:
        write_private(path, json.dumps(known, indent=2) + "\n")
    except OSError as error:
        raise unusable(state, error) from error
    _hold(state, str(os.getpid()))  # only now: who sees that nobody is starting any more finds the announcement
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def served(state: Path, *, appear: float = 0.0) -> Mapping[str, str] | None:
    """Return the variables with which the folder's embedded AWS is reached, after its start; None if nobody serves.

    A server whose command was typed a moment ago holds nothing yet: it may `appear` in so many seconds.

    Raises StateInUse if whoever holds the folder neither serves nor ends, StateUnusable as `locked` does.
    """
    deadline = time.monotonic() + appear
    try:
        while True:
            if (state / LOCK).exists():
                with locked(state):
                    pass
            if time.monotonic() >= deadline:
                return None
            time.sleep(_POLL_SECONDS)
    except StateInUse as error:
        if error.environment is None:
            raise
        return error.environment


def running(state: Path) -> Mapping[str, str] | None:
    """Return the variables with which the folder's running embedded AWS is reached; None if none is announced.

    Raises StateUnusable where somebody else may have announced it, or it leads to another machine.
    """
    try:
        known: dict[str, Any] = json.loads(read_private(state / RUNNING))
        environment = {name: str(value) for name, value in known["environment"].items() if name in _TOLD}
        lives = _lives(known["pid"])
    except (OSError, AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return None
    if not lives:
        return None
    if not is_this_machine(environment.get("AWS_ENDPOINT_URL", "")):
        raise StateUnusable(f"{state / RUNNING} leads to another machine: remove it, or choose another --state")
    return environment


def _wait(state: Path, lock: IO[str], *, to_serve: bool, seconds: float) -> None:
    """Take the lock, or raise as `locked` does."""
    begun, awaited, announced = time.monotonic(), None, False
    while not _taken(lock):
        holder = _holder(state)  # before the announcement is looked for, which comes before the holder changes
        environment = running(state)
        passed = time.monotonic() - begun
        if environment is not None or passed > seconds:
            raise StateInUse(_in_use(state, holder), environment)
        if awaited is not None and not holder.starting and not to_serve:
            raise _never_served(state, awaited)
        awaited = holder if holder.starting else None
        if passed > TELL_SECONDS and not announced:
            what = f"the server that is starting in {state}" if holder.starting else f"{state}, which is in use"
            who = f"process {holder.pid}" if holder.pid else "by a process that is ending"
            sys.stderr.write(f"waiting for {what} ({who})\n")  # in one piece: threads may say so at once
            announced = True
        time.sleep(_POLL_SECONDS)
    if awaited is not None and not to_serve:
        raise _never_served(state, awaited)


def _in_use(state: Path, holder: _Holder) -> str:
    if not holder.pid:
        return (
            f"{state} is still in use by what a process has left that has ended. Repeat the command in a moment, or "
            "choose another folder with --state."
        )
    return (
        f"{state} is in use by process {holder.pid}. Stop it (Ctrl-C, or kill {holder.pid}), or choose another folder "
        "with --state."
    )


def _never_served(state: Path, awaited: _Holder) -> StateUnusable:
    return StateUnusable(
        f"the server that was starting in {state} (process {awaited.pid}) has ended before it served: "
        f"start it again with `deltaic serve --state {shlex.quote(str(state))}` to see why"
    )


def _taken(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _open_lock(state: Path) -> IO[str]:
    try:
        file = os.open(state / LOCK, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        return os.fdopen(file, "a+")
    except OSError as error:
        raise unusable(state, error) from error


def _hold(state: Path, holder: str) -> None:
    try:
        (state / LOCK).write_text(holder)
    except OSError as error:
        raise unusable(state, error) from error


def _holder(state: Path) -> _Holder:
    """Return who holds the folder; a server that was killed while it started is not starting any more."""
    pid, _, said = (state / LOCK).read_text(errors="replace").partition(" ")
    return _Holder(pid, starting=said == STARTING) if _lives(pid) else _Holder("", starting=False)


def _lives(pid: int | str) -> bool:
    try:
        number = int(pid)
        os.kill(number, 0)
    except (OSError, OverflowError, ValueError):
        return False
    return number > 0  # others are groups of processes, and no holder
