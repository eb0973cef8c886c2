"""Read the current metadata of a table that is already in Iceberg format.

The catalog entry has the URI of the metadata file or the name of a table in AWS Glue or S3 Tables. Without either,
`version-hint.text` in the table's folder names the file. A listing of the folder would not show which file is current,
because failed commits also leave metadata files.
"""

import gzip
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec

from deltaic.delta.store import TableStore
from deltaic.errors import InvalidParameter, TableUnreadable
from deltaic.iceberg_source.source_metadata import decoding
from deltaic.platform_limits import BUFFERED_BYTES
from deltaic.storage.locations import Location, TableLocations
from deltaic.storage.table_catalogs import GLUE, TABLE_BUCKET, ClientOf, find_table

_HINT: Final = "metadata/version-hint.text"
_SUFFIX: Final = ".metadata.json"
MAX_BYTES: Final = BUFFERED_BYTES // 2
"""Largest size of a metadata document, because the response contains it."""
_PATHS: Final = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
"""Table properties with locations of files outside the table's folder."""


class _NativeDocument(msgspec.Struct):
    location: str
    properties: dict[str, str] = {}


def read_native_metadata(
    store: TableStore, locations: TableLocations, reference: str, client_of: ClientOf
) -> tuple[str, bytes]:
    """Return the URI of the current metadata document of an Iceberg table, and the document as its writer stored it.

    `reference` is a URI, the name of a table in AWS Glue or S3 Tables, or empty for the version hint. Raises
    TableUnreadable if the metadata does not exist, is invalid, or names files outside the table's locations, and the
    errors of `find_table`.
    """
    path = find_metadata(store, locations, reference, client_of)
    content = read_existing(store.get, path)
    with decoding(path):
        document = gzip.decompress(content) if ".gz." in path else content
        native = msgspec.json.decode(document, type=_NativeDocument)
    for uri in filter(None, (native.location, *map(native.properties.get, _PATHS))):
        _check_shared(locations, uri)
    if len(document) > MAX_BYTES:
        raise TableUnreadable(
            "the table's Iceberg metadata is too large for a response: ask its provider to expire old snapshots", path
        )
    return f"{locations.root.uri}/{path}", document


def find_metadata(store: TableStore, locations: TableLocations, reference: str, client_of: ClientOf) -> str:
    """Return the path of the current metadata file, relative to the table's folder; see `read_native_metadata`."""
    if reference.startswith((GLUE, TABLE_BUCKET)):
        reference = find_table(client_of, reference).metadata_uri
    return _relative_path(locations.root, reference) if reference else _hinted_path(store)


def _hinted_path(store: TableStore) -> str:
    hint = read_existing(store.get, _HINT).decode("utf-8", "replace").strip()
    name = f"v{hint}" if hint.isdecimal() else hint.removesuffix(_SUFFIX)
    return f"metadata/{name}{_SUFFIX}"


def read_existing(read: Callable[[str], Any], path: str) -> Any:
    """Return the result of `read` for a metadata file; raises TableUnreadable with the remedy if it is missing."""
    try:
        return read(path)
    except FileNotFoundError as missing:
        raise TableUnreadable(
            "the table's Iceberg metadata does not exist: ask its provider to set the metadata file or the AWS Glue "
            "table in the catalog entry",
            path,
        ) from missing


def _relative_path(root: Location, uri: str) -> str:
    """Return the path relative to the table's folder; raises TableUnreadable for a URI outside of it."""
    scheme, _, rest = uri.partition("://")
    path = f"s3://{rest}".removeprefix(f"{root.uri}/") if scheme in {"s3", "s3a", "s3n"} else uri
    if path == uri or path.startswith("s3://"):
        raise TableUnreadable(
            "the metadata file is outside the table's folder: ask its provider to correct the catalog entry", uri
        )
    return path


def _check_shared(locations: TableLocations, uri: str) -> None:
    with suppress(InvalidParameter):
        if any(location.contains(Location.parse(uri)) for location in locations):
            return
    raise TableUnreadable(
        "the table's metadata names files outside the shared locations: ask its provider to add their folder to "
        "the table's auxiliary locations",
        uri,
    )
