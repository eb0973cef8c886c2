"""HTTP client for a sharing server. It accepts every profile file that the `delta-sharing` package accepts."""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from threading import Lock
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote, urlsplit

import httpx
from delta_sharing_conformance.untrusted_http import ACCEPT_ENCODING, UnsafeResponse, all_pages, body_parts

from delta_sharing_pull.downloads import UrlReader
from delta_sharing_pull.errors import (
    InvalidParameter,
    NotFound,
    PermissionDenied,
    PullError,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    UnsupportedOperation,
)
from delta_sharing_pull.responses import InvalidResponse, Reply, decode
from delta_sharing_pull.retries import retry

_TIMEOUT: Final = httpx.Timeout(120, connect=20)
_USER_AGENT: Final = "deltaic-pull"
_MAX_MESSAGE: Final = 500
_ERRORS: Final[Mapping[int, type[PullError]]] = {
    401: Unauthenticated,
    403: PermissionDenied,
    404: NotFound,
    405: NotFound,
    501: NotFound,
}
_RETRYABLE: Final = frozenset({429, 500, 502, 503, 504})
"""HTTP statuses of an OAuth token endpoint after which the request for a token is repeated."""
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_MAX_PROFILE_BYTES: Final = 1 << 20
_T = TypeVar("_T")


@dataclass(frozen=True)
class SharedName:
    """Path of a profile file and full name of a shared table or folder: PROFILE#share.schema.name."""

    profile: Path
    share: str
    schema: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse PROFILE#share.schema.name; raises InvalidParameter for a string in another form."""
        file, separator, names = text.rpartition("#")
        parts = names.rsplit(".", 2)  # the name of a share can contain periods
        if not (file and separator and len(parts) == 3 and all(parts)):  # noqa: PLR2004 -- share, schema, name
            raise InvalidParameter(f"'{text}' is not the name of a shared item: use PROFILE#share.schema.name")
        return cls(Path(file), *parts)

    def __str__(self) -> str:
        return f"{self.share}.{self.schema}.{self.name}"

    def path(self, kind: str) -> str:
        """Return the URL path of the shared item. `kind` is tables, volumes, skills or models."""
        share, schema, name = (quote(part, safe="") for part in (self.share, self.schema, self.name))
        return f"/shares/{share}/schemas/{schema}/{kind}/{name}"


class SharingServer:
    """Client for the sharing server of a profile file. Threads can share it."""

    def __init__(self, endpoint: str, token: str = "", expires: str | None = None, credentials: Any = None) -> None:
        """Use a bearer token, or an authentication provider of the `delta-sharing` package (`credentials`)."""
        self.endpoint = endpoint
        try:
            parts = httpx.URL(self.endpoint)
        except httpx.InvalidURL:
            parts = httpx.URL()
        if parts.scheme not in {"http", "https"} or not parts.host or parts.query or parts.fragment:
            raise InvalidParameter(f"'{self.endpoint}' is not a valid endpoint: use https://host or http://host:port")
        headers = {"User-Agent": _USER_AGENT, **ACCEPT_ENCODING}
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        tls = httpx.create_ssl_context()  # reads the certificates of all authorities, so both clients share it
        self._http = httpx.Client(timeout=_TIMEOUT, headers=headers, verify=tls)
        self.url_reader = UrlReader(self.endpoint, tls)
        self._expires = expires
        self._credentials = credentials
        self._lock = Lock()

    @classmethod
    def from_profile(cls, profile: Path) -> Self:
        """Return a client for a profile file; raises InvalidParameter if the file is invalid."""
        try:
            with profile.open("rb") as file:
                fields = json.loads(file.read(_MAX_PROFILE_BYTES))
            if int(fields["shareCredentialsVersion"]) == 1:
                return cls(fields["endpoint"].removesuffix("/"), fields["bearerToken"], fields.get("expirationTime"))
            parsed, credentials = _sign_in(fields)
            return cls(parsed.endpoint, expires=parsed.expiration_time, credentials=credentials)
        except FileNotFoundError:
            raise InvalidParameter(f"Profile file {profile} does not exist: check the path before the #") from None
        except (OSError, ValueError, KeyError, TypeError, RecursionError, AttributeError) as error:
            reason = error.strerror if isinstance(error, OSError) else type(error).__name__
            raise InvalidParameter(f"{profile} is not a valid profile file ({reason})") from None
        except RuntimeError:  # raised by the library for an unknown type
            raise InvalidParameter(f"Profile type '{fields['type']}' is not supported: ask for another one") from None

    def close(self) -> None:
        """Close the HTTP connections."""
        self._http.close()
        self.url_reader.close()

    def request(  # noqa: PLR0913 -- the parts of an HTTP request
        self,
        method: str,
        path: str,
        read: Callable[[httpx.Response], _T],
        *,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        parameters: Mapping[str, str | int] | None = None,
    ) -> _T:
        """Send a request, retry temporary failures, and return the result of `read`, which can stream the response.

        Raises a PullError with the server's message for other error statuses.
        """

        def send() -> _T:
            with self._lock:
                self._authorize()
                request = self._http.build_request(
                    method, f"{self.endpoint}{path}", json=body, headers=dict(headers or {}), params=parameters
                )
            try:
                with closing(self._http.send(request, stream=True)) as response:
                    if response.is_success:
                        return read(response)
                    raise self._error(response)
            except UnsafeResponse as error:
                raise InvalidResponse(self.host, error) from None
            except httpx.HTTPError as error:
                raise Unavailable(f"The connection to {self.host} failed ({type(error).__name__})") from None

        return retry(send)

    def json(self, method: str, path: str, body: object = None, **parameters: str | int) -> Reply:
        """Send a request and return its JSON response."""

        def read(response: httpx.Response) -> Reply:
            return decode(b"".join(body_parts(response)), Reply, self.host)

        return self.request(method, path, read, body=body, parameters=parameters)

    def pages(self, get_page: Callable[[str], _T], next_token: Callable[[_T], str | None]) -> Iterator[_T]:
        """Yield the pages that `get_page` returns for a page token; raises InvalidResponse if the pages never end."""
        try:
            yield from all_pages(get_page, lambda page: next_token(page) or "")
        except UnsafeResponse as error:
            raise InvalidResponse(self.host, error) from None

    def version(self, response: httpx.Response) -> int:
        """Return the table version from the headers of a response; raises InvalidResponse without that header."""
        text = response.headers.get("delta-table-version", "")
        if not _NUMBER.fullmatch(text):
            raise InvalidResponse(self.host, "no valid Delta-Table-Version header")
        return int(text)

    @property
    def host(self) -> str:
        """Host and port of the server, for messages."""
        return urlsplit(self.endpoint).netloc

    def _authorize(self) -> None:
        if self._credentials is None:
            return
        try:
            self._credentials.add_auth_header(self._http)
        except Exception as error:  # noqa: BLE001 -- the library can raise anything
            status = getattr(getattr(error, "response", None), "status_code", None)
            message = f"The token endpoint of this profile issued no token ({status or type(error).__name__})"
            # An unreadable key file has an errno, a broken connection has none.
            is_broken = isinstance(error, OSError) and not isinstance(error, ValueError) and error.errno is None
            is_temporary = is_broken if status is None else status in _RETRYABLE
            raise (Unavailable if is_temporary else Unauthenticated)(message) from None

    def _error(self, response: httpx.Response) -> PullError:
        status = response.status_code
        try:
            body = json.loads(b"".join(body_parts(response)))
            details = f"{body.get('errorCode') or ''}: {body.get('message') or ''}".strip(": ")
        except (ValueError, RecursionError, AttributeError):
            details = ""
        answer = f"status {status}" + f", {details[:_MAX_MESSAGE]}" * bool(details)
        message = f"{self.host} responds with {answer}"
        if status == 401:  # noqa: PLR2004 -- Unauthorized
            expiry = f" (it was to expire at {self._expires})" if self._expires else ""
            message = (
                f"{self.host} does not accept the token of this profile: it was revoked, or has expired{expiry}. "
                f"Ask the provider for a new profile (the server responds with {answer})"
            )
        if status == 429:  # noqa: PLR2004 -- Too Many Requests
            after = response.headers.get("retry-after", "")
            return TooManyRequests(message, retry_after=int(after) if _NUMBER.fullmatch(after) else None)
        if response.is_server_error and status not in _ERRORS:
            return Unavailable(message)
        return _ERRORS.get(status, UnsupportedOperation)(message)


def _sign_in(fields: Any) -> tuple[Any, Any]:
    """Return profile and authentication provider of the `delta-sharing` package, for the fields of a profile file.

    The package's own first module imports pandas, which takes longer than all else at the start: it is not run.
    """
    package: Any = find_spec("delta_sharing")
    is_new = sys.modules.setdefault("delta_sharing", module := module_from_spec(package)) is module
    try:
        from delta_sharing._internal_auth import AuthCredentialProviderFactory
        from delta_sharing.protocol import DeltaSharingProfile
    finally:
        if is_new:
            del sys.modules["delta_sharing"]
    profile = DeltaSharingProfile.from_json(fields)
    return profile, AuthCredentialProviderFactory.create_auth_credential_provider(profile)
