"""Sign GET URLs in a few microseconds each, and single requests, with AWS Signature Version 4.

Everything except the object key is the same for all files of a response, so it is prepared once: the strings before
and after the path in the canonical request, and both parts of the HMAC as SHA-256 states, which are copied for each
URL. So each URL needs only three SHA-256 digests. Tests compare every byte with botocore.
"""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import repeat
from typing import NamedTuple
from urllib.parse import quote

from deltaic.errors import Unavailable
from deltaic.storage.aws_credentials import Credentials
from deltaic.storage.endpoints import StorageConfig, origin
from deltaic.storage.locations import Location, ObjectName, encode_key

MAX_TTL = timedelta(days=7)
"""Longest validity of signed URLs in S3 (AWS, "Authenticating requests: using query parameters")."""

_NO_BODY = hashlib.sha256().hexdigest()
_BLOCK = 64
_INNER = bytes(byte ^ 0x36 for byte in range(256))
_OUTER = bytes(byte ^ 0x5C for byte in range(256))


@lru_cache(maxsize=64)
def signing_key(secret: str, day: str, region: str, service: str) -> bytes:
    """Derive the signing key for one day, region and service from a secret key (Signature Version 4)."""
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def authorization(  # noqa: PLR0913, PLR0917 -- the parts of a signature
    credentials: Credentials, region: str, service: str, line: str, headers: Mapping[str, str], body_hash: str
) -> str:
    """Return the Authorization header of a request (AWS, "Create a signed AWS API request").

    `line` has the method and the path, on two lines. All `headers` are signed: names in lower case, with `x-amz-date`.
    """
    stamp, names = headers["x-amz-date"], sorted(headers)
    lines = "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in names)
    request = f"{line}\n\n{lines}\n{';'.join(names)}\n{body_hash}"
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = signing_key(credentials.secret_access_key, stamp[:8], region, service)
    return (
        f"AWS4-HMAC-SHA256 Credential={credentials.access_key_id}/{scope}, SignedHeaders={';'.join(names)}, "
        f"Signature={hmac.digest(key, text.encode(), 'sha256').hex()}"
    )


class SignedRequest(NamedTuple):
    """URL and headers of a signed request, which S3 accepts for 15 minutes."""

    uri: str
    headers: Mapping[str, str]
    """Headers to send in addition to the headers that were passed to `signed_request`."""


def signed_request(  # noqa: PLR0913, PLR0917 -- the parts of a signature
    credentials: Credentials,
    storage: StorageConfig,
    name: ObjectName,
    method: str,
    headers: Mapping[str, str],
    now: datetime,
) -> SignedRequest:
    """Sign a request without body for an object, including `headers` (names in lower case)."""
    bucket_origin = origin(storage, name.bucket)
    path = bucket_origin.path + encode_key(name.key)
    stamp = f"{now:%Y%m%dT%H%M%SZ}"
    added = {"x-amz-content-sha256": _NO_BODY, "x-amz-date": stamp}
    if credentials.session_token:
        added["x-amz-security-token"] = credentials.session_token
    signed = {**headers, **added, "host": bucket_origin.host}
    signature = authorization(credentials, storage.region, "s3", f"{method}\n{path}", signed, _NO_BODY)
    uri = f"{bucket_origin.scheme}://{bucket_origin.authority}{path}"
    return SignedRequest(uri, {**added, "authorization": signature})


class UrlSigner:
    """Signer of GET URLs for the objects in one location, which all expire at the same time.

    A URL is `opening + path + query + signature`, where `path` is the key relative to the location, encoded by
    `encode_key`. All four are ASCII bytes that need no escaping in JSON. Create one signer for each response, because
    the validity of the URLs begins when the signer is created. Safe to use from several threads.
    """

    __slots__ = ("_after", "_inner", "_outer", "_request", "expires_at_ms", "opening", "query")

    opening: bytes
    """Scheme, host and path of the location, ending in a slash."""
    query: bytes
    """Query string of the URLs, from `?` to `X-Amz-Signature=`."""
    expires_at_ms: int
    """Expiry of the URLs in milliseconds since the epoch; the credentials do not expire earlier."""

    def __init__(
        self,
        credentials: Credentials,
        storage: StorageConfig,
        location: Location,
        *,
        ttl: timedelta,
        now: datetime | None = None,
    ) -> None:
        """Create a signer for object keys in `location`.

        URLs expire after `ttl` (at most seven days) or with the credentials. Expired credentials raise Unavailable.
        """
        signing_time = (now or datetime.now(UTC)).astimezone(UTC).replace(microsecond=0)
        seconds = int(min(ttl, MAX_TTL).total_seconds())
        signed_at = int(signing_time.timestamp())
        if credentials.expires_at_ms is not None:
            seconds = min(seconds, credentials.expires_at_ms // 1000 - signed_at)
        if seconds < 1:
            raise Unavailable("the credentials that sign URLs have expired; try again")
        self.expires_at_ms = (signed_at + seconds) * 1000

        bucket_origin = origin(storage, location.bucket)
        stamp = signing_time.strftime("%Y%m%dT%H%M%SZ")
        scope = f"{stamp[:8]}/{storage.region}/s3/aws4_request"
        common = (
            f"X-Amz-Algorithm=AWS4-HMAC-SHA256"
            f"&X-Amz-Credential={quote(f'{credentials.access_key_id}/{scope}', safe='-_.~')}"
            f"&X-Amz-Date={stamp}"
            f"&X-Amz-Expires={seconds}"
        )
        token = credentials.session_token
        token = f"&X-Amz-Security-Token={quote(token, safe='-_.~')}" if token else ""
        hosts = "&X-Amz-SignedHeaders=host"
        path = bucket_origin.path + encode_key(location.key_prefix)
        self.opening = f"{bucket_origin.scheme}://{bucket_origin.authority}{path}".encode()
        # As in botocore, the token follows the signed headers in the URL, but the signed string is sorted by name.
        self.query = f"?{common}{hosts}{token}&X-Amz-Signature=".encode()
        self._request = hashlib.sha256(f"GET\n{path}".encode())
        self._after = f"\n{common}{token}{hosts}\nhost:{bucket_origin.host}\n\nhost\nUNSIGNED-PAYLOAD".encode()
        key = signing_key(credentials.secret_access_key, stamp[:8], storage.region, "s3").ljust(_BLOCK, b"\0")
        to_sign = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n".encode()
        self._inner = hashlib.sha256(key.translate(_INNER) + to_sign)
        self._outer = hashlib.sha256(key.translate(_OUTER))

    def url(self, key: str) -> str:
        """Return the signed URL of an object; `key` is relative to the location, without percent-encoding."""
        return self.sign_path(encode_key(key).encode()).decode()

    def sign_path(self, path: bytes) -> bytes:
        """Return the signed URL of an object; `path` is its percent-encoded key relative to the location."""
        return b"".join((self.opening, path, self.query, *self.signatures((path,))))

    def signatures(self, paths: Sequence[bytes]) -> list[bytes]:
        """Return the signatures (64 hex digits) of the URLs of percent-encoded paths, in order."""
        after = self._after
        new_request, new_inner, new_outer = self._request.copy, self._inner.copy, self._outer.copy
        answer: list[bytes] = []
        append = answer.append
        for path in paths:
            request = new_request()
            request.update(path + after)
            inner = new_inner()
            inner.update(request.hexdigest().encode())
            outer = new_outer()
            outer.update(inner.digest())
            append(outer.hexdigest().encode())
        return answer

    def lines(self, head: bytes, paths: Sequence[bytes], *tails: bytes | Sequence[bytes]) -> bytes:
        """Return the joined lines `head + URL + tails` of all paths, optimized for NDJSON responses.

        Each of `tails` is one bytes object for all lines, or a sequence with one for each line.
        """
        count, width = len(paths), 4 + len(tails)
        pieces: list[bytes] = [b""] * (width * count)
        for at, column in enumerate((head + self.opening, paths, self.query, self.signatures(paths), *tails)):
            pieces[at::width] = repeat(column, count) if isinstance(column, bytes) else column
        return b"".join(pieces)
