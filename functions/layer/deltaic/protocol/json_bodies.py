"""Write JSON responses that are not NDJSON: listings, one share, credentials, errors.

Each body is a single line without a line feed, because the Python client parses only the first line of a listing.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from deltaic.errors import DeltaicError

JSON_TYPE = "application/json; charset=utf-8"
NDJSON_TYPE = "application/x-ndjson; charset=utf-8"


def listing(items: Sequence[bytes], next_page_token: str | None) -> bytes:
    """Return a page of encoded items as a JSON response; without a token it is the last page."""
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
    """Return the JSON object of temporary AWS credentials, with region and endpoint, which extend the protocol.

    `endpoint` is empty for AWS itself; `expires_at_ms` is the expiry time in ms since the epoch.
    """
    keys = {"accessKeyId": access_key_id, "secretAccessKey": secret_access_key, "sessionToken": session_token}
    body = {"awsTempCredentials": keys, "expirationTime": expires_at_ms, "region": region}
    return {**body, "endpoint": endpoint} if endpoint else body


def error(failure: DeltaicError) -> bytes:
    """Return the JSON response for an error."""
    return encode({"errorCode": failure.code, "message": failure.message})


def encode(value: Mapping[str, Any]) -> bytes:
    """Return ASCII JSON on a single line."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def present(**fields: Any) -> dict[str, Any]:
    """Return a JSON object with the fields that are neither None nor empty."""
    return {name: value for name, value in fields.items() if value is not None and value != ""}
