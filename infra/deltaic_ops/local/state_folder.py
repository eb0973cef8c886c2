"""Lock a state folder (`.deltaic`), and announce the embedded AWS that runs in it to other processes.

A process that uses the folder locks it. When a server is ready, it also writes a file that announces its environment
variables. Other processes wait for this announcement or for the lock. While a server starts, the lock file says so, so
that waiting processes can report that the start has failed.
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
"""Maximum time to wait for the lock, which is longer than a server needs to start."""
REPORT_SECONDS = 1.0
_POLL_SECONDS = 0.05

_VARIABLES = (
    *("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_DEFAULT_REGION"),
    *("CATALOG_TABLE", "TOKENS_TABLE", "TOKEN_KEY_SECRET", "SIGNING_ROLE_ARN", "ICEBERG_BUCKET"),
    "DELTAIC_ENDPOINT",
)
"""Variables that an announcement can set; other variables could make programs load or run other code."""


class StateInUse(StateUnusable):
    """Another process uses the state folder; `environment` has its AWS variables, None if it announced none."""

    def __init__(self, message: str, environment: Mapping[str, str] | None) -> None:
        super().__init__(message)
        self.environment = environment


class _Holder(NamedTuple):
    pid: str
    """Process id; empty if the process has ended, but its child processes still lock the folder."""
    starting: bool


@contextmanager
def lock_state(state: Path, *, to_serve: bool = False, seconds: float = WAIT_SECONDS) -> Iterator[int]:
    """Lock a state folder and yield the lock's file descriptor; `to_serve` marks a starting server.

    Raises StateInUse if a server is running, or if the folder is still locked after `seconds`. Raises StateUnusable if
    the folder cannot be written, or if a server failed to start in it. The lock ends when this process and all
    processes that inherited the descriptor have ended.
    """
    private_folder(state)
    with _open_lock(state) as lock:
        _wait(state, lock, to_serve=to_serve, seconds=seconds)
        _write_holder(state, f"{os.getpid()} {STARTING}" if to_serve else str(os.getpid()))
        try:
            yield lock.fileno()
        finally:
            lock.truncate(0)


@contextmanager
def announce_server(state: Path, endpoint: str, pid: int, environment: Mapping[str, str]) -> Iterator[None]:
    """Announce the embedded AWS to other processes until the block or the process ends."""
    announcement = {"endpoint": endpoint, "pid": pid, "environment": dict(environment)}
    path = state / RUNNING
    try:
        write_private(path, json.dumps(announcement, indent=2) + "\n")
    except OSError as error:
        raise unusable(state, error) from error
    _write_holder(state, str(os.getpid()))  # after the announcement, which exists once no server is starting
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def wait_for_environment(state: Path, *, appear_seconds: float = 0.0) -> Mapping[str, str] | None:
    """Return the variables of a state folder's server, and wait while it starts; None if no server is running.

    A server that was started just before must lock the folder within `appear_seconds`. Raises StateInUse if another
    process keeps the folder locked, and StateUnusable for the same reasons as `lock_state`.
    """
    deadline = time.monotonic() + appear_seconds
    try:
        while True:
            if (state / LOCK).exists():
                with lock_state(state):
                    pass
            if time.monotonic() >= deadline:
                return None
            time.sleep(_POLL_SECONDS)
    except StateInUse as error:
        if error.environment is None:
            raise
        return error.environment


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


def _wait(state: Path, lock: IO[str], *, to_serve: bool, seconds: float) -> None:
    """Wait for the lock of a state folder; raises the same errors as `lock_state`."""
    started_at, starting_server, has_reported = time.monotonic(), None, False
    while not _try_lock(lock):
        holder = _holder(state)  # read before the announcement, which is written before the holder changes
        environment = running_environment(state)
        waited_seconds = time.monotonic() - started_at
        if environment is not None or waited_seconds > seconds:
            raise StateInUse(_in_use(state, holder), environment)
        if starting_server is not None and not holder.starting and not to_serve:
            raise _never_served(state, starting_server)
        starting_server = holder if holder.starting else None
        if waited_seconds > REPORT_SECONDS and not has_reported:
            target = f"the server that is starting in {state}" if holder.starting else f"{state}, which is in use"
            process = f"process {holder.pid}" if holder.pid else "by a process that is ending"
            sys.stderr.write(f"waiting for {target} ({process})\n")  # one write, because threads may report at once
            has_reported = True
        time.sleep(_POLL_SECONDS)
    if starting_server is not None and not to_serve:
        raise _never_served(state, starting_server)


def _in_use(state: Path, holder: _Holder) -> str:
    if not holder.pid:
        return (
            f"{state} is still in use by child processes of a stopped server. Repeat the command in a few seconds, or "
            "choose another folder with --state."
        )
    return (
        f"{state} is in use by process {holder.pid}. Stop it (Ctrl-C, or kill {holder.pid}), or choose another folder "
        "with --state."
    )


def _never_served(state: Path, server: _Holder) -> StateUnusable:
    return StateUnusable(
        f"the server in {state} (process {server.pid}) stopped before it was ready: "
        f"start it again with `deltaic serve --state {shlex.quote(str(state))}` to see the error"
    )


def _try_lock(lock: IO[str]) -> bool:
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


def _write_holder(state: Path, holder: str) -> None:
    try:
        (state / LOCK).write_text(holder)
    except OSError as error:
        raise unusable(state, error) from error


def _holder(state: Path) -> _Holder:
    """Return the process that the lock file names, and whether it is `starting`; without id if it has ended."""
    pid, _, activity = (state / LOCK).read_text(errors="replace").partition(" ")
    return _Holder(pid, starting=activity == STARTING) if _is_alive(pid) else _Holder("", starting=False)


def _is_alive(pid: int | str) -> bool:
    try:
        number = int(pid)
        os.kill(number, 0)
    except (OSError, OverflowError, ValueError):
        return False
    return number > 0  # zero and negative numbers are process groups
