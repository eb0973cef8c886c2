"""Open an Iceberg table for Delta Sharing clients."""

from collections.abc import Hashable
from typing import Any, Final

from deltaic.delta.store import TableStore
from deltaic.errors import TableUnreadable
from deltaic.iceberg_source.manifest_files import TablePaths
from deltaic.iceberg_source.source_log import IcebergLog
from deltaic.iceberg_source.source_metadata import SourceMetadata, decode_metadata_file
from deltaic.iceberg_source.source_snapshot import IcebergSource
from deltaic.lru import Lru, MemoryBudget
from deltaic.sharing.context import SharedTable, Sharing
from deltaic.sharing.native_metadata import find_metadata, read_existing
from deltaic.storage.locations import TableLocations
from deltaic.storage.table_catalogs import ClientOf, clients_at

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
    reference, client_of = table.entry.metadata_location, clients_at(sharing.home)
    return open_source(
        store, table.locations, reference, client_of, sharing.files(table), sharing.memory.iceberg, table.identity
    )


def open_source(  # noqa: PLR0913, PLR0917 -- the parts of a table
    store: TableStore,
    locations: TableLocations,
    reference: str,
    client_of: ClientOf,
    files: TableStore | None = None,
    cache: Lru[Hashable, Any] | None = None,
    identity: str = "",
) -> IcebergLog:
    """Read the current metadata of an Iceberg table with `store`; delete files are read with `files` when needed.

    `identity` is the table's key in `cache`. Raises UnsupportedOperation and the errors of `find_metadata`.
    """
    path = find_metadata(store, locations, reference, client_of)
    cache = Lru(MemoryBudget(0)) if cache is None else cache
    tail, size = read_existing(lambda path: store.get_tail(path, _TAIL), path)
    key: Hashable = ("metadata", identity, path, size, tail)
    metadata: SourceMetadata | None = cache.get(key)
    if metadata is None:
        document = tail if size == len(tail) else read_existing(store.get, path)
        metadata = decode_metadata_file(document, path)
        cache.put(key, metadata, _IN_MEMORY * size)
    return IcebergLog(IcebergSource(store, files or store, TablePaths(locations.root.uri), metadata, cache, identity))
