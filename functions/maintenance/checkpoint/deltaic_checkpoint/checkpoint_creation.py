"""Makes a checkpoint: deltalake writes it into a copy of the log, and it counts only if it says what the log says.

deltalake never sees the table itself: it can delete no commit there, and a checkpoint that loses something is thrown
away before anybody could read it. What cannot be done here is refused, and is Spark's.
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
from deltaic.delta.property_intervals import DELETED_FILES, DELETED_FILES_UNSAID, parse_interval
from deltaic.delta.segment import Segment, find_segment
from deltaic.delta.snapshot import Snapshot
from deltaic.delta.store import LogFile, TableStore
from deltaic.errors import UnsupportedOperation
from deltaic.table_features import TABLE_FEATURES

from deltaic_checkpoint.log_state import LogState

BYTES: Final = 64 << 20
"""Of the log's files that are read: the last checkpoint and the commits after it."""

FEATURES: Final = frozenset(one.name for one in TABLE_FEATURES if one.checkpointed)
"""Table features that ask nothing of a checkpoint but that it keeps every action as it is."""

_LONGEST_REASON: Final = 200
_ARCHIVE: Final = "deltalake.zip"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that says what the log says, not sent yet."""

    version: int
    path: str
    """Below the table's root."""

    content: bytes
    hint: bytes
    """What `_last_checkpoint` says of it."""


@dataclass(frozen=True, slots=True)
class LogCopy:
    """A copy of a log in a folder of this machine: what is done there reaches the table only when it is sent."""

    root: Path

    def list_log(self, start_after: str = "") -> Iterator[LogFile]:
        """See `TableStore`."""
        for path in sorted((self.root / LOG).iterdir()):
            if path.is_file() and path.name > start_after:
                found = path.stat()
                yield LogFile(path.name, found.st_size, found.st_mtime_ns // 1_000_000)

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


def make(store: TableStore, segment: Segment, now_ms: int) -> Checkpoint:
    """Return the checkpoint of a segment's version; the table is only read.

    Raises UnsupportedOperation, saying why, for a table that is not for this function, and what the store raises.
    """
    files = [*(segment.checkpoint.files if segment.checkpoint else ()), *(one.file for one in segment.commits)]
    size = sum(file.size for file in files)
    if size > BYTES:
        raise UnsupportedOperation(f"{size:,} bytes of its log would have to be read, and {BYTES:,} are the most here")
    with tempfile.TemporaryDirectory(prefix="checkpoint-") as folder:
        copy = LogCopy(Path(folder))
        (copy.root / LOG).mkdir()
        for file, content in zip(files, read_all_listed(store, files), strict=True):
            (copy.root / LOG / file.name).write_bytes(content)
        before = LogState.read(copy, segment)
        protocol, metadata = before.single.get("protocol", {}), before.single.get("metaData", {})
        features = {*protocol.get("readerFeatures", ()), *protocol.get("writerFeatures", ())}
        if strange := ", ".join(sorted(features - FEATURES)):
            raise UnsupportedOperation(f"it has table features that no checkpoint is written for here: {strange}")
        readings = _reading(copy, segment)
        path = f"{LOG}{version_prefix(segment.version)}.checkpoint.parquet"
        _write(copy.root)
        written = find_segment(copy)
        names = [file.name for file in written.checkpoint.files] if written.checkpoint else []
        if names != [path.rpartition("/")[2]] or written.commits:
            raise UnsupportedOperation(f"deltalake wrote no checkpoint of version {segment.version}")
        kept = parse_interval(metadata.get("configuration", {}).get(DELETED_FILES), DELETED_FILES_UNSAID)
        if lost := before.lost_in(LogState.read(copy, written), now_ms - kept // timedelta(milliseconds=1)):
            raise UnsupportedOperation(f"deltalake's checkpoint does not keep everything: {lost}")
        if _reading(copy, written) != readings:
            raise UnsupportedOperation("deltalake's checkpoint would be read in another way than the log")
        return Checkpoint(segment.version, path, copy.get(path), copy.get(LAST_CHECKPOINT))


def _write(root: Path) -> None:
    _provide()
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        DeltaTable(str(root)).create_checkpoint()
    except (DeltaError, ValueError, OSError, NotImplementedError) as refusal:
        reason = str(refusal).strip().partition("\n")[0][:_LONGEST_REASON]
        raise UnsupportedOperation(f"deltalake cannot write it: {reason}") from refusal


@cache
def _provide() -> None:
    """Make `import deltalake` work, by the archive of its layer where that is; raises ModuleNotFoundError without both.

    Unpacked, both layers together would be larger than Lambda takes (decision 62). What was unpacked is deleted as soon
    as it is loaded: the disk has it back when this process ends, however it ends.
    """
    try:
        _load()
    except ModuleNotFoundError:
        archive = next((path for folder in sys.path if (path := Path(folder) / _ARCHIVE).is_file()), None)
        if archive is None:
            raise
        with tempfile.TemporaryDirectory(prefix="deltalake-") as folder:
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(folder)
            sys.path.append(folder)
            _load()
            sys.path.remove(folder)


def _load() -> None:
    """Import all that is used."""
    import deltalake
    import deltalake.exceptions  # noqa: F401 -- loaded for whoever imports it later


def _reading(copy: LogCopy, segment: Segment) -> tuple[Any, ...]:
    """Return what recipients are told of a version: the layer's own reading of it."""
    snapshot = Snapshot(copy, segment)
    files = [
        {**row, "partitionValues": dict(row["partitionValues"] or ())}
        for batch in snapshot.files()
        for row in batch.to_pylist()
    ]
    files.sort(key=lambda row: (row["path"], vector_id(row["deletionVector"]) or ""))
    parts = [msgspec.structs.asdict(part) for part in (snapshot.protocol, snapshot.metadata)]
    for part in parts:
        del part["raw"]  # the same fields in the order in which they were found
    return *parts, files
