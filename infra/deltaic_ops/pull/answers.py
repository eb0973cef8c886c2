"""The answers of a server and of a store as typed structs: an answer of another shape is refused before it is used.

Unknown fields are ignored, and texts are accepted for numbers, as in Protocol Buffers' JSON.
"""

import json
from collections.abc import Iterator
from typing import Annotated, Any, TypeVar

import msgspec
from deltaic.errors import Unavailable, UnsupportedOperation

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

    path: str
    size: Number
    partition_values: dict[str, str | None] | None = None
    modification_time: Number = 0
    stats: str | None = None
    deletion_vector: Vector | None = None


class Action(_Answer, frozen=True):
    """The action of a file in delta format."""

    add: Add


class File(_Answer, frozen=True):
    """A file in either format."""

    id: str
    url: str | None = None
    size: Number | None = None
    partition_values: dict[str, str | None] | None = None
    stats: str | None = None
    timestamp: Number | None = None
    expiration_timestamp: Number | None = None
    deletion_vector_file_id: str | None = None
    delta_single_action: Action | None = None

    @property
    def add(self) -> Add:
        """The file as Delta's action; raises ValueError for one that has none and lacks what parquet format tells."""
        if self.delta_single_action is not None:
            return self.delta_single_action.add
        if self.url is None or self.size is None:
            raise ValueError("url or size of a file is missing")
        return Add(self.url, self.size, self.partition_values, self.timestamp or 0, self.stats)


class End(_Answer, frozen=True):
    """The action at the end of a page."""

    next_page_token: str | None = None
    refresh_token: str | None = None
    error_message: str | None = None


class Line(_Answer, frozen=True):
    """A line of a query's answer."""

    protocol: Protocol | None = None
    meta_data: Metadata | None = None
    file: File | None = None
    end_stream_action: End | msgspec.UnsetType | None = msgspec.UNSET


class Folder(_Answer, frozen=True):
    """A volume, skill, model or model version."""

    access_modes: list[str] | None = None
    storage_location: str | None = None


class SharedObject(_Answer, frozen=True):
    """A file of a folder, whose ETag is another one when its content is."""

    name: str
    size: Number
    etag: Annotated[str, msgspec.Meta(min_length=1)]
    url: str | None = None


class ObjectPage(_Answer, frozen=True):
    """A page of a folder's files, or of their URLs."""

    items: list[SharedObject] | None = None
    next_page_token: str | None = None


class AwsKeys(_Answer, frozen=True):
    """Keys of AWS."""

    access_key_id: str
    secret_access_key: str
    session_token: str


class Credentials(_Answer, frozen=True):
    """Temporary credentials: flat, or inside `credentials` as those of tables are."""

    credentials: "Credentials | None" = None
    aws_temp_credentials: AwsKeys | None = None
    expiration_time: Number = 0
    region: str | None = None
    endpoint: str | None = None


class StoredObject(msgspec.Struct, frozen=True, rename="pascal"):
    """An object as a store lists it."""

    key: str
    size: Number
    e_tag: str


class StorePage(msgspec.Struct, frozen=True, rename="pascal"):
    """A page of a store's listing."""

    contents: list[StoredObject] = []
    is_truncated: bool = False
    next_continuation_token: str = ""

    def __post_init__(self) -> None:
        """Raise ValueError where the next page has no token."""
        if self.is_truncated and not self.next_continuation_token:
            raise ValueError("a listing is cut off")


class StoredHead(msgspec.Struct, frozen=True, rename="pascal"):
    """An object as a store describes it alone."""

    content_length: Number
    e_tag: str


def decoded(text: bytes, kind: type[_T], host: str) -> _T:
    """Return an answer; raises Unavailable for what is no JSON, as of a broken connection, else InvalidAnswer."""
    try:
        return msgspec.json.decode(text, type=kind, strict=False)
    except msgspec.ValidationError as wrong:
        raise InvalidAnswer(host, wrong) from None
    except (msgspec.DecodeError, RecursionError):
        raise Unavailable(f"the answer of {host} is no JSON, or breaks off") from None


def converted(told: object, kind: type[_T]) -> _T:
    """Return what botocore made of a store's answer; raises InvalidAnswer."""
    try:
        return msgspec.convert(told, kind)
    except msgspec.ValidationError as wrong:
        raise InvalidAnswer("the store", wrong) from None


def column_types(schema: str) -> dict[str, str]:
    """Return the type of each dotted name in a Delta schema that is no struct, array or map; raises ValueError."""
    try:
        return dict(_types(json.loads(schema), ""))
    except (LookupError, TypeError, ValueError, RecursionError):
        raise ValueError("schemaString is no schema") from None


def _types(told: Any, column: str) -> Iterator[tuple[str, str]]:
    match told:
        case str() if column:
            yield column, told
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
