"""Generate Iceberg metadata of a Delta table in a local folder, for clients that read it."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from delta_tables.folder_store import FolderStore
from deltaic.delta.file_filter import FileFilter
from deltaic.delta.log import DeltaLog
from deltaic.iceberg.file_index import FileIndex
from deltaic.iceberg.generation import first_index, live_digests, newer_index, with_earlier
from deltaic.iceberg.table_document import table_document
from deltaic.iceberg.table_version import MetadataContext, TableVersion

TABLE_ID = "8d7a6b5c-0000-4000-8000-000000000001"


class AbsoluteStore(FolderStore):
    """A FolderStore that also reads absolute `file:` paths of the log."""

    def _read(self, path: str) -> bytes:
        if path.startswith("file:"):
            return Path(unquote(path.removeprefix("file:"))).read_bytes()
        return super()._read(path)


@dataclass
class IcebergFolder:
    """The Iceberg metadata of a Delta table in a folder."""

    table: Path
    folder: Path
    objects: dict[str, bytes] = field(default_factory=dict)
    """Written objects by key."""

    def __post_init__(self) -> None:
        self.store = AbsoluteStore(self.table)
        self.log = DeltaLog(self.store)

    @property
    def context(self) -> MetadataContext:
        return MetadataContext(f"file://{self.folder}", self._put, self._uris, self.store)

    def version(self, number: int, file_filter: FileFilter | None = None) -> TableVersion:
        snapshot = self.log.snapshot(number)
        # Commits of golden tables can have the same time: put them a minute apart.
        time = 1_700_000_000_000 + 60_000 * number
        return TableVersion(number, time, snapshot.metadata, lambda: snapshot.files(file_filter))

    def index(self, versions: Iterable[int]) -> FileIndex:
        """Add versions one after the other, each to the decoded index of the previous one."""
        index: FileIndex | None = None
        numbers = list(versions)
        for number in numbers:
            version = self.version(number)
            if index is None:
                earliest = min(numbers)
                settled = live_digests(self.context, self.version(earliest)) if earliest < number else None
                index = first_index(self.context, version, settled)
            elif number > index.version:
                index = newer_index(self.context, version, FileIndex.decode(index.encode()))
            else:
                index = with_earlier(self.context, version, FileIndex.decode(index.encode()))
        assert index is not None
        return index

    def write_document(self, index: FileIndex, *, since: int | None = 0, name: str = "table") -> Path:
        document = table_document(self.context, TABLE_ID, index, since=since)
        path = self.folder / f"{name}.metadata.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document))
        return path

    def _put(self, key: str, content: bytes) -> None:
        assert self.objects.get(key, content) == content
        self.objects[key] = content
        path = self.folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def _uris(self, paths: pa.StringArray) -> Sequence[str]:
        return [self._uri(path) for path in paths.to_pylist()]

    def _uri(self, path: str) -> str:
        if path.startswith("file:"):
            return "file://" + re.sub("^/+", "/", unquote(path.removeprefix("file:")))
        return f"file://{self.table}/{unquote(path)}"


def snapshot_rows(table: Any, version: int, **scan: Any) -> pa.Table:
    """Return the rows of a version, read by pyiceberg."""
    rows: pa.Table = table.scan(snapshot_id=10**12 + version, **scan).to_arrow()
    return rows
