"""Index of a table's generated Iceberg metadata, for adding the next version and for signing file URLs."""

import struct
from functools import cached_property
from typing import Any, Final, Self

import msgspec

from deltaic.iceberg.manifests import DIGEST, ListedManifest, digest

_FORMAT: Final = "3"
"""Format number of indexes: increase it if this code generates different metadata for a version."""
_REMOVED: Final = struct.Struct(f"<{DIGEST}sQ")
MOST_SNAPSHOTS: Final = 30
"""Maximum number of versions that one metadata document lists."""


class ListedSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """A version of the table for which a manifest list exists."""

    version: int
    timestamp: int
    manifest_list: str
    """Object key of the manifest list, relative to the location."""
    schema_id: int
    spec_id: int
    format_version: int
    """Iceberg format version: 3 with deletion vectors, else 2."""
    files: int
    rows: int
    """Number of rows in all data files, including rows that deletion vectors delete."""
    deleted: int
    """Number of rows that deletion vectors delete."""


class FileIndex(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """Listed versions of a table, manifests of the newest version, and digests of the files of all versions."""

    snapshots: tuple[ListedSnapshot, ...]
    """Listed versions, in ascending order."""
    manifests: tuple[ListedManifest, ...]
    """Manifests of the newest version: first data files, then deletion vectors."""
    schemas: dict[int, dict[str, Any]]
    specs: dict[int, dict[str, Any]]
    name_mapping: list[dict[str, Any]]
    """Iceberg name mapping for the files of all listed versions."""
    packed_removed: bytes = b""
    """Encoded digests of data files that only older versions contain, each with its last version."""
    generator: str = _FORMAT

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode an index; raises ValueError if the bytes are not an index, or have another format number."""
        try:
            index = msgspec.msgpack.decode(data, type=cls)
        except msgspec.MsgspecError as error:
            raise ValueError(f"the bytes are not a file index: {error}") from error
        if index.generator != _FORMAT:
            raise ValueError(f"the file index has format {index.generator} instead of {_FORMAT}")
        return index

    def encode(self) -> bytes:
        """Encode the index: about 16 bytes for each file and each deletion vector."""
        return msgspec.msgpack.encode(self)

    @property
    def version(self) -> int:
        """The newest listed version."""
        return self.snapshots[-1].version

    @property
    def versions(self) -> tuple[int, ...]:
        """The listed versions, in ascending order."""
        return tuple(snapshot.version for snapshot in self.snapshots)

    def lists_file(self, location: str, uri: str, since: int | None = None) -> bool:
        """Return whether a listed version from `since` on contains a data file; None checks only the newest version.

        False for Delta's files of deletion vectors: clients read Puffin files in the location instead.
        """
        file_digest = digest(location, uri)
        return file_digest in self.live or (since is not None and self.removed.get(file_digest, -1) >= since)

    @cached_property
    def live(self) -> frozenset[bytes]:
        """Digests of the newest version's data files."""
        return frozenset(split(b"".join(manifest.digests for manifest in self.manifests if not manifest.is_deletes)))

    @cached_property
    def removed(self) -> dict[bytes, int]:
        """Digests of data files that only older versions contain, each with the last version that contains the file."""
        return dict(_REMOVED.iter_unpack(self.packed_removed))


def split(digests: bytes) -> list[bytes]:
    """Split concatenated digests into a list."""
    return [digests[start : start + DIGEST] for start in range(0, len(digests), DIGEST)]


def pack_removed(removed: dict[bytes, int]) -> bytes:
    """Encode digests and last versions of removed files for `FileIndex.packed_removed`."""
    return b"".join(_REMOVED.pack(*entry) for entry in sorted(removed.items()))
