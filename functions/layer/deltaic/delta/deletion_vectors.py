"""Deletion vector descriptors: paths and contents of their files, and ids of logical files.

Delta protocol, "Deletion Vector Descriptor Schema". Storage type `u` is a file named by a UUID in Z85 after an optional
random prefix, `p` an absolute path, and `i` the bytes themselves.
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
from deltaic.errors import TableUnreadable, Unavailable

_Z85: Final = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_BASE85: Final = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
"""Alphabet of Python's base 85 (RFC 1924)."""
_TO_Z85: Final = bytes.maketrans(_BASE85, _Z85)
_FROM_Z85: Final = bytes(_BASE85[_Z85.index(byte)] if byte in _Z85 else 0 for byte in range(256))
"""Translates Z85 to Python's base 85; bytes outside the Z85 alphabet become 0, which is in neither alphabet."""
_LENGTH: Final = struct.Struct(">I")
_ENCODED_UUID: Final = 20
_FILES_AT_ONCE: Final = 16
"""Number of deletion vector files that are read in parallel."""
_GROUP: Final = 5


class DeletionVector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A deletion vector descriptor of the log; `size_in_bytes` does not include length prefix and CRC-32."""

    storage_type: str
    path_or_inline_dv: str
    size_in_bytes: int = 0
    cardinality: int = 0
    offset: int | None = None

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Self:
        """Convert a row of the Arrow type DELETION_VECTOR (deltaic.delta.scan.file_batches)."""
        size, cardinality = row["sizeInBytes"] or 0, row["cardinality"] or 0
        return cls(row["storageType"], row["pathOrInlineDv"], size, cardinality, row["offset"])

    @property
    def row(self) -> dict[str, str | int | None]:
        """The vector as a row of the Arrow type DELETION_VECTOR."""
        return dict(msgspec.to_builtins(self))

    @property
    def unique_id(self) -> str:
        """Id that, with the path, identifies a logical file (Delta protocol, "Derived Fields": `uniqueId`)."""
        return unique_id(self.storage_type, self.path_or_inline_dv, self.offset)


def unique_id(storage_type: str, path_or_inline_dv: str, offset: int | None) -> str:
    """Return `<storageType><pathOrInlineDv>`, followed by `@<offset>` if there is an offset."""
    name = storage_type + path_or_inline_dv
    return name if offset is None else f"{name}@{offset}"


def file_path(storage_type: str, path_or_inline_dv: str) -> str | None:
    """Return the path of the file that contains the vector; None for an inline vector.

    For `u` the path is relative to the table's root and not URI-encoded; for `p` it is the absolute path of the log.
    Raises TableUnreadable for an unknown storage type and for a name that is not a UUID.
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
        raise TableUnreadable("the log has a deletion vector whose file name is not a UUID", path_or_inline_dv)
    name = f"deletion_vector_{uuid.UUID(bytes=raw)}.bin"
    return f"{prefix}/{name}" if prefix else name


def framed_range(offset: int, size_in_bytes: int) -> tuple[int, int]:
    """Return a vector's byte range `[start, end)` with its length prefix and CRC-32."""
    return offset, offset + _LENGTH.size + size_in_bytes + _LENGTH.size


def inline(framed: bytes, size_in_bytes: int) -> str:
    """Return the inline form (storage type `i`) of a vector from the bytes of its `framed_range`; see `unframe`."""
    return encode_z85(unframe(framed, size_in_bytes))


def unframe(framed: bytes, size_in_bytes: int, path: str = "") -> bytes:
    """Return the data in a vector's `framed_range`; raises TableUnreadable if length or CRC-32 do not match it."""
    data = framed[_LENGTH.size : -_LENGTH.size]
    if len(data) != size_in_bytes or framed != _LENGTH.pack(len(data)) + data + _LENGTH.pack(zlib.crc32(data)):
        raise TableUnreadable("a deletion vector of this table is corrupt, or not at the offset in the log", path)
    return data


def encode_z85(data: bytes) -> str:
    """Encode bytes as Z85 (ZeroMQ RFC 32), padded with zeros to a multiple of four bytes."""
    return base64.b85encode(data, pad=True).translate(_TO_Z85).decode()


def decode_z85(text: str) -> bytes:
    """Decode Z85 (ZeroMQ RFC 32), five characters for four bytes; raises TableUnreadable if invalid."""
    try:
        # b85decode accepts incomplete groups; spaces, which are in no alphabet, make it reject them.
        return base64.b85decode(text.ljust(-(-len(text) // _GROUP) * _GROUP).encode("ascii").translate(_FROM_Z85))
    except ValueError as broken:
        raise TableUnreadable("the log has a deletion vector that is not a valid Z85 string", text) from broken


def read_framed(store: TableStore, vectors: Sequence[DeletionVector | None]) -> list[bytes | None]:
    """Read the bytes in the `framed_range` of each vector from its file; None for an inline or missing vector.

    Raises TableUnreadable for a missing or truncated file.
    """
    framed: list[bytes | None] = [None] * len(vectors)
    positions_by_path: dict[str, list[tuple[int, tuple[int, int]]]] = {}
    for position, vector in enumerate(vectors):
        path = None if vector is None else file_path(vector.storage_type, vector.path_or_inline_dv)
        if vector is not None and path is not None:
            # A vector without an offset is the only one in its file, after the byte with the format version.
            start = 1 if vector.offset is None else vector.offset
            positions_by_path.setdefault(path, []).append((position, framed_range(start, vector.size_in_bytes)))

    def read(path: str) -> None:
        ranges = [range_ for _, range_ in positions_by_path[path]]
        with reading(path):
            try:
                pieces = store.get_ranges(path, ranges)
            except Unavailable as failure:
                is_truncated = store.get_tail(path, 1)[1] < max(end for _, end in ranges)
                raise (ValueError("it ends before its deletion vectors") if is_truncated else failure) from None
        for (position, _), piece in zip(positions_by_path[path], pieces, strict=True):
            framed[position] = bytes(piece)

    with ThreadPoolExecutor(min(len(positions_by_path), _FILES_AT_ONCE) or 1, "vectors") as readers:
        for _ in readers.map(read, positions_by_path):
            pass
    return framed
