"""The JSON answers that are not NDJSON: listings, one share, credentials, errors.

Each body is one line without a line feed, because the Python client parses the first line of a listing only.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from deltaic.errors import DeltaicError

JSON_TYPE = "application/json; charset=utf-8"
NDJSON_TYPE = "application/x-ndjson; charset=utf-8"


def listing(items: Sequence[bytes], next_page_token: str | None) -> bytes:
    """Return a page of a listing of encoded items; the token is left out on the last page."""
    token = b"" if next_page_token is None else b',"nextPageToken":' + json.dumps(next_page_token).encode()
    return b'{"items":[' + b",".join(items) + b"]" + token + b"}"


def aws_credentials(  # noqa: PLR0913 -- the protocol's fields, and where they are used
    *,
    access_key_id: str,
    secret_access_key: str,
    session_token: str,
    expires_at_ms: int,
    region: str,
    endpoint: str = "",
) -> dict[str, Any]:
    """Return temporary credentials of AWS and, beside what the protocol names, where they are used.

    `endpoint` is empty for AWS itself; `expires_at_ms` is since the epoch.
    """
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
