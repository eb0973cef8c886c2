"""A table in a folder whose writer is a test: any writer's commits by the protocol, in a time that the test lets pass.

What is needed by whom is told by the plainest reading of the log, without any code of the job.
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
from deltaic_pipeline.maintenance.maintenance_job import Job, Means, Retention, vacuum
from deltaic_pipeline.maintenance.retention import Entries, StreamPosition
from deltaic_pipeline.maintenance.vacuum import Sorted
from deltaic_pipeline.table.s3_folder import S3Folder, Stored
from deltaic_terminal.progress import silent

DAY = 86_400.0
LOCATION = "s3://lake/kept"
Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


@dataclass
class PlainFolder:
    """What a job asks of an `S3Folder`, on disk; the times of its files are those that the test has set."""

    root: Path
    requests_left: int | None = None
    """So many requests to delete are carried out before the job ends."""

    @property
    def store(self) -> FolderStore:
        return FolderStore(self.root)

    @property
    def writer(self) -> NoReturn:
        raise AssertionError("what is deleted is decided without writing to the log")

    def objects(self) -> Iterator[Stored]:
        for path in sorted(self.root.rglob("*")):
            if path.is_file():
                found = path.stat()
                yield Stored(path.relative_to(self.root).as_posix(), found.st_size, found.st_mtime_ns // 1_000_000)

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            if self.requests_left is not None:
                self.requests_left -= 1
                if self.requests_left < 0:
                    raise KeyboardInterrupt
            (self.root / name).unlink(missing_ok=True)


@dataclass
class KeptTable:
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
    def made(cls, root: Path, configuration: Mapping[str, str] | None = None) -> Self:
        """Make a table without rows."""
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
        """Put an object there, written now."""
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
        return self.commit(*(gone(action) for action in self.live), add(self.new()))

    def optimize(self) -> int:
        joined = add(self.new(), dataChange=False)
        return self.commit(joined, *(gone(action, dataChange=False) for action in self.live))

    def rewrite(self, which: int) -> int:
        """Change a row of a file: another file, and a file of changed rows."""
        old = self.live[which % len(self.live)]
        changed = self.file(f"_change_data/cdc-{uuid.uuid4()}.parquet")
        cdc = {"cdc": {"path": changed, "partitionValues": {"p": "a"}, "size": 10, "dataChange": False}}
        return self.commit(gone(old), add(self.new()), cdc)

    def mark(self, which: int) -> int:
        """Delete a row of a file by a deletion vector."""
        old = self.live[which % len(self.live)]
        name = uuid.uuid4()
        self.file(f"ab/deletion_vector_{name}.bin")
        vector = {"storageType": "u", "pathOrInlineDv": f"ab{z85(name.bytes)}", "sizeInBytes": 34, "cardinality": 1}
        return self.commit(gone(old), {"add": {**old, "deletionVector": {**vector, "offset": 1}}})

    def restore(self, version: int) -> int | None:
        """Go back to a version, if its files are there still, as a writer looks first."""
        back = self.log.state(version).files
        if not {name for action in back.values() for name in named(action)} <= self.names():
            return None
        now = self.log.state().files
        return self.commit(
            *(gone(action) for key, action in now.items() if key not in back),
            *({"add": action} for key, action in back.items() if key not in now),
        )

    def names(self) -> set[str]:
        """Return what lies beside the log."""
        return {stored.name for stored in self.folder.objects() if not stored.name.startswith("_delta_log/")}

    def vacuum(self, confirm: Any = lambda: None, **more: Any) -> tuple[Retention, Sorted | None]:
        return vacuum(Job(LOCATION, "run", **more), self.means, silent, confirm)

    @property
    def means(self) -> Means:
        shared = [entry(history=True, start_version=start) for start in self.history_from]
        return Means(
            lambda: Entries(shared, self.clones),
            cast("S3Folder", self.folder),
            lambda checkpoint, _: StreamPosition(checkpoint, int(checkpoint)),
            lambda: self.now,
        )

    def wanted(self, days: float) -> set[str]:
        """Return what somebody needs now: readers of the window, of shared history, and streams; and what is young."""
        begins = self.now - days * DAY
        wanted: set[str] = set()
        for version in range(self.latest + 1):
            current = version == self.latest or self.times[version + 1] > begins
            if current or any(version >= start for start in [*self.history_from, *self.streams_at]):
                wanted |= {name for action in self.log.state(version).files.values() for name in named(action)}
            # The first shared version's commit shows nothing of what was before it (decision 22); a stream sees all.
            told = any(version > start or start == 0 for start in self.history_from)
            if told or any(version >= at for at in self.streams_at):
                actions = [action for line in self.log.commits[version] for action in line.values()]
                wanted |= {name for action in actions for name in named(action)}
        young = {stored.name for stored in self.folder.objects() if stored.modified >= int(begins * 1000)}
        return wanted | young


def entry(**more: Any) -> Table:
    made = datetime(2026, 1, 1, tzinfo=UTC)
    return Table(
        name="t", schema_name="s", share="kept", id="1", share_id="2", location=LOCATION, created_at=made, **more
    )


def gone(action: Action, **more: Any) -> Action:
    """Remove a logical file."""
    return remove(action["path"], action.get("deletionVector"), **more)


def named(action: Action) -> Iterator[str]:
    """Name the objects of an add, remove or cdc."""
    if "path" in action:
        yield unquote(action["path"])
    vector = action.get("deletionVector")
    if vector and vector["storageType"] == "u":
        folder, encoded = vector["pathOrInlineDv"][:-20], vector["pathOrInlineDv"][-20:]
        name = f"deletion_vector_{uuid.UUID(bytes=bytes(unz85(encoded)))}.bin"
        yield f"{folder}/{name}" if folder else name


def z85(raw: bytes) -> str:
    """Encode as ZeroMQ's RFC 32 says."""
    words = [int.from_bytes(raw[at : at + 4]) for at in range(0, len(raw), 4)]
    return "".join(Z85[word // 85**power % 85] for word in words for power in (4, 3, 2, 1, 0))


def unz85(text: str) -> Iterator[int]:
    """Decode the same."""
    for at in range(0, len(text), 5):
        yield from sum(Z85.index(text[at + n]) * 85 ** (4 - n) for n in range(5)).to_bytes(4)
