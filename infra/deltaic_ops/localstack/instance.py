"""Record in a state folder which emulator is running, how to connect to it, and its deployed stack."""

import fcntl
import json
import os
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlsplit

from deltaic.errors import Conflict

from deltaic_ops.local.aws_variables import administrator
from deltaic_ops.local.private import StateUnusable, is_this_machine, private_folder, read_private, write_private

FOLDER: Final = "localstack"
PROFILE: Final = "localstack.share"
_RUNNING = "running.json"
_DEPLOYED = "deployed.json"


@dataclass(frozen=True, slots=True)
class Running:
    """An emulator that `deltaic localstack` has started on this machine."""

    engine: str
    version: str
    endpoint: str
    key_id: str
    """Access key id of the administrator; LocalEmu accepts no other keys."""
    secret: str
    pid: int
    """Process id; 0 if the emulator is a container."""
    born: str = ""
    """Start time of the process as `ps` shows it, because the operating system reuses process ids."""
    containers: str = ""
    """Name of the Compose project; empty if the emulator is a process."""

    @property
    def environment(self) -> Mapping[str, str]:
        """AWS environment variables that connect tools to the emulator as its administrator."""
        return administrator(self.endpoint, self.key_id, self.secret)

    def lives(self) -> bool:
        """Return whether the emulator's process is still running, or whether its container accepts connections."""
        if self.containers:
            return _listens(self.endpoint)
        return self.pid > 0 and process_start(self.pid) == self.born


@dataclass(frozen=True, slots=True)
class Deployed:
    """A stack that is deployed to an emulator."""

    stack: str
    endpoint: str
    """Delta Sharing endpoint, as in the profile."""
    profile: str
    """Path of the sample recipient's profile file."""


_Record = TypeVar("_Record", Running, Deployed)


def folder_of(state: Path) -> Path:
    """Return the folder for LocalStack's files in a state folder."""
    return state / FOLDER


def running_emulator(state: Path) -> Running | None:
    """Return the running emulator that a state folder records; None if there is no record or it has ended.

    Raises Conflict if other users can write the record, or if its endpoint is on another machine.
    """
    emulator = _read(folder_of(state) / _RUNNING, Running)
    if emulator is None or not emulator.lives():
        return None
    if not is_this_machine(emulator.endpoint):
        raise Conflict(
            f"{folder_of(state) / _RUNNING} was written by a server on another machine: remove the file, or choose "
            "another --state"
        )
    return emulator


def deployed_stack(state: Path) -> Deployed | None:
    """Return the stack that is deployed to the running emulator, or None."""
    return _read(folder_of(state) / _DEPLOYED, Deployed) if running_emulator(state) else None


def write_record(state: Path, record: Running | Deployed) -> None:
    """Record an emulator or a stack in the state folder, for other commands; raises OSError."""
    name = _RUNNING if isinstance(record, Running) else _DEPLOYED
    write_private(folder_of(state) / name, json.dumps(asdict(record), indent=2) + "\n")


def delete_records(state: Path) -> None:
    """Delete the records of the emulator and its stack, and the profile, whose token is then invalid."""
    for name in (_RUNNING, _DEPLOYED, PROFILE):
        (folder_of(state) / name).unlink(missing_ok=True)


@contextmanager
def lock_folder(state: Path) -> Iterator[Path]:
    """Lock LocalStack's folder for one command and yield it; raises StateUnusable, and Conflict if it is locked."""
    private_folder(state)
    folder = folder_of(state)
    folder.mkdir(mode=0o700, exist_ok=True)
    with os.fdopen(os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(
                f"another `deltaic localstack` command is running in {state}: wait until it has ended, or choose "
                "another folder with `deltaic --state`"
            ) from None
        yield folder


def process_start(pid: int) -> str:
    """Return the start time of a process as `ps` shows it; empty if the process does not exist."""
    done = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C", "TZ": "UTC"},
    )
    return done.stdout.strip()


def _listens(endpoint: str) -> bool:
    address = urlsplit(endpoint)
    try:
        socket.create_connection((address.hostname, address.port or 0), timeout=2).close()
    except OSError:
        return False
    return True


def _read(path: Path, kind: type[_Record]) -> _Record | None:
    try:
        return kind(**json.loads(read_private(path)))
    except StateUnusable as refusal:
        raise Conflict(str(refusal)) from None
    except (OSError, TypeError, ValueError):
        return None
