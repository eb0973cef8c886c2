"""Write Delta deletion vectors to Puffin files for Iceberg clients, without changing their bytes.

Iceberg's Puffin specification, "deletion-vector-v1": a blob has length, magic, bitmap and CRC-32, as in Delta.
"""

import json
import struct
import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from deltaic.delta.deletion_vectors import DeletionVector, decode_z85, read_framed, unframe
from deltaic.delta.store import TableStore
from deltaic.iceberg.refusals import misread

_MAGIC: Final = b"PFA1"
_LENGTH: Final = struct.Struct(">I")
PORTABLE: Final = struct.pack("<I", 1681511377)
"""First bytes of the bitmap format that both Delta and Iceberg support; older Delta files have another format."""
_FOOTER_LENGTH: Final = struct.Struct("<i")
_NO_FLAGS: Final = b"\x00" * 4
_POSITIONS: Final = 2147483645
"""Iceberg's reserved field id of row positions, which deletion vectors contain."""


class FramedVector(NamedTuple):
    """A deletion vector with the URI of its data file; `frame` contains length, magic, bitmap and CRC-32."""

    data_file: str
    cardinality: int
    frame: bytes


def frames(store: TableStore, vectors: Sequence[DeletionVector]) -> list[bytes]:
    """Read deletion vectors with their length and CRC-32, with one read for each file of vectors.

    Raises TableUnreadable for a vector that is corrupt or not at the position that the log states.
    """
    read_frames = []
    for vector, stored in zip(vectors, read_framed(store, vectors), strict=True):
        frame = _frame(decode_z85(vector.path_or_inline_dv)[: vector.size_in_bytes]) if stored is None else stored
        if not unframe(frame, vector.size_in_bytes, vector.path_or_inline_dv).startswith(PORTABLE):
            raise misread(
                "a deletion vector has a format that only Delta supports",
                "ask its provider to purge deleted rows (REORG TABLE ... APPLY (PURGE))",
            )
        read_frames.append(frame)
    return read_frames


def puffin(vectors: Sequence[FramedVector]) -> tuple[bytes, list[int]]:
    """Return the bytes of a Puffin file with these vectors, and the offset of each vector in it."""
    body = bytearray(_MAGIC)
    blobs, offsets = [], []
    for vector in vectors:
        offsets.append(len(body))
        blobs.append(
            {
                "type": "deletion-vector-v1",
                "fields": [_POSITIONS],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": len(body),
                "length": len(vector.frame),
                "properties": {"referenced-data-file": vector.data_file, "cardinality": str(vector.cardinality)},
            }
        )
        body += vector.frame
    footer = json.dumps({"blobs": blobs}).encode()
    body += _MAGIC + footer + _FOOTER_LENGTH.pack(len(footer)) + _NO_FLAGS + _MAGIC
    return bytes(body), offsets


def _frame(bitmap: bytes) -> bytes:
    return _LENGTH.pack(len(bitmap)) + bitmap + _LENGTH.pack(zlib.crc32(bitmap))
