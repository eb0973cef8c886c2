"""The JSON answers of Iceberg's REST catalog (its OpenAPI document, `rest-catalog-open-api.yaml`), and its errors.

Clients choose their exceptions by status and `type`: both are told as the catalogs that they know tell them.
"""

from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from deltaic.errors import DeltaicError, TableUnreadable, UnsupportedOperation
from deltaic.protocol.json_bodies import encode

_NAMESPACES: Final = "/v1/{prefix}/namespaces"
_TABLE: Final = f"{_NAMESPACES}/{{namespace}}/tables/{{table}}"
ENDPOINTS: Final = (
    f"GET {_NAMESPACES}",
    f"GET {_NAMESPACES}/{{namespace}}",
    f"HEAD {_NAMESPACES}/{{namespace}}",
    f"GET {_NAMESPACES}/{{namespace}}/tables",
    f"GET {_TABLE}",
    f"HEAD {_TABLE}",
    f"GET {_TABLE}/credentials",
)
"""What clients may ask for; without `metrics`, which they would send for nothing."""

_TYPES: Final = {
    HTTPStatus.BAD_REQUEST: "BadRequestException",
    HTTPStatus.UNAUTHORIZED: "NotAuthorizedException",
    HTTPStatus.FORBIDDEN: "ForbiddenException",
    HTTPStatus.NOT_ACCEPTABLE: "UnsupportedOperationException",
    HTTPStatus.TOO_MANY_REQUESTS: "TooManyRequestsException",
    HTTPStatus.SERVICE_UNAVAILABLE: "ServiceUnavailableException",
}


def config(share: str) -> bytes:
    """Return the configuration of a warehouse, which is a share."""
    prefix = f"shares/{quote(share, safe='')}"  # clients put it into paths as it stands
    return encode({"defaults": {}, "overrides": {"prefix": prefix}, "endpoints": list(ENDPOINTS)})


def namespaces(schemas: Iterable[str]) -> bytes:
    """Return the listing of namespaces, each of one level."""
    return encode({"namespaces": [[name] for name in schemas]})


def namespace(schema: str) -> bytes:
    """Return one namespace."""
    return encode({"namespace": [schema], "properties": {}})


def tables(schema: str, names: Iterable[str]) -> bytes:
    """Return the listing of a namespace's tables."""
    return encode({"identifiers": [{"namespace": [schema], "name": name} for name in names]})


def loaded_table(
    metadata_location: str, metadata: bytes, settings: Mapping[str, str], credentials: Sequence[Mapping[str, Any]]
) -> bytes:
    """Return the answer to loadTable; `metadata` is the document as it lies at its location, in JSON."""
    place = encode({"metadata-location": metadata_location})[:-1]
    access = encode({"config": settings, "storage-credentials": list(credentials)})[1:]
    return place + b',"metadata":' + metadata + b"," + access


def credential(prefix: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """Return what reads everything below a prefix."""
    return {"prefix": prefix, "config": dict(settings)}


def credentials(one: Mapping[str, Any]) -> bytes:
    """Return the answer to loadCredentials: a single one, since Iceberg's Java library takes no other number."""
    return encode({"storage-credentials": [one]})


def signed_request(uri: str, headers: Mapping[str, str]) -> bytes:
    """Return the answer of remote signing: where the request goes, and the headers that it needs beside its own."""
    return encode({"uri": uri, "headers": {name: [value] for name, value in headers.items()}})


def status(failure: DeltaicError) -> int:
    """Return the status of a failure: 406 for a table that such clients cannot read, which is for good."""
    unreadable = isinstance(failure, UnsupportedOperation | TableUnreadable)
    return HTTPStatus.NOT_ACCEPTABLE if unreadable else failure.status


def error(failure: DeltaicError, absent: str) -> bytes:
    """Return the error object; `absent` is the type of what is not there."""
    code = status(failure)
    kind = absent if code == HTTPStatus.NOT_FOUND else _TYPES.get(HTTPStatus(code), "InternalServerError")
    return encode({"error": {"message": failure.message, "type": kind, "code": code}})
