"""Table in a folder that a test writes: commits as by any writer, with a clock that the test controls.

The expected needed files are computed from the log directly, without the code of the job.
"""

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn, Self, cast
from urllib.parse import unquote

from delta_tables.folder_store import FolderStore
from delta_tables.handmade import Action, HandmadeLog, add, metadata, protocol, remove
from deltaic.catalog.items import Table
from deltaic_pipeline.maintenance.maintenance_job import MaintenanceContext, MaintenanceJob, Retention, vacuum
from deltaic_pipeline.maintenance.retention import LocationEntries, StreamPosition
from deltaic_pipeline.maintenance.vacuum import FileCounts
from deltaic_pipeline.table.s3_folder import S3Folder, StoredObject
from deltaic_terminal.progress import silent

DAY = 86_400.0
LOCATION = "s3://lake/kept"
Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


@dataclass
class PlainFolder:
    """Substitute for `S3Folder` on disk, with file times that the test sets."""

    root: Path
    requests_left: int | None = None
    """Number of delete requests until the job is killed."""

    @property
    def store(self) -> FolderStore:
        return FolderStore(self.root)

    @property
    def writer(self) -> NoReturn:
        raise AssertionError("vacuum must not write to the log")

    def objects(self) -> Iterator[StoredObject]:
        for path in sorted(self.root.rglob("*")):
            if path.is_file():
                stat = path.stat()
                yield StoredObject(path.relative_to(self.root).as_posix(), stat.st_size, stat.st_mtime_ns // 1_000_000)

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            if self.requests_left is not None:
                self.requests_left -= 1
                if self.requests_left < 0:
                    raise KeyboardInterrupt
            (self.root / name).unlink(missing_ok=True)


@dataclass
class HandwrittenTable:
    """A table, its catalog entries, and the streams that read it."""

    root: Path
    now: float = 1_800_000_000.0
    """Seconds since the epoch."""

    history_from: list[int] = field(default_factory=list)
    streams_at: list[int] = field(default_factory=list)
    clones: list[Table] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.log = HandmadeLog(self.root)
        self.folder = PlainFolder(self.root)

    @classmethod
    def create(cls, root: Path, configuration: Mapping[str, str] | None = None) -> Self:
        """Create a table without rows."""
        table = cls(root)
        table.commit(protocol(3, 7, "deletionVectors"), metadata(configuration))
        return table

    @property
    def latest(self) -> int:
        return len(self.times) - 1

    @property
    def live(self) -> list[Action]:
        return [action for _, action in sorted(self.log.state().files.items(), key=lambda item: str(item[0]))]

    def commit(self, *actions: Action) -> int:
        self.now += 1
        self.times.append(self.now)
        return self.log.commit(*actions, modified=int(self.now * 1000))

    def file(self, name: str) -> str:
        """Write an object at the current time."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 10)
        os.utime(path, (self.now, self.now))
        return name

    def new(self) -> str:
        return self.file(f"part-{uuid.uuid4()}.parquet")

    def write(self, count: int = 1) -> int:
        return self.commit(*(add(self.new()) for _ in range(count)))

    def overwrite(self) -> int:
        return self.commit(*(remove_file(action) for action in self.live), add(self.new()))

    def optimize(self) -> int:
        compacted = add(self.new(), dataChange=False)
        return self.commit(compacted, *(remove_file(action, dataChange=False) for action in self.live))

    def rewrite(self, number: int) -> int:
        """Change a row of a file: replace the file, and add a file of change data."""
        old = self.live[number % len(self.live)]
        changed = self.file(f"_change_data/cdc-{uuid.uuid4()}.parquet")
        cdc = {"cdc": {"path": changed, "partitionValues": {"p": "a"}, "size": 10, "dataChange": False}}
        return self.commit(remove_file(old), add(self.new()), cdc)

    def mark(self, number: int) -> int:
        """Delete a row of a file with a deletion vector."""
        old = self.live[number % len(self.live)]
        name = uuid.uuid4()
        self.file(f"ab/deletion_vector_{name}.bin")
        vector = {"storageType": "u", "pathOrInlineDv": f"ab{z85(name.bytes)}", "sizeInBytes": 34, "cardinality": 1}
        return self.commit(remove_file(old), {"add": {**old, "deletionVector": {**vector, "offset": 1}}})

    def restore(self, version: int) -> int | None:
        """Restore a version, if its files still exist."""
        target = self.log.state(version).files
        if not {name for action in target.values() for name in object_names(action)} <= self.names():
            return None
        current = self.log.state().files
        return self.commit(
            *(remove_file(action) for key, action in current.items() if key not in target),
            *({"add": action} for key, action in target.items() if key not in current),
        )

    def names(self) -> set[str]:
        """Return the objects outside the log."""
        return {stored.name for stored in self.folder.objects() if not stored.name.startswith("_delta_log/")}

    def vacuum(self, confirm: Any = lambda: None, **more: Any) -> tuple[Retention, FileCounts | None]:
        return vacuum(MaintenanceJob(LOCATION, "run", **more), self.context, silent, confirm)

    @property
    def context(self) -> MaintenanceContext:
        shared = [entry(history=True, start_version=start) for start in self.history_from]
        return MaintenanceContext(
            lambda: LocationEntries(shared, self.clones),
            cast("S3Folder", self.folder),
            lambda checkpoint, _: StreamPosition(checkpoint, int(checkpoint)),
            lambda: self.now,
        )

    def needed(self, days: float) -> set[str]:
        """Return the needed objects: for readers within the window, shared history and streams, and young ones."""
        begins = self.now - days * DAY
        needed: set[str] = set()
        for version in range(self.latest + 1):
            current = version == self.latest or self.times[version + 1] > begins
            if current or any(version >= start for start in [*self.history_from, *self.streams_at]):
                needed |= {name for action in self.log.state(version).files.values() for name in object_names(action)}
            # Changes of the first shared version are its added files only (decision 22); a stream needs all changes.
            is_shared = any(version > start or start == 0 for start in self.history_from)
            if is_shared or any(version >= position for position in self.streams_at):
                actions = [action for line in self.log.commits[version] for action in line.values()]
                needed |= {name for action in actions for name in object_names(action)}
        young = {stored.name for stored in self.folder.objects() if stored.modified >= int(begins * 1000)}
        return needed | young


def entry(**more: Any) -> Table:
    created_at = datetime(2026, 1, 1, tzinfo=UTC)
    return Table(
        name="t", schema_name="s", share="kept", id="1", share_id="2", location=LOCATION, created_at=created_at, **more
    )


def remove_file(action: Action, **more: Any) -> Action:
    """Return the action that removes a logical file."""
    return remove(action["path"], action.get("deletionVector"), **more)


def object_names(action: Action) -> Iterator[str]:
    """Yield the names of the objects of an add, remove or cdc."""
    if "path" in action:
        yield unquote(action["path"])
    vector = action.get("deletionVector")
    if vector and vector["storageType"] == "u":
        folder, encoded = vector["pathOrInlineDv"][:-20], vector["pathOrInlineDv"][-20:]
        name = f"deletion_vector_{uuid.UUID(bytes=bytes(unz85(encoded)))}.bin"
        yield f"{folder}/{name}" if folder else name


def z85(raw: bytes) -> str:
    """Encode bytes by ZeroMQ's RFC 32."""
    words = [int.from_bytes(raw[at : at + 4]) for at in range(0, len(raw), 4)]
    return "".join(Z85[word // 85**power % 85] for word in words for power in (4, 3, 2, 1, 0))


def unz85(text: str) -> Iterator[int]:
    """Decode the same."""
    for at in range(0, len(text), 5):
        yield from sum(Z85.index(text[at + n]) * 85 ** (4 - n) for n in range(5)).to_bytes(4)
