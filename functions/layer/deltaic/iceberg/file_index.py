"""What was made for a table, and of which files: kept beside it, read by whoever makes the next version or signs."""

from typing import Self

import msgspec


class FileIndex(msgspec.Struct, frozen=True):
    """The manifests of one version, the versions that are listed with it, and all files that these have."""

    version: int
    """The newest version that is listed, whose manifests these are."""

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read what `encode` made; raises ValueError for anything else, another generator's index among it."""
        raise NotImplementedError

    def encode(self) -> bytes:
        """Return some 8 bytes a file."""
        raise NotImplementedError

    @property
    def versions(self) -> tuple[int, ...]:
        """The versions that are listed, ascending."""
        raise NotImplementedError

    def lists_file(self, uri: str, since: int = 0) -> bool:
        """Tell whether a data file, by its URI, is one of a listed version from `since` on."""
        raise NotImplementedError
