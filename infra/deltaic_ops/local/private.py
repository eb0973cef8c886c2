"""Private files of a state folder, its owner's alone: folder 0700, files 0600, links not followed."""

import os
import secrets
import stat
from pathlib import Path
from typing import IO, Final
from urllib.parse import urlsplit

from deltaic_ops.local.aws_variables import THIS_MACHINE

UMASK: Final = 0o077
"""Of the processes that write in the folder."""

_OTHERS: Final = 0o077
_MARKS: Final = frozenset({"aws", "aws.json", "gateway.log", "lock", "ministack.log", "root-secret"})


class StateUnusable(Exception):
    """The folder, or the server that was awaited in it, cannot be had; the message says why and what to do."""


def private_folder(path: Path) -> None:
    """Make the folder, or take back what others may do in it; raises StateUnusable.

    A folder that holds other things is refused, so that nobody's home or /tmp is closed by a slip.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if stat.S_IMODE(path.stat().st_mode) & _OTHERS:
            held = {entry.name for entry in path.iterdir()}
            if held and not held & _MARKS and path.name != ".deltaic":
                raise StateUnusable(
                    f"{path} holds other things, and a state folder is closed to other users: name a new folder with "
                    "--state"
                )
            path.chmod(0o700)
    except OSError as error:
        raise unusable(path, error) from error


def unusable(path: Path, error: OSError) -> StateUnusable:
    """Return the refusal of a folder that the system refuses."""
    return StateUnusable(
        f"the state folder {path} cannot be used ({error.strerror or error}): choose another one with --state"
    )


def private_log(path: Path) -> IO[bytes]:
    """Open a log to append to; raises StateUnusable."""
    try:
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600), "ab")
    except OSError as error:
        raise unusable(path.parent, error) from error


def read_private(path: Path) -> str:
    """Read what was written by `write_private`; raises StateUnusable for what another user may have written, OSError.

    Such a file may lead commands, and what they tell, to somebody else's server. Symbolic links are not followed.
    """
    folder = path.parent.stat()
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), encoding="utf-8") as file:
        for place, seen in ((path, os.fstat(file.fileno())), (path.parent, folder)):
            if seen.st_uid != os.geteuid() or stat.S_IMODE(seen.st_mode) & (stat.S_IWGRP | stat.S_IWOTH):
                raise StateUnusable(
                    f"{place} may be written by other users, so commands do not follow it: make it yours alone (chown, "
                    "chmod go-w) if you trust what it says, or choose another folder with --state"
                )
        return file.read()


def is_this_machine(address: str) -> bool:
    """Return whether an address leads to this machine, where all that state folders tell of runs."""
    try:
        where = urlsplit(address)
        return where.scheme == "http" and where.hostname in THIS_MACHINE and bool(where.port)
    except ValueError:
        return False


def write_private(path: Path, text: str) -> None:
    """Write a whole file in place of an older one, or change nothing; raises OSError."""
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(8)}.new")
    file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(file, "w") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise


def kept_secret(path: Path) -> str:
    """Return the secret of a folder, drawn once; raises StateUnusable."""
    try:
        if not os.path.lexists(path):
            write_private(path, secrets.token_urlsafe(32))
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), encoding="ascii", errors="replace") as file:
            if os.fstat(file.fileno()).st_uid != os.geteuid():
                raise StateUnusable(f"{path} belongs to another user: remove it, and another secret is drawn")
            os.fchmod(file.fileno(), 0o600)
            secret = file.read().strip()
    except OSError as error:
        raise unusable(path.parent, error) from error
    if not (secret.isascii() and secret.isprintable() and secret):
        raise StateUnusable(f"{path} holds no secret: remove it, and another one is drawn")
    return secret
