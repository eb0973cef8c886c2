"""Write the part of Avro that Iceberg's manifests and manifest lists need.

Avro specification, "Binary encoding" and "Object container files". Equal content gives equal bytes: the sync
marker, which is random in other writers, is a hash of the content.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from zlib_ng import zlib_ng

NULL: Final = b"\x00"
"""Selects null in a union with null."""
PRESENT: Final = b"\x02"
"""Selects the other branch: the value follows."""
END: Final = b"\x00"
"""Ends the blocks of an array or a map."""
_COMPRESSION_LEVEL: Final = 5
_SMALL: Final = tuple(bytes([number << 1]) for number in range(64))


def integer(number: int) -> bytes:
    """Encode an int or a long: zigzag, seven bits a byte."""
    if 0 <= number < len(_SMALL):
        return _SMALL[number]
    remaining = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while remaining > 0x7F:  # noqa: PLR2004 -- seven bits
        encoded.append(remaining & 0x7F | 0x80)
        remaining >>= 7
    encoded.append(remaining)
    return bytes(encoded)


def data(value: bytes) -> bytes:
    """Encode bytes."""
    return integer(len(value)) + value


def text(value: str) -> bytes:
    """Encode a string."""
    return data(value.encode())


def items(encoded: Sequence[bytes]) -> bytes:
    """Encode an array of encoded values, in one block."""
    return integer(len(encoded)) + b"".join(encoded) + END if encoded else END


def field(name: str, kind: Any, field_id: int) -> dict[str, Any]:
    """Return a field of a record's schema, with its Iceberg field id."""
    return {"name": name, "type": kind, "field-id": field_id}


def optional(name: str, kind: Any, field_id: int) -> dict[str, Any]:
    """Return a field that may be null."""
    return {"name": name, "type": ["null", kind], "default": None, "field-id": field_id}


def record(name: str, fields: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a record's schema."""
    return {"type": "record", "name": name, "fields": list(fields)}


def container(schema: Mapping[str, Any], metadata: Mapping[str, str], count: int, body: bytes) -> bytes:
    """Return a file of `count` encoded records in one block, with `metadata` in its header."""
    header = {"avro.schema": json.dumps(schema), "avro.codec": "deflate", **metadata}
    sync_marker = hashlib.sha256(json.dumps(header).encode() + body).digest()[:16]
    pairs = [text(name) + text(value) for name, value in header.items()]
    head = b"Obj\x01" + items(pairs) + sync_marker
    if not count:
        return head
    deflate = zlib_ng.compressobj(_COMPRESSION_LEVEL, wbits=-zlib_ng.MAX_WBITS)
    compressed = deflate.compress(body) + deflate.flush()
    return head + integer(count) + data(compressed) + sync_marker
