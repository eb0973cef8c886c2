"""Index of the downloaded objects of a folder: each object's ETag, and the size and time of its local file."""

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class DownloadedObject(NamedTuple):
    """A shared object that was downloaded to a local file."""

    name: str
    etag: str
    size: int
    modified: int
    """Modification time of the file in nanoseconds. A file that was edited later is downloaded again."""


class ObjectIndex:
    """SQLite database of the downloaded objects of one folder. Threads cannot share it."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS objects (name TEXT PRIMARY KEY, etag TEXT, size INTEGER, modified INTEGER) "
            "WITHOUT ROWID"
        )
        self._database.execute("CREATE TEMP TABLE claims (folded TEXT PRIMARY KEY) WITHOUT ROWID")

    def close(self) -> None:
        """Close the SQLite database."""
        self._database.close()

    def is_current(self, name: str, etag: str, file: Path) -> bool:
        """Return whether the local file is unchanged since this object was downloaded to it with this ETag."""
        row = self._database.execute("SELECT etag, size, modified FROM objects WHERE name = ?", (name,)).fetchone()
        if row is None or row[0] != etag:
            return False
        try:
            status = file.stat()
        except OSError:
            return False
        return (status.st_size, status.st_mtime_ns) == (row[1], row[2])

    def claim(self, folded_name: str) -> bool:
        """Reserve a case-folded file name for an object; return False if another object of this download has it."""
        return self._database.execute("INSERT OR IGNORE INTO claims VALUES (?)", (folded_name,)).rowcount == 1

    def add(self, objects: Iterable[DownloadedObject]) -> None:
        """Record downloaded objects in the index, in one transaction."""
        with self._database:
            self._database.executemany("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)", objects)
