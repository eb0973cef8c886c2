"""Create a checkpoint with the library deltalake in a local copy of the log, and compare it with the log.

deltalake cannot access the table itself. So it cannot delete commits, and an incorrect checkpoint is discarded before
clients can read it. Tables that are rejected here need checkpoints from Spark.
"""

import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
from deltaic.delta.log_files import read_all_listed
from deltaic.delta.logical_files import vector_id
from deltaic.delta.paths import LAST_CHECKPOINT, LOG, version_prefix
from deltaic.delta.property_intervals import DELETED_FILES, DELETED_FILES_DEFAULT, parse_interval
from deltaic.delta.segment import Segment, find_segment
from deltaic.delta.snapshot import Snapshot
from deltaic.delta.store import LogFile, TableStore
from deltaic.errors import UnsupportedOperation
from deltaic.table_features import TABLE_FEATURES

from deltaic_checkpoint.log_state import LogState

MAX_LOG_BYTES: Final = 64 << 20
"""Maximum total bytes of the log files to read: the last checkpoint and the commits after it."""

FEATURES: Final = frozenset(feature.name for feature in TABLE_FEATURES if feature.checkpointed)
"""Table features with which a checkpoint is correct if it contains every action unchanged."""

_LONGEST_REASON: Final = 200
_ARCHIVE: Final = "deltalake.zip"


@dataclass(frozen=True, slots=True)
class NewCheckpoint:
    """A checkpoint that has been verified, but not yet written to the table."""

    version: int
    path: str
    """Path relative to the table's root folder."""

    content: bytes
    hint: bytes
    """Content of the file `_last_checkpoint` for this checkpoint."""


@dataclass(frozen=True, slots=True)
class LogCopy:
    """`TableStore` for a copy of a log in a local folder, so that deltalake does not write to the table."""

    root: Path

    def list_log(self, start_after: str = "") -> Iterator[LogFile]:
        """Yield the files of the log whose names sort after `start_after`."""
        for path in sorted((self.root / LOG).iterdir()):
            if path.is_file() and path.name > start_after:
                status = path.stat()
                yield LogFile(path.name, status.st_size, status.st_mtime_ns // 1_000_000)

    def get(self, path: str) -> bytes:
        """Return the content of a file; raises FileNotFoundError."""
        try:
            return (self.root / path).read_bytes()
        except FileNotFoundError as missing:
            raise FileNotFoundError(path) from missing

    def get_many(self, paths: Sequence[str]) -> list[bytes]:
        """Return the contents of several files; raises FileNotFoundError."""
        return [self.get(path) for path in paths]

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return byte ranges of a file; each is (start, end), without the byte at the end."""
        content = self.get(path)
        return [content[start:end] for start, end in ranges]

    def get_tail(self, path: str, length: int) -> tuple[bytes, int]:
        """Return the last `length` bytes of a file, and its size in bytes; raises FileNotFoundError."""
        content = self.get(path)
        return content[-length:], len(content)


def create_checkpoint(store: TableStore, segment: Segment, now_ms: int) -> NewCheckpoint:
    """Create a checkpoint of the version that a segment ends at, without writing to the table.

    Raises UnsupportedOperation, with the reason, if this function cannot create it, and the errors of the store.
    """
    files = [*(segment.checkpoint.files if segment.checkpoint else ()), *(commit.file for commit in segment.commits)]
    size = sum(file.size for file in files)
    if size > MAX_LOG_BYTES:
        raise UnsupportedOperation(f"the log has {size:,} bytes to read, and the maximum is {MAX_LOG_BYTES:,}")
    with tempfile.TemporaryDirectory(prefix="checkpoint-") as folder:
        copy = LogCopy(Path(folder))
        (copy.root / LOG).mkdir()
        for file, content in zip(files, read_all_listed(store, files), strict=True):
            (copy.root / LOG / file.name).write_bytes(content)
        expected = LogState.read(copy, segment)
        protocol, metadata = expected.single.get("protocol", {}), expected.single.get("metaData", {})
        features = {*protocol.get("readerFeatures", ()), *protocol.get("writerFeatures", ())}
        if unsupported := ", ".join(sorted(features - FEATURES)):
            raise UnsupportedOperation(f"this function does not support these table features: {unsupported}")
        expected_reading = _read_version(copy, segment)
        path = f"{LOG}{version_prefix(segment.version)}.checkpoint.parquet"
        _write(copy.root)
        written = find_segment(copy)
        names = [file.name for file in written.checkpoint.files] if written.checkpoint else []
        if names != [path.rpartition("/")[2]] or written.commits:
            raise UnsupportedOperation(f"deltalake wrote no checkpoint of version {segment.version}")
        retention = parse_interval(metadata.get("configuration", {}).get(DELETED_FILES), DELETED_FILES_DEFAULT)
        tombstones_until = now_ms - retention // timedelta(milliseconds=1)
        if difference := expected.difference_from(LogState.read(copy, written), tombstones_until):
            raise UnsupportedOperation(f"deltalake's checkpoint differs from the log: {difference}")
        if _read_version(copy, written) != expected_reading:
            raise UnsupportedOperation("recipients would read deltalake's checkpoint differently from the log")
        return NewCheckpoint(segment.version, path, copy.get(path), copy.get(LAST_CHECKPOINT))


def _write(root: Path) -> None:
    _load_deltalake()
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        DeltaTable(str(root)).create_checkpoint()
    except (DeltaError, ValueError, OSError, NotImplementedError) as refusal:
        reason = str(refusal).strip().partition("\n")[0][:_LONGEST_REASON]
        raise UnsupportedOperation(f"deltalake cannot write a checkpoint: {reason}") from refusal


@cache
def _load_deltalake() -> None:
    """Import deltalake, if necessary from a zip file in its Lambda layer; raises ModuleNotFoundError if neither exists.

    The layer contains a zip file because the function's two layers would exceed Lambda's size limit if unpacked
    (decision 62). The unpacked files are deleted after the import, so none remain if the process is killed later.
    """
    try:
        _import_deltalake()
    except ModuleNotFoundError:
        archive = next((path for folder in sys.path if (path := Path(folder) / _ARCHIVE).is_file()), None)
        if archive is None:
            raise
        with tempfile.TemporaryDirectory(prefix="deltalake-") as folder:
            with zipfile.ZipFile(archive) as zip_file:
                zip_file.extractall(folder)
            sys.path.append(folder)
            _import_deltalake()
            sys.path.remove(folder)


def _import_deltalake() -> None:
    import deltalake
    import deltalake.exceptions  # noqa: F401 -- other functions import it later


def _read_version(copy: LogCopy, segment: Segment) -> tuple[Any, ...]:
    """Return the protocol, the metadata and the files of a version, which the server would send to recipients."""
    snapshot = Snapshot(copy, segment)
    files = [
        {**row, "partitionValues": dict(row["partitionValues"] or ())}
        for batch in snapshot.files()
        for row in batch.to_pylist()
    ]
    files.sort(key=lambda row: (row["path"], vector_id(row["deletionVector"]) or ""))
    parts = [msgspec.structs.asdict(part) for part in (snapshot.protocol, snapshot.metadata)]
    for part in parts:
        del part["raw"]  # the same fields, in the order of the log
    return *parts, files
