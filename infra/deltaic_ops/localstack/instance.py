"""Record in a state folder the address and the keys of a running LocalStack, which all commands then use."""

import json
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from deltaic.errors import Conflict

from deltaic_ops.local.aws_variables import administrator
from deltaic_ops.local.private import StateUnusable, is_this_machine, private_folder, read_private, write_private

FOLDER: Final = "localstack"
_RUNNING = "running.json"


@dataclass(frozen=True, slots=True)
class Running:
    """A running LocalStack, or another emulator of AWS with its API, on this machine."""

    endpoint: str
    key_id: str = "test"
    """Access key id of the administrator."""
    secret: str = "test"  # noqa: S105 -- LocalStack's default

    @property
    def environment(self) -> Mapping[str, str]:
        """AWS environment variables that connect tools to the emulator as its administrator."""
        return administrator(self.endpoint, self.key_id, self.secret)

    @property
    def port(self) -> int:
        """The port at which the emulator listens."""
        return urlsplit(self.endpoint).port or 0


def folder_of(state: Path) -> Path:
    """Return the folder for LocalStack's files in a state folder; creates it if it is missing."""
    private_folder(state)
    folder = state / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def running_emulator(state: Path) -> Running | None:
    """Return the emulator that a state folder records; None if there is no record or its port is closed.

    Raises Conflict if other users can write the record, or if its endpoint is on another machine.
    """
    record = state / FOLDER / _RUNNING
    try:
        emulator = Running(**json.loads(read_private(record)))
        is_here = is_this_machine(emulator.endpoint)
        if is_here:
            socket.create_connection(("127.0.0.1", emulator.port), timeout=2).close()
    except StateUnusable as refusal:
        raise Conflict(str(refusal)) from None
    except (OSError, TypeError, ValueError):
        return None
    if not is_here:
        raise Conflict(
            f"{record} was written by a server on another machine: remove the file, or choose another --state"
        )
    return emulator


def record_emulator(state: Path, emulator: Running | None) -> None:
    """Record an emulator in the state folder, for other commands, or delete the record for None; raises OSError."""
    record = folder_of(state) / _RUNNING
    if emulator is None:
        record.unlink(missing_ok=True)
    else:
        write_private(record, json.dumps(asdict(emulator), indent=2) + "\n")
