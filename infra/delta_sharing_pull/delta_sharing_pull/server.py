"""A sharing server as a recipient's program asks it, by any profile that the published client takes."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote, urlsplit

import httpx
from delta_sharing_conformance.untrusted_http import ACCEPT_ENCODING, AnswerRefused, all_pages, body_parts

from delta_sharing_pull.answers import InvalidAnswer, Reply, decoded
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
from delta_sharing_pull.fetching import Urls
from delta_sharing_pull.patience import patiently

_TIMEOUT: Final = httpx.Timeout(120, connect=20)
_AGENT: Final = "deltaic-pull"
_SHOWN: Final = 500
_REFUSALS: Final[Mapping[int, type[PullError]]] = {
    401: Unauthenticated,
    403: PermissionDenied,
    404: NotFound,
    405: NotFound,
    501: NotFound,
}
_PASSING: Final = frozenset({429, 500, 502, 503, 504})
"""Of a token endpoint, which is asked again in the middle of a long pull."""
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_MOST_BYTES: Final = 1 << 20
"""Of a profile file."""
_T = TypeVar("_T")


@dataclass(frozen=True)
class Shared:
    """What a recipient names: PROFILE#share.schema.name."""

    profile: Path
    share: str
    schema: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read it; raises InvalidParameter for anything else."""
        file, found, names = text.rpartition("#")
        parts = names.rsplit(".", 2)  # a share's name may have periods
        if not (file and found and len(parts) == 3 and all(parts)):  # noqa: PLR2004 -- share, schema, name
            raise InvalidParameter(f"'{text}' names nothing shared: write PROFILE#share.schema.name")
        return cls(Path(file), *parts)

    def __str__(self) -> str:
        """Name it as recipients do."""
        return f"{self.share}.{self.schema}.{self.name}"

    def path(self, kind: str) -> str:
        """Return where the server has it: `kind` is tables, volumes, skills, models."""
        share, schema, name = (quote(each, safe="") for each in (self.share, self.schema, self.name))
        return f"/shares/{share}/schemas/{schema}/{kind}/{name}"


class SharingServer:
    """The server of a profile. May be asked from several threads."""

    def __init__(self, endpoint: str, token: str = "", token_ends: str | None = None, credentials: Any = None) -> None:
        """Open the server of a bearer token, or of the published client's credentials, which get their tokens."""
        self.endpoint = endpoint
        try:
            parts = httpx.URL(self.endpoint)
        except httpx.InvalidURL:
            parts = httpx.URL()
        if parts.scheme not in {"http", "https"} or not parts.host or parts.query or parts.fragment:
            raise InvalidParameter(f"'{self.endpoint}' is not an endpoint: write https://host or http://host:port")
        headers = {"User-Agent": _AGENT, **ACCEPT_ENCODING, **({"Authorization": f"Bearer {token}"} if token else {})}
        self._http = httpx.Client(timeout=_TIMEOUT, headers=headers)
        self.urls = Urls(self.endpoint)
        self._token_ends = token_ends
        self._credentials = credentials
        self._lock = Lock()

    @classmethod
    def of(cls, profile: Path) -> Self:
        """Open the server of a profile file; raises InvalidParameter for a file that is none."""
        try:
            with profile.open("rb") as file:
                fields = json.loads(file.read(_MOST_BYTES))
            if int(fields["shareCredentialsVersion"]) == 1:
                return cls(fields["endpoint"].removesuffix("/"), fields["bearerToken"], fields.get("expirationTime"))
            # The library imports pandas, which takes two thirds of this program's start.
            from delta_sharing._internal_auth import AuthCredentialProviderFactory
            from delta_sharing.protocol import DeltaSharingProfile

            found = DeltaSharingProfile.from_json(fields)
            credentials = AuthCredentialProviderFactory.create_auth_credential_provider(found)
            return cls(found.endpoint, token_ends=found.expiration_time, credentials=credentials)
        except (OSError, ValueError, KeyError, TypeError, RecursionError, AttributeError) as error:
            why = error.strerror if isinstance(error, OSError) else type(error).__name__
            raise InvalidParameter(f"{profile} is no profile file ({why})") from None
        except RuntimeError:  # of the library
            raise InvalidParameter(f"a profile of type '{fields['type']}' cannot be used: ask for another") from None

    def close(self) -> None:
        """Close its connections."""
        self._http.close()
        self.urls.close()

    def ask(  # noqa: PLR0913 -- what a request is made of
        self,
        method: str,
        path: str,
        read: Callable[[httpx.Response], _T],
        *,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        parameters: Mapping[str, str | int] | None = None,
    ) -> _T:
        """Return what `read` makes of the answer, which it may read as it comes; asked again what fails in passing.

        Raises what the server refuses as the error of its status, with the server's own words.
        """

        def once() -> _T:
            with self._lock:
                self._authorize()
                request = self._http.build_request(
                    method, f"{self.endpoint}{path}", json=body, headers=dict(headers or {}), params=parameters
                )
            try:
                answer = self._http.send(request, stream=True)
                try:
                    if answer.is_success:
                        return read(answer)
                    raise self._refusal(answer)
                finally:
                    answer.close()
            except AnswerRefused as refused:
                raise InvalidAnswer(self.host, refused) from None
            except httpx.HTTPError as error:
                raise Unavailable(f"{self.host} cannot be reached, or broke off ({type(error).__name__})") from None

        return patiently(once)

    def json(self, method: str, path: str, body: object = None, **parameters: str | int) -> Reply:
        """Return an answer in JSON."""

        def read(answer: httpx.Response) -> Reply:
            return decoded(b"".join(body_parts(answer)), Reply, self.host)

        return self.ask(method, path, read, body=body, parameters=parameters)

    def pages(self, ask: Callable[[str], _T], next_token: Callable[[_T], str | None]) -> Iterator[_T]:
        """Yield the pages that `ask` returns for a token; raises InvalidAnswer for a listing without an end."""
        try:
            yield from all_pages(ask, lambda page: next_token(page) or "")
        except AnswerRefused as refused:
            raise InvalidAnswer(self.host, refused) from None

    def version(self, answer: httpx.Response) -> int:
        """Return which version of a table an answer is of; raises InvalidAnswer where it does not say."""
        text = answer.headers.get("delta-table-version", "")
        if not _NUMBER.fullmatch(text):
            raise InvalidAnswer(self.host, "a table without a version")
        return int(text)

    @property
    def host(self) -> str:
        """How the server is named to people."""
        return urlsplit(self.endpoint).netloc

    def _authorize(self) -> None:
        if self._credentials is None:
            return
        try:
            self._credentials.add_auth_header(self._http)
        except Exception as error:  # noqa: BLE001 -- whatever the library makes of an exchange, a key file, an answer
            status = getattr(getattr(error, "response", None), "status_code", None)
            message = f"the token endpoint of this profile gives no token ({status or type(error).__name__})"
            # A file that cannot be read has a number, a connection that breaks has none.
            broken = isinstance(error, OSError) and not isinstance(error, ValueError) and error.errno is None
            passes = broken if status is None else status in _PASSING
            raise (Unavailable if passes else Unauthenticated)(message) from None

    def _refusal(self, answer: httpx.Response) -> PullError:
        try:
            told = json.loads(b"".join(body_parts(answer)))
            said = f"{told.get('errorCode') or ''}: {told.get('message') or ''}".strip(": ")
        except (ValueError, RecursionError, AttributeError):
            said = ""
        message = f"{self.host} answers {answer.status_code}" + f", {said[:_SHOWN]}" * bool(said)
        if answer.status_code == 401 and self._token_ends:  # noqa: PLR2004 -- Unauthorized
            message += f" (the profile says that it ends at {self._token_ends})"
        if answer.status_code == 429:  # noqa: PLR2004 -- Too Many Requests
            after = answer.headers.get("retry-after", "")
            return TooManyRequests(message, retry_after=int(after) if _NUMBER.fullmatch(after) else None)
        if answer.is_server_error and answer.status_code not in _REFUSALS:
            return Unavailable(message)
        return _REFUSALS.get(answer.status_code, UnsupportedOperation)(message)
