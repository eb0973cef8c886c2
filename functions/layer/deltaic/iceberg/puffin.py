"""Deletion vectors of Delta as Iceberg reads them: the same bytes, in a Puffin file.

Iceberg's Puffin specification, "deletion-vector-v1": a blob is length, magic, bitmap and CRC-32 as Delta frames them.
"""

import json
import struct
import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from deltaic.delta.deletion_vectors import DeletionVector, decode_z85, read_framed
from deltaic.delta.store import TableStore
from deltaic.errors import TableUnreadable
from deltaic.iceberg.refusals import misread

_MAGIC: Final = b"PFA1"
_LENGTH: Final = struct.Struct(">I")
_PORTABLE: Final = struct.pack("<I", 1681511377)
"""How a bitmap begins that both formats know; Delta has had another."""
_FOOTER_LENGTH: Final = struct.Struct("<i")
_NO_FLAGS: Final = b"\x00" * 4
_POSITIONS: Final = 2147483645
"""The field of a row's position, which is what a vector is about."""


class FramedVector(NamedTuple):
    """A vector and the data file that it is of."""

    data_file: str
    """URI."""
    cardinality: int
    frame: bytes


def frames(store: TableStore, vectors: Sequence[DeletionVector]) -> list[bytes]:
    """Read vectors, framed by length and CRC-32; of each file what is asked for by one call.

    Raises TableUnreadable for one that is not where the log says.
    """
    found = []
    for vector, framed in zip(vectors, read_framed(store, vectors), strict=True):
        frame = _frame(decode_z85(vector.path_or_inline_dv)[: vector.size_in_bytes]) if framed is None else framed
        _check(frame, vector.size_in_bytes, vector.path_or_inline_dv)
        found.append(frame)
    return found


def puffin(vectors: Sequence[FramedVector]) -> tuple[bytes, list[int]]:
    """Return a Puffin file of vectors, and the offset of each."""
    body = bytearray(_MAGIC)
    blobs, offsets = [], []
    for one in vectors:
        offsets.append(len(body))
        blobs.append(
            {
                "type": "deletion-vector-v1",
                "fields": [_POSITIONS],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": len(body),
                "length": len(one.frame),
                "properties": {"referenced-data-file": one.data_file, "cardinality": str(one.cardinality)},
            }
        )
        body += one.frame
    footer = json.dumps({"blobs": blobs}).encode()
    body += _MAGIC + footer + _FOOTER_LENGTH.pack(len(footer)) + _NO_FLAGS + _MAGIC
    return bytes(body), offsets


def _frame(bitmap: bytes) -> bytes:
    return _LENGTH.pack(len(bitmap)) + bitmap + _LENGTH.pack(zlib.crc32(bitmap))


def _check(frame: bytes, size: int, path: str) -> None:
    bitmap = frame[_LENGTH.size : -_LENGTH.size]
    if len(bitmap) != size or frame != _frame(bitmap):
        raise TableUnreadable("a deletion vector of this table is corrupt, or not where the log says that it is", path)
    if not bitmap.startswith(_PORTABLE):
        raise misread(
            "a deletion vector has a form that only Delta knows",
            "ask its provider to purge deleted rows (REORG TABLE ... APPLY (PURGE))",
        )
