"""Read and write the private files of a state folder: mode 0700 for folders, 0600 for files, no symbolic links."""

import os
import secrets
import stat
from pathlib import Path
from typing import IO, Final
from urllib.parse import urlsplit

from deltaic_ops.local.aws_variables import THIS_MACHINE

UMASK: Final = 0o077
"""File mode creation mask (umask) of processes that write to the folder."""

_OTHERS: Final = 0o077
_MARKS: Final = frozenset({"aws", "aws.json", "gateway.log", "lock", "ministack.log", "root-secret"})


class StateUnusable(Exception):
    """The state folder cannot be used, or its server did not start; the message has reason and remedy."""


def private_folder(path: Path) -> None:
    """Create a state folder, or remove other users' permissions from an existing one; raises StateUnusable.

    A folder that contains other files is rejected, so that a typing error cannot make a home folder or /tmp private.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if stat.S_IMODE(path.stat().st_mode) & _OTHERS:
            names = {entry.name for entry in path.iterdir()}
            if names and not names & _MARKS and path.name != ".deltaic":
                raise StateUnusable(
                    f"{path} contains other files, and only its owner can read a state folder: choose a new folder "
                    "with --state"
                )
            path.chmod(0o700)
    except OSError as error:
        raise unusable(path, error) from error


def unusable(path: Path, error: OSError) -> StateUnusable:
    """Return the exception for a state folder that cannot be read or written."""
    return StateUnusable(
        f"cannot use the state folder {path} ({error.strerror or error}): choose another one with --state"
    )


def private_log(path: Path) -> IO[bytes]:
    """Open a private log file for appending; raises StateUnusable."""
    try:
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600), "ab")
    except OSError as error:
        raise unusable(path.parent, error) from error


def read_private(path: Path) -> str:
    """Read a file that `write_private` wrote; raises OSError, and StateUnusable if other users can write it.

    A file of another user could direct commands, and their secrets, to that user's server. Symbolic links are rejected.
    """
    folder = path.parent.stat()
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), encoding="utf-8") as file:
        for location, status in ((path, os.fstat(file.fileno())), (path.parent, folder)):
            if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & (stat.S_IWGRP | stat.S_IWOTH):
                raise StateUnusable(
                    f"other users can write {location}, so commands do not read it: if you trust its content, restrict "
                    "it to your user (chown, chmod go-w). Otherwise, choose another folder with --state"
                )
        return file.read()


def is_this_machine(address: str) -> bool:
    """Return whether a URL is an http port of this machine, as every URL in a state folder must be."""
    try:
        parts = urlsplit(address)
        return parts.scheme == "http" and parts.hostname in THIS_MACHINE and bool(parts.port)
    except ValueError:
        return False


def write_private(path: Path, text: str) -> None:
    """Write a private file atomically; raises OSError, and then keeps an existing file."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}.new")
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(file, "w") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def folder_secret(path: Path) -> str:
    """Return the secret in a file, which is generated if the file does not exist; raises StateUnusable."""
    try:
        if not os.path.lexists(path):
            write_private(path, secrets.token_urlsafe(32))
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), encoding="ascii", errors="replace") as file:
            if os.fstat(file.fileno()).st_uid != os.geteuid():
                raise StateUnusable(f"{path} belongs to another user: remove it to generate a new secret")
            os.fchmod(file.fileno(), 0o600)
            secret = file.read().strip()
    except OSError as error:
        raise unusable(path.parent, error) from error
    if not (secret.isascii() and secret.isprintable() and secret):
        raise StateUnusable(f"{path} contains no valid secret: remove it to generate a new secret")
    return secret
