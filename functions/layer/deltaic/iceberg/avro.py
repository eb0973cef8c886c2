"""Encode the subset of Avro that Iceberg's manifests and manifest lists use.

Avro specification, "Binary encoding" and "Object container files". Equal content gives equal bytes: the sync
marker, which is random in other writers, is a hash of the content.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from zlib_ng import zlib_ng

NULL: Final = b"\x00"
"""Encoded index of the null branch in a union of null and another type."""
PRESENT: Final = b"\x02"
"""Encoded index of the non-null branch in a union of null and another type; the encoded value follows."""
END: Final = b"\x00"
"""Encoded end of the blocks of an array or a map."""
_COMPRESSION_LEVEL: Final = 5
_SMALL: Final = tuple(bytes([number << 1]) for number in range(64))


def integer(number: int) -> bytes:
    """Encode an Avro int or long: zigzag, with seven bits a byte."""
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
    """Encode a value of the Avro type bytes."""
    return integer(len(value)) + value


def text(value: str) -> bytes:
    """Encode a value of the Avro type string."""
    return data(value.encode())


def items(encoded: Sequence[bytes]) -> bytes:
    """Encode an Avro array in one block, from its encoded items."""
    return integer(len(encoded)) + b"".join(encoded) + END if encoded else END


def field(name: str, kind: Any, field_id: int) -> dict[str, Any]:
    """Return the schema of a required record field of type `kind`, with its Iceberg field id."""
    return {"name": name, "type": kind, "field-id": field_id}


def optional(name: str, kind: Any, field_id: int) -> dict[str, Any]:
    """Return the schema of a record field of type `kind` or null, with its Iceberg field id."""
    return {"name": name, "type": ["null", kind], "default": None, "field-id": field_id}


def record(name: str, fields: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the schema of an Avro record."""
    return {"type": "record", "name": name, "fields": list(fields)}


def container(schema: Mapping[str, Any], metadata: Mapping[str, str], count: int, body: bytes) -> bytes:
    """Return an Avro file of `count` encoded records (`body`) in one block, with `metadata` in its header."""
    header = {"avro.schema": json.dumps(schema), "avro.codec": "deflate", **metadata}
    sync_marker = hashlib.sha256(json.dumps(header).encode() + body).digest()[:16]
    pairs = [text(name) + text(value) for name, value in header.items()]
    head = b"Obj\x01" + items(pairs) + sync_marker
    if not count:
        return head
    deflate = zlib_ng.compressobj(_COMPRESSION_LEVEL, wbits=-zlib_ng.MAX_WBITS)
    compressed = deflate.compress(body) + deflate.flush()
    return head + integer(count) + data(compressed) + sync_marker
