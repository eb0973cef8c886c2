"""Open an Iceberg table for Delta Sharing clients."""

from collections.abc import Hashable
from functools import partial
from typing import Any, Final

from deltaic.catalog.items import Table
from deltaic.delta.store import TableStore
from deltaic.errors import TableUnreadable
from deltaic.iceberg_source.manifest_files import TablePaths
from deltaic.iceberg_source.source_log import IcebergLog
from deltaic.iceberg_source.source_metadata import SourceMetadata, decode_metadata_file
from deltaic.iceberg_source.source_snapshot import IcebergSource
from deltaic.lru import Lru, MemoryBudget
from deltaic.sharing.context import SharedTable, Sharing
from deltaic.sharing.native_metadata import find_metadata, read_existing
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.glue_catalog import metadata_location
from deltaic.storage.locations import TableLocations

_TAIL: Final = 64 << 10
"""Bytes at the end of a metadata file that identify its content: small files completely, others by their logs."""
_IN_MEMORY: Final = 4
"""Decoded metadata needs several times the bytes of its file."""


def open_iceberg_log(sharing: Sharing, table: SharedTable, store: TableStore) -> IcebergLog:
    """Read the versions of an Iceberg table with `store`; raises TableUnreadable if it has hidden columns."""
    if table.rights.hidden:
        raise TableUnreadable(
            "the files of this Iceberg table contain a hidden column: ask its provider to show the column"
        )
    return open_source(table.entry, store, sharing.files(table), sharing.home, sharing.memory.iceberg)


def open_source(
    entry: Table, store: TableStore, files: TableStore, home: StorageConfig, cache: Lru[Hashable, Any] | None = None
) -> IcebergLog:
    """Read the current metadata of an Iceberg table with `store`; delete files are read with `files` when needed.

    `home` is the storage whose AWS Glue has the table. The errors are those of `read_native_metadata`.
    """
    cache = Lru(MemoryBudget(0)) if cache is None else cache
    locations = TableLocations.parse(entry.location, entry.auxiliary_locations)
    path = find_metadata(store, locations, entry.metadata_location, partial(metadata_location, home))
    tail, size = read_existing(lambda path: store.get_tail(path, _TAIL), path)
    identity = f"{locations!r} {entry.storage}"
    key: Hashable = ("metadata", identity, path, size, tail)
    metadata: SourceMetadata | None = cache.get(key)
    if metadata is None:
        document = tail if size == len(tail) else read_existing(store.get, path)
        metadata = decode_metadata_file(document, path)
        cache.put(key, metadata, _IN_MEMORY * size)
    return IcebergLog(IcebergSource(store, files, TablePaths(locations.root.uri), metadata, cache, identity))
