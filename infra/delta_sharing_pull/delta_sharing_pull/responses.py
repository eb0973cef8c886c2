"""Typed structs for responses of sharing servers and object stores. Other responses are rejected.

Unknown fields are ignored, and numbers can be strings, as in the JSON format of Protocol Buffers.
"""

import json
from collections.abc import Iterator
from typing import Annotated, Any, TypeVar

import msgspec

from delta_sharing_pull.errors import Unavailable, UnsupportedOperation

Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_T = TypeVar("_T")


class InvalidResponse(UnsupportedOperation):
    """A response of the sharing server or object store does not conform to its protocol."""

    def __init__(self, host: str, reason: object) -> None:
        super().__init__(f"{host} sent an invalid response ({reason}): ask the provider to fix the server")


class _Struct(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    pass


class Protocol(_Struct, frozen=True):
    """The fields of Delta's `protocol` action that readers need. Delta format wraps them in `deltaProtocol`."""

    min_reader_version: Number = 1
    min_writer_version: Number = 2
    reader_features: list[str] | None = None
    delta_protocol: "Protocol | None" = None


class Metadata(_Struct, frozen=True):
    """Delta's `metaData` action. Delta format wraps it in `deltaMetadata`."""

    id: str = ""
    schema_string: str = ""
    partition_columns: list[str] | None = None
    configuration: dict[str, str] | None = None
    name: str | None = None
    description: str | None = None
    created_time: Number | None = None
    delta_metadata: "Metadata | None" = None

    def __post_init__(self) -> None:
        """Raise ValueError if `schema_string` is not a valid Delta schema."""
        if self.delta_metadata is None:
            column_types(self.schema_string)


class Vector(_Struct, frozen=True):
    """Delta's descriptor of a deletion vector."""

    storage_type: str
    path_or_inline_dv: str
    size_in_bytes: Number
    cardinality: Number
    offset: Number | None = None


class Add(_Struct, frozen=True):
    """The fields of Delta's `add` action that readers need."""

    path: str | None = None
    size: Number | None = None
    partition_values: dict[str, str | None] | None = None
    modification_time: Number = 0
    stats: str | None = None
    deletion_vector: Vector | None = None


class File(Add, frozen=True, kw_only=True):
    """A file in a query response. In delta format, its `add` action is in `deltaSingleAction`."""

    id: str
    url: str | None = None
    expiration_timestamp: Number | None = None
    deletion_vector_file_id: str | None = None
    delta_single_action: dict[str, Add] | None = None


class Reply(_Struct, frozen=True):
    """Any JSON object in a response that no other struct describes. The endpoint determines its fields."""

    items: "list[SharedObject] | None" = None
    next_page_token: str | None = None
    refresh_token: str | None = None
    error_message: str | None = None
    access_modes: list[str] | None = None
    storage_location: str | None = None
    credentials: "Reply | None" = None
    aws_temp_credentials: dict[str, str] | None = None
    expiration_time: Number = 0
    region: str | None = None
    endpoint: str | None = None


class Line(_Struct, frozen=True):
    """A line of a query response, of which one field is set."""

    protocol: Protocol | None = None
    meta_data: Metadata | None = None
    file: File | None = None
    end_stream_action: Reply | msgspec.UnsetType | None = msgspec.UNSET


class SharedObject(msgspec.Struct, frozen=True):
    """A file of a shared folder. A different ETag means different content."""

    name: str
    size: Number
    etag: Annotated[str, msgspec.Meta(min_length=1)]
    url: str | None = None


def decode(text: bytes, kind: type[_T], host: str) -> _T:
    """Parse a JSON response of a server into a struct.

    Raises Unavailable if the text is not JSON, as after a broken connection, and InvalidResponse if fields are invalid.
    """
    try:
        return msgspec.json.decode(text, type=kind, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidResponse(host, error) from None
    except (msgspec.DecodeError, RecursionError):
        raise Unavailable(f"{host} sent a response that is incomplete or not JSON: try again later") from None


def stored_object(name: object, size: object, etag: object) -> SharedObject:
    """Return an object from the fields in a store's listing or headers; raises InvalidResponse if one is invalid."""
    try:
        return msgspec.convert({"name": name, "size": size, "etag": etag}, SharedObject)
    except msgspec.ValidationError as error:
        raise InvalidResponse("The object store", error) from None


def column_types(schema: str) -> dict[str, str]:
    """Return the primitive types in a Delta schema by dotted column name; raises ValueError for an invalid schema."""
    try:
        return dict(_column_types(json.loads(schema), ""))
    except (LookupError, TypeError, ValueError, RecursionError):
        raise ValueError("schemaString is not a schema") from None


def _column_types(kind: Any, column: str) -> Iterator[tuple[str, str]]:
    match kind:
        case str() if column:
            yield column, kind
        case {"type": "struct", "fields": list(fields)}:
            for field in fields:
                yield from _column_types(field["type"], f"{column}.{field['name']}" if column else str(field["name"]))
        case {"type": "array", "elementType": element} if column:
            yield from _column_types(element, f"{column}.element")
        case {"type": "map", "keyType": key, "valueType": value} if column:
            yield from _column_types(key, f"{column}.key")
            yield from _column_types(value, f"{column}.value")
        case _:
            raise TypeError
