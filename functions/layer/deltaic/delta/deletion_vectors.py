"""Decides what a deletion vector descriptor refers to: which file, which bytes, and which id it gives a logical file.

Delta protocol, "Deletion Vector Descriptor Schema": `u` is a file named by a UUID in Z85 after an optional random
prefix, `p` an absolute path, `i` the bytes themselves.
"""

import struct
import uuid
from typing import Final

import msgspec

from deltaic.errors import TableUnreadable

_Z85: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_Z85_VALUES: Final = {character: value for value, character in enumerate(_Z85)}
_ENCODED_UUID: Final = 20
_GROUP: Final = 5


class DeletionVector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A deletion vector descriptor as it stands in the log; `size_in_bytes` is what the log says, before framing."""

    storage_type: str
    path_or_inline_dv: str
    size_in_bytes: int = 0
    cardinality: int = 0
    offset: int | None = None

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


def decode_z85(text: str) -> bytes:
    """Decode Z85 (ZeroMQ RFC 32), five characters for four bytes; raises TableUnreadable for anything else."""
    if len(text) % _GROUP:
        raise TableUnreadable("the log has a deletion vector with broken Z85 text", text)
    words = []
    for at in range(0, len(text), _GROUP):
        word = 0
        for character in text[at : at + _GROUP]:
            value = _Z85_VALUES.get(character)
            if value is None:
                raise TableUnreadable("the log has a deletion vector with broken Z85 text", text)
            word = word * 85 + value
        if word >= 1 << 32:
            raise TableUnreadable("the log has a deletion vector with broken Z85 text", text)
        words.append(word)
    return struct.pack(f">{len(words)}I", *words)
