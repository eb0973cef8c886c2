"""Decides how a test gets a golden table: a copy whose commits have their own times and whose absolute paths are right.

golden = load("deletion_vectors")
place(golden, folder)                  # a table on disk: folder/delta
golden.rows(2)                         # what Spark reads at version 2, as a pyarrow table
golden.changes()                       # what Spark reads from the change feed of golden.change_range
"""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

TABLES = Path(__file__).with_name("tables")
PLACEHOLDER = "file:/golden-tables"


@dataclass(frozen=True)
class Golden:
    """One stored table, and what Spark read from it when it was made."""

    name: str
    shows: str
    versions: tuple[int, ...]
    """The versions that Spark can read."""

    change_range: tuple[int, int] | None
    """First and last version of the change feed; None: it has none."""

    @property
    def path(self) -> Path:
        """The stored table; commits have git's times, and absolute paths a placeholder: see `place`."""
        return TABLES / self.name / "delta"

    def rows(self, version: int) -> pa.Table:
        """Return the rows of a version (variants as JSON)."""
        return pq.read_table(TABLES / self.name / "expected" / f"{version}.parquet", partitioning=None)

    def changes(self) -> pa.Table:
        """Return the change feed over `change_range`, with `_change_type`, `_commit_version`, `_commit_timestamp`."""
        return pq.read_table(TABLES / self.name / "expected" / "changes.parquet", partitioning=None)


def names() -> list[str]:
    """Return the names of all stored tables."""
    return sorted(folder.name for folder in TABLES.iterdir() if (folder / "golden.json").is_file())


def load(name: str) -> Golden:
    """Return a stored table by its name."""
    told: dict[str, Any] = json.loads((TABLES / name / "golden.json").read_text(encoding="utf-8"))
    changes = told["changes"]
    return Golden(name, told["shows"], tuple(told["versions"]), None if changes is None else (changes[0], changes[1]))


def place(golden: Golden, folder: Path, base: str = "") -> Path:
    """Copy a table to `folder/delta` and return that; commits get the time that they tell of themselves.

    `base` is the URI below which other golden tables lie as `<name>/delta` (for shallow clones); by default the stored
    ones themselves.
    """
    target = folder / "delta"
    shutil.copytree(golden.path, target)
    for file in sorted((target / "_delta_log").glob("*.json")):
        content = file.read_bytes()
        replaced = content.replace(PLACEHOLDER.encode(), (base or f"file:{TABLES}").encode())
        if replaced != content:
            file.write_bytes(replaced)
        for line in replaced.split(b"\n"):
            told = json.loads(line).get("commitInfo", {}) if b'"commitInfo"' in line else {}
            if "timestamp" in told:
                os.utime(file, ns=(told["timestamp"] * 1_000_000,) * 2)
    return target
