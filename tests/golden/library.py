"""Load golden tables and copy them, with correct commit times and absolute paths.

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
    """A stored table, and the rows that Spark read from it when it was built."""

    name: str
    shows: str
    versions: tuple[int, ...]
    """Versions that Spark can read."""

    change_range: tuple[int, int] | None
    """First and last version of the change feed; None without a feed."""

    @property
    def path(self) -> Path:
        """Folder of the stored table, without commit times and with placeholders for absolute paths; see `place`."""
        return TABLES / self.name / "delta"

    def rows(self, version: int) -> pa.Table:
        """Return the rows of a version (variants as JSON)."""
        return pq.read_table(TABLES / self.name / "expected" / f"{version}.parquet", partitioning=None)

    def changes(self) -> pa.Table:
        """Return the change feed of `change_range`, with `_change_type`, `_commit_version`, `_commit_timestamp`."""
        return pq.read_table(TABLES / self.name / "expected" / "changes.parquet", partitioning=None)


def names() -> list[str]:
    """Return the names of all stored tables."""
    return sorted(folder.name for folder in TABLES.iterdir() if (folder / "golden.json").is_file())


def load(name: str) -> Golden:
    """Return a stored table by its name."""
    description: dict[str, Any] = json.loads((TABLES / name / "golden.json").read_text(encoding="utf-8"))
    changes = description["changes"]
    return Golden(
        name,
        description["shows"],
        tuple(description["versions"]),
        None if changes is None else (changes[0], changes[1]),
    )


def place(golden: Golden, folder: Path, base: str = "") -> Path:
    """Copy a table to `folder/delta`, set its commit times, and return the path.

    `base` is the URI of the folder that contains the other golden tables as `<name>/delta` (for shallow clones); by
    default the stored tables.
    """
    target = folder / "delta"
    shutil.copytree(golden.path, target)
    for file in sorted((target / "_delta_log").glob("*.json")):
        content = file.read_bytes()
        replaced = content.replace(PLACEHOLDER.encode(), (base or f"file:{TABLES}").encode())
        if replaced != content:
            file.write_bytes(replaced)
        for line in replaced.split(b"\n"):
            description = json.loads(line).get("commitInfo", {}) if b'"commitInfo"' in line else {}
            if "timestamp" in description:
                os.utime(file, ns=(description["timestamp"] * 1_000_000,) * 2)
    return target
