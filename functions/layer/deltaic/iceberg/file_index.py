"""What was made for a table, and of which files: kept beside it, read by whoever makes the next version or signs."""

import struct
from functools import cached_property
from typing import Any, Final, Self

import msgspec

from deltaic.iceberg.manifests import DIGEST, ListedManifest, digest

_GENERATOR: Final = "3"
"""Changes where what is made of the same version does."""
_GONE: Final = struct.Struct(f"<{DIGEST}sQ")
MOST_SNAPSHOTS: Final = 30
"""Versions that are listed beside each other."""


class ListedSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """A version that has a manifest list."""

    version: int
    timestamp: int
    manifest_list: str
    """Its key."""
    schema_id: int
    spec_id: int
    format_version: int
    """3 where it has deletion vectors, else 2."""
    files: int
    rows: int
    """Of all data files."""
    deleted: int
    """Of these, by deletion vectors."""


class FileIndex(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """The manifests of one version, the versions that are listed with it, and all files that these have."""

    snapshots: tuple[ListedSnapshot, ...]
    """Ascending."""
    manifests: tuple[ListedManifest, ...]
    """Of the last of them, those of deletion vectors behind the others."""
    schemas: dict[int, dict[str, Any]]
    specs: dict[int, dict[str, Any]]
    name_mapping: list[dict[str, Any]]
    """Of all listed versions."""
    packed_gone: bytes = b""
    """Files that the last version no longer has, with the last listed version that has them."""
    generator: str = _GENERATOR

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read what `encode` made; raises ValueError for anything else, another generator's index among it."""
        try:
            index = msgspec.msgpack.decode(data, type=cls)
        except msgspec.MsgspecError as error:
            raise ValueError(f"this is no index: {error}") from error
        if index.generator != _GENERATOR:
            raise ValueError("this is another generator's index")
        return index

    def encode(self) -> bytes:
        """Return some 16 bytes a file, and as many a deletion vector."""
        return msgspec.msgpack.encode(self)

    @property
    def version(self) -> int:
        """The newest version that is listed, whose manifests these are."""
        return self.snapshots[-1].version

    @property
    def versions(self) -> tuple[int, ...]:
        """The versions that are listed, ascending."""
        return tuple(one.version for one in self.snapshots)

    def lists_file(self, location: str, uri: str, since: int | None = None) -> bool:
        """Tell whether a data file, by its URI, is one of a listed version from `since` on; None for the newest alone.

        Deletion vectors are read from Puffin files below the location, and never from the table.
        """
        name = digest(location, uri)
        return name in self.live or (since is not None and self.gone.get(name, -1) >= since)

    @cached_property
    def live(self) -> frozenset[bytes]:
        """The data files of the newest version."""
        return frozenset(name for one in self.manifests if not one.is_deletes for name in split(one.digests))

    @cached_property
    def gone(self) -> dict[bytes, int]:
        """The data files of other listed versions, with the last one that has each."""
        return dict(_GONE.iter_unpack(self.packed_gone))


def split(digests: bytes) -> list[bytes]:
    """Return digests that stand one behind the other."""
    return [digests[at : at + DIGEST] for at in range(0, len(digests), DIGEST)]


def pack_gone(gone: dict[bytes, int]) -> bytes:
    """Return what `FileIndex.packed_gone` is."""
    return b"".join(_GONE.pack(*one) for one in sorted(gone.items()))
