"""What earlier pulls have brought into a folder: each object's ETag, and the file that it was then."""

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class Brought(NamedTuple):
    """An object that is there."""

    name: str
    etag: str
    size: int
    modified: int
    """Of the file, in nanoseconds: one that somebody has changed is brought again."""


class KnownObjects:
    """The objects of one folder, on disk. Not for several threads."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS objects (name TEXT PRIMARY KEY, etag TEXT, size INTEGER, modified INTEGER) "
            "WITHOUT ROWID"
        )
        self._database.execute("CREATE TEMP TABLE claims (folded TEXT PRIMARY KEY) WITHOUT ROWID")

    def close(self) -> None:
        """Close it."""
        self._database.close()

    def has(self, name: str, etag: str, file: Path) -> bool:
        """Tell whether the file is the object of that ETag, as it was brought."""
        row = self._database.execute("SELECT etag, size, modified FROM objects WHERE name = ?", (name,)).fetchone()
        if row is None or row[0] != etag:
            return False
        try:
            found = file.stat()
        except OSError:
            return False
        return (found.st_size, found.st_mtime_ns) == (row[1], row[2])

    def claim(self, folded: str) -> bool:
        """Tell whether this is the first object of this pull with that folded name."""
        return self._database.execute("INSERT OR IGNORE INTO claims VALUES (?)", (folded,)).rowcount == 1

    def remember(self, brought: Iterable[Brought]) -> None:
        """Keep what was brought."""
        with self._database:
            self._database.executemany("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)", brought)
