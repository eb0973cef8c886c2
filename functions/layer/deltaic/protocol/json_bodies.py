"""The JSON answers that are not NDJSON: listings, one share, credentials, errors.

Each body is one line without a line feed, because the Python client parses the first line of a listing only.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict, Unpack

from deltaic.errors import DeltaicError

JSON_TYPE = "application/json; charset=utf-8"
NDJSON_TYPE = "application/x-ndjson; charset=utf-8"


class Vended(TypedDict):
    """Credentials of AWS, which end at `expires_at_ms` since the epoch, and where they are used."""

    access_key_id: str
    secret_access_key: str
    session_token: str
    expires_at_ms: int
    region: str
    endpoint: NotRequired[str]
    """Empty for AWS itself."""


def share_object(
    name: str,
    *,
    id: str | None = None,  # noqa: A002 -- the protocol's word
    display_name: str | None = None,
    comment: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return a Share; what is absent or empty is left out."""
    return present(
        name=name, id=id, displayName=display_name, comment=comment, properties=dict(properties) if properties else None
    )


def schema_object(name: str, share: str) -> dict[str, Any]:
    """Return a Schema."""
    return {"name": name, "share": share}


def table_object(  # noqa: PLR0913 -- the protocol's fields
    name: str,
    schema: str,
    share: str,
    *,
    share_id: str | None = None,
    id: str | None = None,  # noqa: A002 -- the protocol's word
    location: str | None = None,
    auxiliary_locations: Sequence[str] = (),
    access_modes: Sequence[str] = (),
) -> dict[str, Any]:
    """Return a Table; what is absent or empty is left out (no `accessModes` means `url` only)."""
    return present(
        name=name,
        schema=schema,
        share=share,
        shareId=share_id,
        id=id,
        location=location,
        auxiliaryLocations=list(auxiliary_locations) or None,
        accessModes=list(access_modes) or None,
    )


def listing(items: Sequence[bytes], next_page_token: str | None) -> bytes:
    """Return a page of a listing of encoded items; the token is left out on the last page."""
    token = b"" if next_page_token is None else b',"nextPageToken":' + json.dumps(next_page_token).encode()
    return b'{"items":[' + b",".join(items) + b"]" + token + b"}"


def table_credentials(location: str, **vended: Unpack[Vended]) -> bytes:
    """Return the body of Generate Temporary Table Credential.

    Beside what the protocol names stand the region and, where the store is not AWS, its endpoint.
    """
    return encode({"credentials": {"location": location, **_vended(**vended)}})


def folder_credentials(**vended: Unpack[Vended]) -> bytes:
    """Return the body of OpenSharing's credentials for a volume, a skill or a model's version, with the same beside."""
    return encode(_vended(**vended))


def _vended(  # noqa: PLR0913 -- the protocol's fields, and where they are used
    *,
    access_key_id: str,
    secret_access_key: str,
    session_token: str,
    expires_at_ms: int,
    region: str,
    endpoint: str = "",
) -> dict[str, Any]:
    keys = {"accessKeyId": access_key_id, "secretAccessKey": secret_access_key, "sessionToken": session_token}
    told = {"awsTempCredentials": keys, "expirationTime": expires_at_ms, "region": region}
    return {**told, "endpoint": endpoint} if endpoint else told


def error(failure: DeltaicError) -> bytes:
    """Return the error body."""
    return encode({"errorCode": failure.code, "message": failure.message})


def encode(value: Mapping[str, Any]) -> bytes:
    """Return ASCII JSON on a single line."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def present(**fields: Any) -> dict[str, Any]:
    """Return an object of the fields that are neither absent nor empty texts."""
    return {name: value for name, value in fields.items() if value is not None and value != ""}
