"""Pre-signed GET URLs: AWS Signature Version 4 in the query string, a few microseconds each; and single requests.

Everything but the key is the same for all files of an answer, so it is prepared once: the text before and after the
path in the canonical request, and both halves of the HMAC as SHA-256 states that are copied instead of recomputed.
What remains per URL is three SHA-256 runs. Tests prove every byte against botocore.
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

LONGEST_LIFE = timedelta(days=7)
"""S3 refuses longer ones (AWS, "Authenticating requests: using query parameters")."""

_NO_BODY = hashlib.sha256().hexdigest()
_BLOCK = 64
_INNER = bytes(byte ^ 0x36 for byte in range(256))
_OUTER = bytes(byte ^ 0x5C for byte in range(256))


@lru_cache(maxsize=64)
def signing_key(secret: str, day: str, region: str, service: str) -> bytes:
    """Return the key that signs for one day, region and service."""
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def authorization(  # noqa: PLR0913, PLR0917 -- what a signature covers
    credentials: Credentials, region: str, service: str, line: str, headers: Mapping[str, str], body_hash: str
) -> str:
    """Return the header that signs a request (AWS, "Create a signed AWS API request").

    `line` is its method and path, on two lines; `headers` are signed, in lower case and with the `x-amz-date`.
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
    """A request that S3 answers within a quarter of an hour."""

    uri: str
    headers: Mapping[str, str]
    """What it carries beside its own headers, of which it must not lack one that was signed."""


def signed_request(  # noqa: PLR0913, PLR0917 -- what a signature covers
    credentials: Credentials,
    storage: StorageConfig,
    name: ObjectName,
    method: str,
    headers: Mapping[str, str],
    now: datetime,
) -> SignedRequest:
    """Sign a request without a body for one object, and of its own `headers` (lower-cased) these."""
    place = origin(storage, name.bucket)
    path = place.path + encode_key(name.key)
    stamp = f"{now:%Y%m%dT%H%M%SZ}"
    added = {"x-amz-content-sha256": _NO_BODY, "x-amz-date": stamp}
    if credentials.session_token:
        added["x-amz-security-token"] = credentials.session_token
    signed = {**headers, **added, "host": place.host}
    signature = authorization(credentials, storage.region, "s3", f"{method}\n{path}", signed, _NO_BODY)
    return SignedRequest(f"{place.scheme}://{place.authority}{path}", {**added, "authorization": signature})


class UrlSigner:
    """Signs GET URLs for the objects below one location, all valid until the same moment.

    A URL is `opening + path + query + signature`, where `path` is the key below the location as `encode_key` writes it;
    all four are ASCII bytes that need no escaping in JSON. Make one per answer: the time of signing is that of
    construction. Safe to use from several threads.
    """

    __slots__ = ("_after", "_inner", "_outer", "_request", "expires_at_ms", "opening", "query")

    opening: bytes
    """Scheme, host and path of the location, ending in a slash."""
    query: bytes
    """From `?` to `X-Amz-Signature=`."""
    expires_at_ms: int
    """When these URLs end, milliseconds since the epoch: the time of signing plus its life, which the life of the
    credentials bounds; `X-Amz-Expires` says the same."""

    def __init__(
        self,
        credentials: Credentials,
        storage: StorageConfig,
        location: Location,
        *,
        ttl: timedelta,
        now: datetime | None = None,
    ) -> None:
        """Prepare to sign keys below `location`.

        `ttl` is cut to seven days and to the end of the credentials. Raises Unavailable for expired credentials.
        """
        moment = (now or datetime.now(UTC)).astimezone(UTC).replace(microsecond=0)
        life = int(min(ttl, LONGEST_LIFE).total_seconds())
        signed_at = int(moment.timestamp())
        if credentials.expires_at_ms is not None:
            life = min(life, credentials.expires_at_ms // 1000 - signed_at)
        if life < 1:
            raise Unavailable("the credentials that sign URLs have expired; try again")
        self.expires_at_ms = (signed_at + life) * 1000

        place = origin(storage, location.bucket)
        stamp = moment.strftime("%Y%m%dT%H%M%SZ")
        scope = f"{stamp[:8]}/{storage.region}/s3/aws4_request"
        common = (
            f"X-Amz-Algorithm=AWS4-HMAC-SHA256"
            f"&X-Amz-Credential={quote(f'{credentials.access_key_id}/{scope}', safe='-_.~')}"
            f"&X-Amz-Date={stamp}"
            f"&X-Amz-Expires={life}"
        )
        token = credentials.session_token
        token = f"&X-Amz-Security-Token={quote(token, safe='-_.~')}" if token else ""
        hosts = "&X-Amz-SignedHeaders=host"
        path = place.path + encode_key(location.key_prefix)
        self.opening = f"{place.scheme}://{place.authority}{path}".encode()
        # botocore sends the token after the signed headers; what is signed is sorted by name all the same.
        self.query = f"?{common}{hosts}{token}&X-Amz-Signature=".encode()
        self._request = hashlib.sha256(f"GET\n{path}".encode())
        self._after = f"\n{common}{token}{hosts}\nhost:{place.host}\n\nhost\nUNSIGNED-PAYLOAD".encode()
        key = signing_key(credentials.secret_access_key, stamp[:8], storage.region, "s3").ljust(_BLOCK, b"\0")
        to_sign = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n".encode()
        self._inner = hashlib.sha256(key.translate(_INNER) + to_sign)
        self._outer = hashlib.sha256(key.translate(_OUTER))

    def url(self, key: str) -> str:
        """Return the URL of one key below the location (not encoded)."""
        return self.signed(encode_key(key).encode()).decode()

    def signed(self, path: bytes) -> bytes:
        """Return the URL of one encoded path below the location."""
        return b"".join((self.opening, path, self.query, *self.signatures((path,))))

    def signatures(self, paths: Sequence[bytes]) -> list[bytes]:
        """Return the signatures (64 hex digits) of encoded paths below the location, in order."""
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
        """Return `head + URL + tails` for every path, joined at once: the hot path of an NDJSON answer.

        Each of `tails` is the same for all lines, or one for each.
        """
        count, width = len(paths), 4 + len(tails)
        pieces: list[bytes] = [b""] * (width * count)
        for at, column in enumerate((head + self.opening, paths, self.query, self.signatures(paths), *tails)):
            pieces[at::width] = repeat(column, count) if isinstance(column, bytes) else column
        return b"".join(pieces)
