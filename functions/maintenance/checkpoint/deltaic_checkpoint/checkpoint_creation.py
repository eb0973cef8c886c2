"""Create a checkpoint with deltalake in a copy of the log, and compare it with the log.

deltalake has no access to the table: so it cannot delete commits, and an incomplete checkpoint is discarded before a
client could read it. Tables that are refused here need Spark.
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
"""Maximum size of the log files to read: the last checkpoint and the commits after it."""

FEATURES: Final = frozenset(feature.name for feature in TABLE_FEATURES if feature.checkpointed)
"""Table features for which a checkpoint only has to keep every action unchanged."""

_LONGEST_REASON: Final = 200
_ARCHIVE: Final = "deltalake.zip"


@dataclass(frozen=True, slots=True)
class NewCheckpoint:
    """A checkpoint that is verified but not yet written to the table."""

    version: int
    path: str
    """Path below the table's root."""

    content: bytes
    hint: bytes
    """Content of `_last_checkpoint`."""


@dataclass(frozen=True, slots=True)
class LogCopy:
    """A copy of a log in a local folder, so that writes do not reach the table."""

    root: Path

    def list_log(self, start_after: str = "") -> Iterator[LogFile]:
        """See `TableStore`."""
        for path in sorted((self.root / LOG).iterdir()):
            if path.is_file() and path.name > start_after:
                status = path.stat()
                yield LogFile(path.name, status.st_size, status.st_mtime_ns // 1_000_000)

    def get(self, path: str) -> bytes:
        """See `TableStore`."""
        try:
            return (self.root / path).read_bytes()
        except FileNotFoundError as missing:
            raise FileNotFoundError(path) from missing

    def get_many(self, paths: Sequence[str]) -> list[bytes]:
        """See `TableStore`."""
        return [self.get(path) for path in paths]

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """See `TableStore`."""
        content = self.get(path)
        return [content[start:end] for start, end in ranges]

    def get_tail(self, path: str, length: int) -> tuple[bytes, int]:
        """See `TableStore`."""
        content = self.get(path)
        return content[-length:], len(content)


def create_checkpoint(store: TableStore, segment: Segment, now_ms: int) -> NewCheckpoint:
    """Return a checkpoint of a segment's version, without writing to the table.

    Raises UnsupportedOperation, with the reason, if this function cannot create it, and what the store raises.
    """
    files = [*(segment.checkpoint.files if segment.checkpoint else ()), *(commit.file for commit in segment.commits)]
    size = sum(file.size for file in files)
    if size > MAX_LOG_BYTES:
        raise UnsupportedOperation(f"its log has {size:,} bytes to read, and the maximum is {MAX_LOG_BYTES:,}")
    with tempfile.TemporaryDirectory(prefix="checkpoint-") as folder:
        copy = LogCopy(Path(folder))
        (copy.root / LOG).mkdir()
        for file, content in zip(files, read_all_listed(store, files), strict=True):
            (copy.root / LOG / file.name).write_bytes(content)
        expected = LogState.read(copy, segment)
        protocol, metadata = expected.single.get("protocol", {}), expected.single.get("metaData", {})
        features = {*protocol.get("readerFeatures", ()), *protocol.get("writerFeatures", ())}
        if unsupported := ", ".join(sorted(features - FEATURES)):
            raise UnsupportedOperation(f"it has table features that this function does not support: {unsupported}")
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
        raise UnsupportedOperation(f"deltalake cannot write it: {reason}") from refusal


@cache
def _load_deltalake() -> None:
    """Import deltalake, from the archive in its layer if necessary; raises ModuleNotFoundError without both.

    The layer has an archive because both layers would exceed Lambda's size limit if unpacked (decision 62). The
    unpacked files are deleted after the import, so that none remain if the process is killed later.
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
    """Return protocol, metadata and files of a version, as the server reads them for recipients."""
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
