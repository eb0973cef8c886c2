"""Finds the current metadata of a table that is one of Iceberg's already, by whoever keeps it.

The entry names the file, or AWS Glue does, or (of a table that a file system catalogs) the version hint in its folder.
Nothing else tells which of several files is current: a commit that failed leaves one too.
"""

import gzip
import json
import zlib
from collections.abc import Callable
from typing import Any, Final

import msgspec

from deltaic.delta.store import TableStore
from deltaic.errors import InvalidParameter, TableUnreadable
from deltaic.platform_limits import BUFFERED_BYTES
from deltaic.storage.locations import Location, TableLocations

GLUE: Final = "glue://"
_HINT: Final = "metadata/version-hint.text"
_SUFFIX: Final = ".metadata.json"
MOST_BYTES: Final = BUFFERED_BYTES // 2
"""Of a table's metadata, which leave with the answer."""
_PLACES: Final = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
"""Properties that lead files elsewhere than below the table's location."""


class NativeMetadata(msgspec.Struct, frozen=True):
    """The metadata of a table, as its writer has put it."""

    location: str
    document: bytes


def read_native_metadata(
    store: TableStore, locations: TableLocations, named: str, glue: Callable[[str, str], str]
) -> NativeMetadata:
    """Return the current metadata; `named` is what the entry says, `glue` gives what Glue says of database and table.

    Raises TableUnreadable where it is not there, cannot be read, or leads to files outside of the table's locations.
    """
    if named.startswith(GLUE):
        named = glue(*named.removeprefix(GLUE).split("/", 1))
    path = _below(locations.root, named) if named else _hinted(store)
    content = _read(store, path)
    try:
        document = gzip.decompress(content) if ".gz." in path else content
        found: dict[str, Any] = json.loads(document)
        told = [str(found["location"]), *(found.get("properties", {}).get(name) for name in _PLACES)]
    except (ValueError, KeyError, AttributeError, TypeError, EOFError, RecursionError, zlib.error) as broken:
        raise TableUnreadable("the table's metadata cannot be read: its provider must act", path) from broken
    for place in filter(None, told):
        _check_shared(locations, str(place))
    if len(document) > MOST_BYTES:
        raise TableUnreadable(
            "the table's metadata is larger than an answer may be: its provider can expire old snapshots", path
        )
    return NativeMetadata(f"{locations.root.uri}/{path}", document)


def _hinted(store: TableStore) -> str:
    hint = _read(store, _HINT).decode("utf-8", "replace").strip()
    name = f"v{hint}" if hint.isdecimal() else hint.removesuffix(_SUFFIX)
    return f"metadata/{name}{_SUFFIX}"


def _read(store: TableStore, path: str) -> bytes:
    try:
        return store.get(path)
    except FileNotFoundError as missing:
        raise TableUnreadable(
            "the table's metadata is not where it is looked for: its provider must name the metadata file, or the "
            "table in AWS Glue",
            path,
        ) from missing


def _below(root: Location, uri: str) -> str:
    """Return the path below the table's folder; raises TableUnreadable for metadata elsewhere."""
    scheme, _, rest = uri.partition("://")
    path = f"s3://{rest}".removeprefix(f"{root.uri}/") if scheme in {"s3", "s3a", "s3n"} else uri
    if path == uri or path.startswith("s3://"):
        raise TableUnreadable(
            "the table's metadata lies outside of its folder: its provider must correct its entry", uri
        )
    return path


def _check_shared(locations: TableLocations, place: str) -> None:
    try:
        there = Location.parse(place)
    except InvalidParameter:
        there = None
    if there is None or not any(one.contains(there) for one in locations):
        raise TableUnreadable(
            "the table's metadata leads to files outside of what is shared: its provider can add their folder to the "
            "table's auxiliary locations",
            place,
        )
