"""A disk that forgets at a power cut what nobody has synced: any part of it, in any order, as POSIX allows.

It stands in for the functions of `os` that change files below one folder, keeps what is synced apart from what is not,
and writes down, for a choice of what survives, what a machine would find when it has power again.
"""

import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest


@dataclass(eq=False)
class File:
    """One file: what is synced, and the contents that it had since then."""

    synced: bytes = b""
    since: list[bytes] = field(default_factory=list)

    @property
    def now(self) -> bytes:
        return self.since[-1] if self.since else self.synced

    def survivor(self, chance: random.Random) -> bytes:
        """Return what is found after a power cut: some content since the last sync, perhaps not to its end."""
        content = chance.choice([self.synced, *self.since])
        synced = len(self.synced) if content.startswith(self.synced) else 0
        return content[: chance.randint(synced, len(content))]


class VolatileDisk:
    """The files of one folder, by what they are called now and by what they were called at the last sync of it."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._open_files: dict[int, File | None] = {}
        self._names: dict[str, File] = {}
        self._synced: dict[str, File] = {}
        self._changes: list[tuple[str, File | None]] = []
        for name in ("open", "write", "fsync", "ftruncate", "truncate", "replace", "unlink", "close"):
            patch.setattr(os, name, self._around(name, getattr(os, name)))

    def cut(self, target: Path, chance: random.Random) -> None:
        """Write into another folder what is there after the power came back."""
        names = dict(self._synced)
        for name, file in self._changes:
            if chance.random() < 0.5:
                continue
            if file is None:
                names.pop(name, None)
            else:
                names[name] = file
        for name, file in names.items():
            (target / name).write_bytes(file.survivor(chance))

    def _around(self, name: str, real: Any) -> Any:
        noted = getattr(self, f"_{name}")

        def call(*args: Any, **named: Any) -> Any:
            result = real(*args, **named)
            noted(result, *args)
            return result

        return call

    def _mine(self, path: Any) -> str | None:
        given = Path(path) if isinstance(path, str | os.PathLike) else None
        return given.name if given is not None and given.parent == self._folder else None

    def _open(self, result: int, path: Any, flags: int, *_: Any) -> None:
        if isinstance(path, str | os.PathLike) and Path(path) == self._folder:
            self._open_files[result] = None
        elif (name := self._mine(path)) is not None:
            if name not in self._names:
                self._link(name, File())
            self._open_files[result] = self._names[name]
            if flags & os.O_TRUNC:
                self._names[name].since.append(b"")

    def _write(self, result: int, file: int, data: Any) -> None:
        if (known := self._open_files.get(file)) is not None:
            known.since.append(known.now + bytes(data)[:result])

    def _fsync(self, _: None, file: int) -> None:
        if file not in self._open_files:
            return
        known = self._open_files[file]
        if known is None:
            self._synced, self._changes = dict(self._names), []
        else:
            known.synced, known.since = known.now, []

    def _ftruncate(self, _: None, file: int, size: int) -> None:
        if (known := self._open_files.get(file)) is not None and len(known.now) != size:
            known.since.append(known.now[:size])

    def _truncate(self, _: None, path: Any, size: int) -> None:
        if (name := self._mine(path)) is not None:
            self._names[name].since.append(self._names[name].now[:size])

    def _replace(self, _: None, source: Any, target: Any, **__: Any) -> None:
        old, new = self._mine(source), self._mine(target)
        if old is not None and new is not None:
            self._link(new, self._names.pop(old))
            self._changes.append((old, None))

    def _unlink(self, _: None, path: Any, **__: Any) -> None:
        if (name := self._mine(path)) is not None and self._names.pop(name, None) is not None:
            self._changes.append((name, None))

    def _close(self, _: None, file: int) -> None:
        self._open_files.pop(file, None)

    def _link(self, name: str, file: File) -> None:
        self._names[name] = file
        self._changes.append((name, file))
