"""Lock a state folder (`.deltaic`) for a server, and announce the server to other processes.

A server locks its folder. When it is ready, it also writes a file that announces its environment variables. Commands
wait for this announcement as long as the folder is locked.
"""

import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

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

WAIT_SECONDS = 90.0
"""Maximum time to wait for the lock, which is longer than a server needs to start."""
REPORT_SECONDS = 1.0
_POLL_SECONDS = 0.05

_VARIABLES = (
    *("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_DEFAULT_REGION"),
    *("CATALOG_TABLE", "TOKENS_TABLE", "TOKEN_KEY_SECRET", "SIGNING_ROLE_ARN", "ICEBERG_BUCKET"),
    "DELTAIC_ENDPOINT",
)
"""Variables that an announcement can set; other variables could make programs load or run other code."""


@contextmanager
def lock_state(state: Path, *, seconds: float = WAIT_SECONDS) -> Iterator[int]:
    """Lock a state folder for a server, and yield the lock's file descriptor.

    Raises StateUnusable if a server is running in the folder, if the folder is still locked after `seconds`, or if it
    cannot be written. The lock ends when this process and all processes that inherited the descriptor have ended.
    """
    private_folder(state)
    with _open_lock(state) as lock:
        for _ in _poll(state, seconds):
            if _try_lock(lock):
                break
            if running_environment(state) is not None:
                raise _in_use(state)
        else:
            raise _in_use(state)
        try:
            (state / LOCK).write_text(str(os.getpid()))
        except OSError as error:
            raise unusable(state, error) from error
        try:
            yield lock.fileno()
        finally:
            lock.truncate(0)


@contextmanager
def announce_server(state: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """Announce the server of this process to other processes, until the block or the process ends."""
    announcement = {"pid": os.getpid(), "environment": dict(environment)}
    path = state / RUNNING
    try:
        write_private(path, json.dumps(announcement, indent=2) + "\n")
    except OSError as error:
        raise unusable(state, error) from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def wait_for_environment(state: Path, *, appear_seconds: float = 0.0) -> Mapping[str, str] | None:
    """Return the variables of a state folder's server, and wait while it starts; None if no server is running.

    A server that was started just before must lock the folder within `appear_seconds`. Raises StateUnusable if the
    folder stays locked without an announcement, and for the same reasons as `running_environment`.
    """
    for waited_seconds in _poll(state, WAIT_SECONDS):
        if (environment := running_environment(state)) is not None:
            return environment
        if not _is_locked(state) and waited_seconds >= appear_seconds:
            return None
    raise _in_use(state)


def running_environment(state: Path) -> Mapping[str, str] | None:
    """Return the variables of the embedded AWS that is running in a state folder; None if none is announced.

    Raises StateUnusable if other users can write the announcement, or if its endpoint is on another machine.
    """
    try:
        announcement: dict[str, Any] = json.loads(read_private(state / RUNNING))
        environment = {name: str(value) for name, value in announcement["environment"].items() if name in _VARIABLES}
        is_alive = _is_alive(announcement["pid"])
    except (OSError, AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return None
    if not is_alive:
        return None
    if not is_this_machine(environment.get("AWS_ENDPOINT_URL", "")):
        raise StateUnusable(
            f"{state / RUNNING} was written by a server on another machine: remove it, or choose another --state"
        )
    return environment


def _poll(state: Path, seconds: float) -> Iterator[float]:
    """Yield the time since the first call, until it exceeds `seconds`; report once which process is waited for."""
    started_at, has_reported = time.monotonic(), False
    while True:
        waited_seconds = time.monotonic() - started_at
        yield waited_seconds
        if waited_seconds > seconds:
            return
        if waited_seconds > REPORT_SECONDS and not has_reported and (holder := _holder(state)):
            sys.stderr.write(f"waiting for process {holder}, which uses {state}\n")  # once, as threads may report too
            has_reported = True
        time.sleep(_POLL_SECONDS)


def _in_use(state: Path) -> StateUnusable:
    if holder := _holder(state):
        remedy = f"Stop it (Ctrl-C, or kill {holder}), or choose another folder with --state."
        return StateUnusable(f"{state} is in use by process {holder}. {remedy}")
    return StateUnusable(
        f"{state} is still in use by child processes of a stopped server. Repeat the command in a few seconds, or "
        "choose another folder with --state."
    )


def _is_locked(state: Path) -> bool:
    try:
        with os.fdopen(os.open(state / LOCK, os.O_RDONLY | os.O_NOFOLLOW)) as lock:
            return not _try_lock(lock, fcntl.LOCK_SH)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise unusable(state, error) from error


def _try_lock(lock: IO[str], kind: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _open_lock(state: Path) -> IO[str]:
    try:
        file = os.open(state / LOCK, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        return os.fdopen(file, "a+")
    except OSError as error:
        raise unusable(state, error) from error


def _holder(state: Path) -> str:
    """Return the id of the process that the lock file names; empty if that process has ended."""
    pid = (state / LOCK).read_text(errors="replace")
    return pid if _is_alive(pid) else ""


def _is_alive(pid: int | str) -> bool:
    try:
        number = int(pid)
        os.kill(number, 0)
    except (OSError, OverflowError, ValueError):
        return False
    return number > 0  # zero and negative numbers are process groups
