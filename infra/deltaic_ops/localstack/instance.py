"""What a state folder tells of the LocalStack in it: whether it is up, how it is reached, what was deployed there."""

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
    """An emulator that was started here."""

    engine: str
    version: str
    endpoint: str
    key_id: str
    """Of its administrator; LocalEmu knows no other key that is not made there."""
    secret: str
    pid: int
    """0 for a container."""
    born: str = ""
    """When the process began, as the system tells it: a number is given to another process one day."""
    containers: str = ""
    """The name of the Compose project, if it is one."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The ordinary AWS variables with which any tool reaches it as its administrator."""
        return administrator(self.endpoint, self.key_id, self.secret)

    def lives(self) -> bool:
        """Return whether the process is still the one that was started; of a container whether somebody listens."""
        if self.containers:
            return _listens(self.endpoint)
        return self.pid > 0 and born(self.pid) == self.born


@dataclass(frozen=True, slots=True)
class Deployed:
    """A stack that was deployed there."""

    stack: str
    endpoint: str
    """What the profile names."""
    profile: str
    """The path of the sample recipient's profile."""


_Known = TypeVar("_Known", Running, Deployed)


def folder_of(state: Path) -> Path:
    """Return where a state folder keeps LocalStack's files."""
    return state / FOLDER


def running(state: Path) -> Running | None:
    """Return the emulator that is up, None if there is none; what is left of one that has ended counts as none.

    Raises Conflict where somebody else may have written of it, or it leads to another machine.
    """
    emulator = _read(folder_of(state) / _RUNNING, Running)
    if emulator is None or not emulator.lives():
        return None
    if not is_this_machine(emulator.endpoint):
        raise Conflict(
            f"{folder_of(state) / _RUNNING} leads to another machine: remove it, or choose another folder with --state"
        )
    return emulator


def deployed(state: Path) -> Deployed | None:
    """Return what was deployed to the emulator that is up; None if nothing was, or it is down."""
    return _read(folder_of(state) / _DEPLOYED, Deployed) if running(state) else None


def announce(state: Path, what: Running | Deployed) -> None:
    """Tell other commands; raises OSError."""
    name = _RUNNING if isinstance(what, Running) else _DEPLOYED
    write_private(folder_of(state) / name, json.dumps(asdict(what), indent=2) + "\n")


def forget(state: Path) -> None:
    """Forget what was up, and what was deployed there: its catalog has ended with it, so its profile opens nothing."""
    for name in (_RUNNING, _DEPLOYED, PROFILE):
        (folder_of(state) / name).unlink(missing_ok=True)


@contextmanager
def alone(state: Path) -> Iterator[Path]:
    """Hold LocalStack's folder for one command; yields it. Raises Conflict if another command has it, StateUnusable."""
    private_folder(state)
    folder = folder_of(state)
    folder.mkdir(mode=0o700, exist_ok=True)
    with os.fdopen(os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(
                f"another `deltaic localstack` is at work in {state}: wait until it has ended, or choose another "
                "folder by `deltaic --state`"
            ) from None
        yield folder


def born(pid: int) -> str:
    """Return when a process began, as the system tells it; empty if there is none."""
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
    where = urlsplit(endpoint)
    try:
        socket.create_connection((where.hostname, where.port or 0), timeout=2).close()
    except OSError:
        return False
    return True


def _read(path: Path, kind: type[_Known]) -> _Known | None:
    try:
        return kind(**json.loads(read_private(path)))
    except StateUnusable as refusal:
        raise Conflict(str(refusal)) from None
    except (OSError, TypeError, ValueError):
        return None
