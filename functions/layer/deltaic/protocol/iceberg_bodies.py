"""JSON responses and errors of the Iceberg REST catalog (`rest-catalog-open-api.yaml`).

Clients choose their exceptions by HTTP status and `type`, so both are as in widely used catalogs.
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
"""Supported endpoints; without `metrics`, so that clients do not send any."""

_TYPES: Final = {
    HTTPStatus.BAD_REQUEST: "BadRequestException",
    HTTPStatus.UNAUTHORIZED: "NotAuthorizedException",
    HTTPStatus.FORBIDDEN: "ForbiddenException",
    HTTPStatus.TOO_MANY_REQUESTS: "TooManyRequestsException",
    HTTPStatus.SERVICE_UNAVAILABLE: "ServiceUnavailableException",
}


def config(share: str) -> bytes:
    """Return the response to getConfig for a warehouse, which is a share."""
    prefix = f"shares/{quote(share, safe='')}"  # clients insert it into paths unchanged
    return encode({"defaults": {}, "overrides": {"prefix": prefix}, "endpoints": list(ENDPOINTS)})


def namespaces(schemas: Iterable[str]) -> bytes:
    """Return the response to listNamespaces; each schema is a namespace of one level."""
    return encode({"namespaces": [[name] for name in schemas]})


def namespace(schema: str) -> bytes:
    """Return the response to loadNamespaceMetadata."""
    return encode({"namespace": [schema], "properties": {}})


def tables(schema: str, names: Iterable[str]) -> bytes:
    """Return the response to listTables."""
    return encode({"identifiers": [{"namespace": [schema], "name": name} for name in names]})


def loaded_table(
    metadata_location: str, metadata: bytes, settings: Mapping[str, str], credentials: Sequence[Mapping[str, Any]]
) -> bytes:
    """Return the response to loadTable; `metadata` is the JSON document at `metadata_location`."""
    location = encode({"metadata-location": metadata_location})[:-1]
    access = encode({"config": settings, "storage-credentials": list(credentials)})[1:]
    return location + b',"metadata":' + metadata + b"," + access


def credential(prefix: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """Return credentials for all objects with a prefix, as an item of `storage-credentials`."""
    return {"prefix": prefix, "config": dict(settings)}


def credentials(item: Mapping[str, Any]) -> bytes:
    """Return the response to loadCredentials with one item; Iceberg's Java library supports only one."""
    return encode({"storage-credentials": [item]})


def signed_request(uri: str, headers: Mapping[str, str]) -> bytes:
    """Return the response to remote signing: the URI of the signed request and the headers to send with it."""
    return encode({"uri": uri, "headers": {name: [value] for name, value in headers.items()}})


def error(failure: DeltaicError, missing_type: str) -> bytes:
    """Return the error response; `missing_type` is the error's `type` if a resource is missing."""
    if failure.status == HTTPStatus.NOT_FOUND:
        kind = missing_type
    elif isinstance(failure, UnsupportedOperation | TableUnreadable):
        # Not 406, which is for unsupported operations: ClickHouse repeats it ten times. Of the types with status 400,
        # this is the one whose message Iceberg's Java clients show unchanged.
        kind = "IllegalArgumentException"
    else:
        kind = _TYPES.get(HTTPStatus(failure.status), "InternalServerError")
    return encode({"error": {"message": failure.message, "type": kind, "code": failure.status}})
