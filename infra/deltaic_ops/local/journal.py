"""Decides how state outlives its process: a copy of all of it, and a journal of the records that came after the copy.

A folder holds copies (`state-<n>.json`) and journals (`journal-<n>.jsonl`, what came after copy n; of an empty state is
no copy 0). Every line is a checksum and a record. A record is on the disk, synced, when `append` returns, so neither
`kill -9` nor a power cut takes it back. The last two copies and their journals are kept: without the newest copy the
one before it and both journals tell the same.
"""

import errno
import io
import os
import re
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

_COPY: Final = "state-{}.json"
_JOURNAL: Final = "journal-{}.jsonl"
_NAME: Final = re.compile(r"(state|journal)-(0|[1-9][0-9]*)\.json(l?)")


class StateDamaged(Exception):
    """The state on disk cannot be read; the message names the file and says what to do. Nothing was changed."""


class Kept(NamedTuple):
    """What a folder holds."""

    copy: bytes | None
    """The copy to begin with; None for an empty state."""
    records: list[bytes]
    """What came after it, oldest first."""


class Journal:
    """The state below one folder. One process at a time may have it (state.py); one call at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.size = 0
        """The bytes of the journal that is written to."""
        self.copy_size = 0
        """The bytes of the copy before it."""
        self._number = 0
        self._file = -1

    def read(self) -> Kept:
        """Return what is kept and open the newest journal; raises StateDamaged, OSError.

        A last line that was not written to its end was never acknowledged and is cut off.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        known: dict[str, set[int]] = {"state": set(), "journal": set()}
        for path in self.folder.iterdir():
            match = _NAME.fullmatch(path.name)
            if match is not None and (match[1] == "journal") == bool(match[3]):
                known[match[1]].add(int(match[2]))
        base = max(known["state"], default=0)
        newest = max(known["journal"] | {base})
        copy = self._read_copy(base) if base else None
        self.copy_size = len(copy or b"")
        records: list[bytes] = []
        for number in range(base, newest + 1):
            if number not in known["journal"] and newest:
                raise StateDamaged(f"{self.folder}: {_JOURNAL.format(number)} is missing; put it back from a backup")
            records += self._read_journal(number, last=number == newest)
        self._write_to(newest, self._opened(newest))
        return Kept(copy, records)

    def append(self, record: bytes) -> None:
        """Keep a record, without a line feed in it; raises OSError (a full disk, say), and then it is not kept."""
        line = _sealed(record)
        if not os.fstat(self._file).st_nlink:
            raise FileNotFoundError(errno.ENOENT, "its journal was removed")
        try:
            os.ftruncate(self._file, self.size)  # of what an earlier call could neither write nor take back
            _write(self._file, line)
            os.fsync(self._file)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, self.size)
            raise
        self.size += len(line)

    def start_over(self, copy: bytes) -> None:
        """Keep a copy of all state, and a new journal after it; raises OSError, and then nothing is lost."""
        number = self._number + 1
        path = self.folder / _COPY.format(number)
        fresh = path.with_suffix(".new")
        line = _sealed(copy)
        opened = -1
        try:
            file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            try:
                _write(file, line)
                os.fsync(file)
            finally:
                os.close(file)
            opened = self._opened(number, os.O_TRUNC)  # a copy without its journal would tell of one that is lost
            fresh.replace(path)
        except OSError:
            fresh.unlink(missing_ok=True)
            if opened >= 0:
                os.close(opened)
            (self.folder / _JOURNAL.format(number)).unlink(missing_ok=True)  # the older one is still the newest
            raise
        # From here on the copy counts: whatever fails below, the next record belongs after it.
        self._write_to(number, opened)
        self.copy_size = len(line)
        self._sync_folder()
        for old in (_COPY.format(number - 2), _JOURNAL.format(number - 2)):
            (self.folder / old).unlink(missing_ok=True)

    def _read_copy(self, number: int) -> bytes:
        path = self.folder / _COPY.format(number)
        try:
            return _unsealed(path.read_bytes())
        except ValueError as error:
            before = self.folder / _COPY.format(number - 1)
            good = before.exists() or (number == 1 and (self.folder / _JOURNAL.format(0)).exists())
            remedy = (
                f"Move {path.name} away: the copy before it and the journals after that hold the same writes."
                if good
                else "Put it back from a backup, or choose another folder with --state."
            )
            raise StateDamaged(f"{path} cannot be read ({error}); nothing was changed. {remedy}") from None

    def _read_journal(self, number: int, *, last: bool) -> list[bytes]:
        path = self.folder / _JOURNAL.format(number)
        lines = io.BytesIO(path.read_bytes() if path.exists() else b"").readlines()
        records: list[bytes] = []
        good = 0
        for place, line in enumerate(lines, 1):
            try:
                records.append(_unsealed(line))
            except ValueError as error:
                if last and place == len(lines) and _is_torn(line):
                    os.truncate(path, good)
                    break
                raise StateDamaged(
                    f"line {place} of {path} cannot be read ({error}); nothing was changed. Put the file back from a "
                    "backup, or choose another folder with --state."
                ) from None
            good += len(line)
        return records

    def _opened(self, number: int, flags: int = 0) -> int:
        """Open a journal, which is in the folder for good then."""
        path = self.folder / _JOURNAL.format(number)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | flags, 0o600)
        try:
            self._sync_folder()
        except OSError:
            os.close(file)
            raise
        return file

    def _write_to(self, number: int, file: int) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = file
        self._number = number
        self.size = os.fstat(file).st_size

    def _sync_folder(self) -> None:
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _sealed(record: bytes) -> bytes:
    return b"%08x %b\n" % (zlib.crc32(record), record)


def _unsealed(line: bytes) -> bytes:
    """Return a line's record; raises ValueError if it is not whole."""
    checksum, _, record = line.removesuffix(b"\n").partition(b" ")
    if not line.endswith(b"\n") or checksum != b"%08x" % zlib.crc32(record):
        raise ValueError("its checksum is another one")
    return record


def _is_torn(line: bytes) -> bool:
    """Tell whether a line was not written to its end: zeros are what a file system shows of bytes that never came."""
    return not line.endswith(b"\n") or b"\0" in line


def _write(file: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]
