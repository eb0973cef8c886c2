"""The answers of a server and of a store as typed structs: an answer of another shape is refused before it is used.

Unknown fields are ignored, and texts are accepted for numbers, as in Protocol Buffers' JSON.
"""

import json
from collections.abc import Iterator
from typing import Annotated, Any, TypeVar

import msgspec

from delta_sharing_pull.errors import Unavailable, UnsupportedOperation

Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_T = TypeVar("_T")


class InvalidAnswer(UnsupportedOperation):
    """An answer is not the protocol's."""

    def __init__(self, host: str, why: object) -> None:
        super().__init__(f"{host} sent an invalid answer ({why}): ask its provider to correct the server")


class _Answer(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    pass


class Protocol(_Answer, frozen=True):
    """Delta's `protocol` as far as readers need it, or what holds it in delta format."""

    min_reader_version: Number = 1
    min_writer_version: Number = 2
    reader_features: list[str] | None = None
    delta_protocol: "Protocol | None" = None


class Metadata(_Answer, frozen=True):
    """Delta's `metaData`, or what holds it in delta format."""

    id: str = ""
    schema_string: str = ""
    partition_columns: list[str] | None = None
    configuration: dict[str, str] | None = None
    name: str | None = None
    description: str | None = None
    created_time: Number | None = None
    delta_metadata: "Metadata | None" = None

    def __post_init__(self) -> None:
        """Raise ValueError for a schema that is none."""
        if self.delta_metadata is None:
            column_types(self.schema_string)


class Vector(_Answer, frozen=True):
    """The descriptor of a deletion vector."""

    storage_type: str
    path_or_inline_dv: str
    size_in_bytes: Number
    cardinality: Number
    offset: Number | None = None


class Add(_Answer, frozen=True):
    """Delta's `add`, without what concerns writers alone."""

    path: str | None = None
    size: Number | None = None
    partition_values: dict[str, str | None] | None = None
    modification_time: Number = 0
    stats: str | None = None
    deletion_vector: Vector | None = None


class File(Add, frozen=True, kw_only=True):
    """A file: in parquet format a kind of `add` with other names, in delta format what holds one."""

    id: str
    url: str | None = None
    expiration_timestamp: Number | None = None
    deletion_vector_file_id: str | None = None
    delta_single_action: dict[str, Add] | None = None


class Reply(_Answer, frozen=True):
    """Any other object of a server; its route says which of the fields it may have."""

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


class Line(_Answer, frozen=True):
    """A line of a query's answer."""

    protocol: Protocol | None = None
    meta_data: Metadata | None = None
    file: File | None = None
    end_stream_action: Reply | msgspec.UnsetType | None = msgspec.UNSET


class SharedObject(msgspec.Struct, frozen=True):
    """A file of a folder, whose ETag is another one when its content is."""

    name: str
    size: Number
    etag: Annotated[str, msgspec.Meta(min_length=1)]
    url: str | None = None


def decoded(text: bytes, kind: type[_T], host: str) -> _T:
    """Return an answer; raises Unavailable for what is no JSON, as of a broken connection, else InvalidAnswer."""
    try:
        return msgspec.json.decode(text, type=kind, strict=False)
    except msgspec.ValidationError as wrong:
        raise InvalidAnswer(host, wrong) from None
    except (msgspec.DecodeError, RecursionError):
        raise Unavailable(f"the answer of {host} is no JSON, or breaks off") from None


def stored_object(name: object, size: object, etag: object) -> SharedObject:
    """Return an object as a store describes it; raises InvalidAnswer."""
    try:
        return msgspec.convert({"name": name, "size": size, "etag": etag}, SharedObject)
    except msgspec.ValidationError as wrong:
        raise InvalidAnswer("the store", wrong) from None


def column_types(schema: str) -> dict[str, str]:
    """Return the type of each dotted name in a Delta schema that is no struct, array or map; raises ValueError."""
    try:
        return dict(_types(json.loads(schema), ""))
    except (LookupError, TypeError, ValueError, RecursionError):
        raise ValueError("schemaString is no schema") from None


def _types(kind: Any, column: str) -> Iterator[tuple[str, str]]:
    match kind:
        case str() if column:
            yield column, kind
        case {"type": "struct", "fields": list(fields)}:
            for field in fields:
                yield from _types(field["type"], f"{column}.{field['name']}" if column else str(field["name"]))
        case {"type": "array", "elementType": element} if column:
            yield from _types(element, f"{column}.element")
        case {"type": "map", "keyType": key, "valueType": value} if column:
            yield from _types(key, f"{column}.key")
            yield from _types(value, f"{column}.value")
        case _:
            raise TypeError
