"""Deletion vector descriptors and what they refer to: which file, which bytes, and which id it gives a logical file.

Delta protocol, "Deletion Vector Descriptor Schema": `u` is a file named by a UUID in Z85 after an optional random
prefix, `p` an absolute path, `i` the bytes themselves.
"""

import base64
import struct
import uuid
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Self

import msgspec

from deltaic.delta.log_files import reading
from deltaic.delta.store import TableStore
from deltaic.errors import TableUnreadable

_Z85: Final = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_BASE85: Final = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
"""The alphabet of Python's base 85, which is that of RFC 1924."""
_TO_Z85: Final = bytes.maketrans(_BASE85, _Z85)
_FROM_Z85: Final = bytes(_BASE85[_Z85.index(byte)] if byte in _Z85 else 0 for byte in range(256))
"""Bytes outside the alphabet become 0, which is in neither."""
_LENGTH: Final = struct.Struct(">I")
_ENCODED_UUID: Final = 20
_FILES_AT_ONCE: Final = 16
"""Files of vectors that are read at the same time."""
_GROUP: Final = 5


class DeletionVector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A deletion vector descriptor as it stands in the log; `size_in_bytes` is what the log says, before framing."""

    storage_type: str
    path_or_inline_dv: str
    size_in_bytes: int = 0
    cardinality: int = 0
    offset: int | None = None

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Self:
        """Return the vector of a row of DELETION_VECTOR (deltaic.delta.scan.file_batches)."""
        size, cardinality = row["sizeInBytes"] or 0, row["cardinality"] or 0
        return cls(row["storageType"], row["pathOrInlineDv"], size, cardinality, row["offset"])

    @property
    def row(self) -> dict[str, str | int | None]:
        """The vector as such a row."""
        return dict(msgspec.to_builtins(self))

    @property
    def unique_id(self) -> str:
        """The id that, with the path, names a logical file (Delta protocol, "Derived Fields": `uniqueId`)."""
        return unique_id(self.storage_type, self.path_or_inline_dv, self.offset)


def unique_id(storage_type: str, path_or_inline_dv: str, offset: int | None) -> str:
    """Return `<storageType><pathOrInlineDv>`, followed by `@<offset>` where there is an offset."""
    name = storage_type + path_or_inline_dv
    return name if offset is None else f"{name}@{offset}"


def file_path(storage_type: str, path_or_inline_dv: str) -> str | None:
    """Return the path of the file that holds the vector; None for an inline one.

    `u` gives a path relative to the table's root and not URI-encoded; `p` gives the log's own absolute path. Raises
    TableUnreadable for a storage type that the protocol does not have and for a name that is no UUID.
    """
    if storage_type == "i":
        return None
    if storage_type == "p":
        return path_or_inline_dv
    if storage_type != "u":
        raise TableUnreadable(f"the log has a deletion vector of unknown storage type '{storage_type}'")
    prefix, encoded = path_or_inline_dv[:-_ENCODED_UUID], path_or_inline_dv[-_ENCODED_UUID:]
    raw = decode_z85(encoded)
    if len(encoded) != _ENCODED_UUID:
        raise TableUnreadable("the log has a deletion vector with a name that is no UUID", path_or_inline_dv)
    name = f"deletion_vector_{uuid.UUID(bytes=raw)}.bin"
    return f"{prefix}/{name}" if prefix else name


def framed_range(offset: int, size_in_bytes: int) -> tuple[int, int]:
    """Return which bytes of its file `[start, end)` a vector takes, with the length before it and the CRC-32 after."""
    return offset, offset + _LENGTH.size + size_in_bytes + _LENGTH.size


def inline(framed: bytes, size_in_bytes: int) -> str:
    """Return the text of an inline vector (storage type `i`) for the bytes of `framed_range`.

    Delta protocol, "Deletion Vector Format": length and CRC-32 are big-endian, the data between them is the vector as
    it stands inline. Raises TableUnreadable where they contradict each other.
    """
    data = framed[_LENGTH.size : -_LENGTH.size]
    length, crc = _LENGTH.unpack_from(framed)[0], _LENGTH.unpack(framed[-_LENGTH.size :])[0]
    if length != size_in_bytes or zlib.crc32(data) != crc:
        raise TableUnreadable("a deletion vector of this table is corrupt, or is not where the log says that it is")
    return encode_z85(data + b"\0" * (-len(data) % 4))


def encode_z85(data: bytes) -> str:
    """Encode bytes, whose number is a multiple of four, as Z85 (ZeroMQ RFC 32)."""
    return base64.b85encode(data).translate(_TO_Z85).decode()


def decode_z85(text: str) -> bytes:
    """Decode Z85 (ZeroMQ RFC 32), five characters for four bytes; raises TableUnreadable for anything else."""
    try:
        # Spaces are in no alphabet: a text that is cut off is refused, which Python would fill up.
        return base64.b85decode(text.ljust(-(-len(text) // _GROUP) * _GROUP).encode("ascii").translate(_FROM_Z85))
    except ValueError as broken:
        raise TableUnreadable("the log has a deletion vector with broken Z85 text", text) from broken


def read_framed(store: TableStore, vectors: Sequence[DeletionVector | None]) -> list[bytes | None]:
    """Return the bytes of `framed_range` for each vector that has a file; None for an inline one and for None.

    Raises TableUnreadable for a file that is gone.
    """
    framed: list[bytes | None] = [None] * len(vectors)
    places: dict[str, list[tuple[int, tuple[int, int]]]] = {}
    for at, vector in enumerate(vectors):
        path = None if vector is None else file_path(vector.storage_type, vector.path_or_inline_dv)
        if vector is not None and path is not None:
            # A vector without an offset is the only one of its file, behind the byte that names the format.
            start = 1 if vector.offset is None else vector.offset
            places.setdefault(path, []).append((at, framed_range(start, vector.size_in_bytes)))

    def read(path: str) -> None:
        with reading(path):
            pieces = store.get_ranges(path, [range_ for _, range_ in places[path]])
        for (at, _), piece in zip(places[path], pieces, strict=True):
            framed[at] = bytes(piece)

    with ThreadPoolExecutor(min(len(places), _FILES_AT_ONCE) or 1, "vectors") as readers:
        for _ in readers.map(read, places):
            pass
    return framed
