"""Write Iceberg tables with pyiceberg into a folder, and read them as a Delta Sharing client does."""

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import delta_kernel_rust_sharing_wrapper as kernel  # type: ignore[import-untyped]
import pyarrow as pa
from delta_tables.folder_store import FolderStore
from deltaic.delta.deletion_vectors import DeletionVector, inline, read_framed
from deltaic.delta.file_filter import FileFilter
from deltaic.iceberg_source.manifest_files import TablePaths
from deltaic.iceberg_source.source_log import IcebergLog
from deltaic.iceberg_source.source_metadata import decode_metadata_file
from deltaic.iceberg_source.source_snapshot import IcebergSnapshot, IcebergSource
from deltaic.lru import Lru, MemoryBudget
from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.io import load_file_io
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import CommitTableResponse, Table

CACHE_BYTES: Final = 64 << 20


class FolderCatalog(MetastoreCatalog):
    """Catalog of pyiceberg whose tables are folders; it knows the tables that it created."""

    def __init__(self, folder: Path) -> None:
        super().__init__("folder")
        self._folder = folder
        self._latest: dict[str, str] = {}

    def create_table(self, identifier: Any, schema: Any, *arguments: Any, **options: Any) -> Table:
        location = (self._folder / str(identifier)).as_uri()
        staged = self._create_staged_table(("main", str(identifier)), schema, location, *arguments, **options)
        self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
        self._latest[str(identifier)] = staged.metadata_location
        return self.load_table(("main", str(identifier)))

    def load_table(self, identifier: Any) -> Table:
        location = self._latest[identifier[-1]]
        io = load_file_io({}, location)
        return Table(identifier, FromInputFile.table_metadata(io.new_input(location)), location, io, self)

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        name = table.name()
        staged = self._update_and_stage_table(self.load_table(name), name, requirements, updates)
        self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
        self._latest[name[-1]] = staged.metadata_location
        return CommitTableResponse(metadata=staged.metadata, **{"metadata-location": staged.metadata_location})

    def _unused(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    load_namespace_properties = view_exists = update_namespace_properties = drop_view = list_tables = _unused
    list_views = drop_namespace = register_table = register_view = create_namespace = load_view = _unused
    drop_table = rename_table = list_namespaces = _unused


for _name in MetastoreCatalog.__abstractmethods__:
    assert _name in vars(FolderCatalog), _name


def open_source(location: str, metadata_location: str) -> IcebergLog:
    """Return the engine's versions of a table in a folder of this machine."""
    root = Path(location.removeprefix("file://"))
    store = FolderStore(root)
    path = metadata_location.removeprefix(f"{location}/")
    cache: Lru[Any, Any] = Lru(MemoryBudget(CACHE_BYTES))
    metadata = decode_metadata_file(store.get(path), path)
    # Spark writes file:/ in paths, but file:/// in the location.
    hadoop = any(snapshot.manifest_list.startswith(f"file:{root}") for snapshot in metadata.snapshots)
    paths = TablePaths(f"file:{root}" if hadoop else location)
    return IcebergLog(IcebergSource(store, store, paths, metadata, cache, location))


def source_of(table: Table) -> IcebergLog:
    """Return the engine's versions of a pyiceberg table."""
    return open_source(table.metadata.location, table.metadata_location)


def adds(snapshot: IcebergSnapshot, location: str, file_filter: FileFilter | None = None) -> Iterator[dict[str, Any]]:
    """Yield the `add` actions of a version, with inline deletion vectors, as a client gets them."""
    store = FolderStore(Path(location.removeprefix("file://")))
    for batch in snapshot.load_commits().scan(file_filter):
        for row in batch.files.to_pylist():
            vector = row.pop("deletionVector")
            action = {name: value for name, value in row.items() if value is not None}
            action |= {"partitionValues": dict(row["partitionValues"]), "dataChange": True}
            if "://" not in row["path"]:
                action["path"] = f"{location}/{row['path']}"
            if vector is not None:
                stored = DeletionVector(
                    vector["storageType"],
                    vector["pathOrInlineDv"],
                    vector["sizeInBytes"],
                    vector["cardinality"],
                    vector["offset"],
                )
                (framed,) = read_framed(store, [stored])
                text = stored.path_or_inline_dv if framed is None else inline(framed, stored.size_in_bytes)
                action["deletionVector"] = {
                    "storageType": "i",
                    "pathOrInlineDv": text,
                    "sizeInBytes": stored.size_in_bytes,
                    "cardinality": stored.cardinality,
                }
            yield {"add": action}


def client_actions(
    snapshot: IcebergSnapshot, location: str, file_filter: FileFilter | None = None
) -> list[dict[str, Any]]:
    """Return the actions of a version, from which clients make a log with one commit."""
    return [
        {"protocol": json.loads(snapshot.protocol.raw)},
        {"metaData": json.loads(snapshot.metadata.raw)},
        *adds(snapshot, location, file_filter),
    ]


def client_rows(snapshot: IcebergSnapshot, location: str, file_filter: FileFilter | None = None) -> pa.Table:
    """Return the rows of a version as the published Python client's reader returns them."""
    actions = client_actions(snapshot, location, file_filter)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "_delta_log")
        log.mkdir()
        (log / f"{0:020d}.json").write_text("".join(f"{json.dumps(action)}\n" for action in actions), encoding="utf-8")
        url = f"file://{folder}"
        interface = kernel.PythonInterface(url)
        scan = kernel.ScanBuilder(kernel.Table(url).snapshot(interface)).build()
        reader = scan.execute(interface)
        return pa.Table.from_batches(reader, reader.schema)


def without_zone(value: Any) -> Any:
    """Return a timestamp without its zone, and any other value unchanged."""
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def sorted_rows(table: pa.Table, normal: Callable[[Any], Any] = repr) -> Sequence[Any]:
    """Return the rows of a table as sorted texts, in which timestamps have no zone."""
    return sorted(repr([(name, normal(value)) for name, value in row.items()]) for row in table.to_pylist())
