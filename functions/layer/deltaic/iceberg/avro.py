"""Avro, as much of it as Iceberg's manifests and their lists need: written, never read.

Avro specification, "Binary encoding" and "Object container files". Equal content gives equal bytes: the marker between
blocks, which is random elsewhere, is made of it.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from zlib_ng import zlib_ng

NULL: Final = b"\x00"
"""The first branch of a union with null."""
PRESENT: Final = b"\x02"
"""The second one: the value follows."""
END: Final = b"\x00"
"""Ends the blocks of an array or a map."""
_LEVEL: Final = 5
_SMALL: Final = tuple(bytes([number << 1]) for number in range(64))


def whole(number: int) -> bytes:
    """Encode an int or a long: zigzag, seven bits a byte."""
    if 0 <= number < len(_SMALL):
        return _SMALL[number]
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:  # noqa: PLR2004 -- seven bits
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def data(value: bytes) -> bytes:
    """Encode bytes."""
    return whole(len(value)) + value


def text(value: str) -> bytes:
    """Encode a string."""
    return data(value.encode())


def items(encoded: Sequence[bytes]) -> bytes:
    """Encode an array of encoded values, in one block."""
    return whole(len(encoded)) + b"".join(encoded) + END if encoded else END


def field(name: str, kind: Any, field_id: int) -> dict[str, Any]:
    """Return a field of a record's schema, with the id by which Iceberg knows it."""
    return {"name": name, "type": kind, "field-id": field_id}


def optional(name: str, kind: Any, field_id: int) -> dict[str, Any]:
    """Return a field that may be null."""
    return {"name": name, "type": ["null", kind], "default": None, "field-id": field_id}


def record(name: str, fields: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a record's schema."""
    return {"type": "record", "name": name, "fields": list(fields)}


def container(schema: Mapping[str, Any], about: Mapping[str, str], count: int, body: bytes) -> bytes:
    """Return a file of `count` encoded records in one block, or in none; `about` goes into its header."""
    header = {"avro.schema": json.dumps(schema), "avro.codec": "deflate", **about}
    marker = hashlib.sha256(json.dumps(header).encode() + body).digest()[:16]
    pairs = [text(name) + text(value) for name, value in header.items()]
    start = b"Obj\x01" + items(pairs) + marker
    if not count:
        return start
    deflate = zlib_ng.compressobj(_LEVEL, wbits=-zlib_ng.MAX_WBITS)
    packed = deflate.compress(body) + deflate.flush()
    return start + whole(count) + data(packed) + marker
