"""Volumes, skills and model versions: folders of objects, read by credentials or by signed URLs."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from threading import Lock
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import quote

from botocore.exceptions import BotoCoreError, ClientError
from delta_sharing_conformance.untrusted_http import AnswerRefused, check_url

from delta_sharing_pull.answers import InvalidAnswer, Reply, SharedObject, stored_object
from delta_sharing_pull.errors import NotFound, PermissionDenied, Unavailable, UnsupportedOperation
from delta_sharing_pull.fetching import ObjectChanged, UrlRefused
from delta_sharing_pull.server import Shared, SharingServer

_PAGE: Final = 1000
_PIECE: Final = 1 << 18
_LEAST_SECONDS: Final = 300
_ACCESS_POINT: Final = r"arn:aws[a-z-]*:s3:[a-z0-9-]+:\d{12}:accesspoint/[a-z0-9-]{3,50}"
_LOCATION: Final = re.compile(rf"(?i:s3[an]?)://({_ACCESS_POINT}|[A-Za-z0-9][A-Za-z0-9._-]+)(?:/+(.*?))?/*")
"""A bucket or an access point that stands for one, and the prefix without the slashes around it."""
KINDS: Final = {"volume": "volumes", "skill": "skills", "model": "models"}


class OpenedObject(NamedTuple):
    """An object that can be read from a position on: of this ETag, or ObjectChanged is raised."""

    object: SharedObject
    read: Callable[[int], Iterator[bytes]]


class FolderReader(Protocol):
    """What lists and opens a folder's objects. `open` may be called from several threads."""

    def pages(self) -> Iterator[Sequence[SharedObject]]:
        """Yield all objects, some at a time."""
        ...

    def open(self, objects: Sequence[SharedObject], *, anew: bool = False) -> list[OpenedObject]:
        """Return those that are still there; `anew` as they are now, and by other URLs."""
        ...


def find_folder(
    server: SharingServer, shared: Shared, kind: str = "", version: int | None = None
) -> FolderReader | None:
    """Return a reader of the volume, skill or model version of a name; None if the server has none.

    `kind` looks for one alone. Of a model `version`, or the one behind a `/` in the name, is wanted: raises
    UnsupportedOperation without one.
    """
    name, _, behind = shared.name.partition("/")
    named = Shared(shared.profile, shared.share, shared.schema, name)
    wanted = behind or ("" if version is None else str(version))
    for each in [kind] if kind else ["model"] if behind else KINDS:
        path = named.path(KINDS[each])
        told = _told(server, path)
        if told is not None and each == "model":
            if not wanted:
                raise UnsupportedOperation(f"{named} is a model: say which version, {named}/3 or --version 3")
            path = f"{path}/versions/{quote(wanted, safe='')}"
            told = _told(server, path)
        if told is not None and "dir" in (told.access_modes or ["dir"]):
            return _ByCredentials(server, each, path, told.storage_location or "")
        if told is not None:
            return _ByUrls(server, f"{path}/files")
    return None


def _told(server: SharingServer, path: str) -> Reply | None:
    try:
        return server.json("GET", path)
    except InvalidAnswer:
        raise
    except (NotFound, PermissionDenied, UnsupportedOperation):  # as servers answer for a route that they do not have
        return None


class _ByUrls:
    """By signed URLs, for who cannot take credentials."""

    def __init__(self, server: SharingServer, path: str) -> None:
        self._server = server
        self._path = path

    def pages(self) -> Iterator[Sequence[SharedObject]]:
        def ask(token: str) -> Reply:
            return self._server.json("GET", self._path, maxResults=_PAGE, **({"pageToken": token} if token else {}))

        return (page.items or [] for page in self._server.pages(ask, lambda page: page.next_page_token))

    def open(self, objects: Sequence[SharedObject], *, anew: bool = False) -> list[OpenedObject]:  # noqa: ARG002
        body = {"paths": [each.name for each in objects]}
        found = self._server.json("POST", self._path, body).items or []
        if any(each.url is None for each in found):
            raise InvalidAnswer(self._server.host, "a file without a URL")
        read = self._server.urls.read
        return [
            OpenedObject(each, partial(read, each.url or "", etag=each.etag))
            for each in found
            if each.name in body["paths"]
        ]


class _ByCredentials:
    """By credentials of the store, renewed before they end."""

    def __init__(self, server: SharingServer, kind: str, path: str, location: str) -> None:
        self._server = server
        self._path = f"{path}/temporary-{'model-version' if kind == 'model' else kind}-credentials"
        place = _LOCATION.fullmatch(location)
        if place is None:
            raise UnsupportedOperation(f"a {kind} that lies in '{location}' cannot be pulled: only S3 can")
        self._bucket, self._prefix = place[1], f"{place[2]}/" if place[2] else ""
        self._lock = Lock()
        self._ends = 0.0
        self._known: Any = None

    def pages(self) -> Iterator[Sequence[SharedObject]]:
        def ask(token: str) -> Any:
            more = {"ContinuationToken": token} if token else {}
            return self._call("list_objects_v2", Bucket=self._bucket, Prefix=self._prefix, **more)

        def next_token(page: Any) -> str:
            token = page.get("NextContinuationToken", "")
            if page.get("IsTruncated") and not token:
                raise InvalidAnswer("the store", "a listing is cut off")
            return str(token)

        cut = len(self._prefix)
        for page in self._server.pages(ask, next_token):
            found = [
                stored_object(each.get("Key"), each.get("Size"), each.get("ETag")) for each in page.get("Contents", [])
            ]
            # A marker of a folder is no file.
            files = [each for each in found if each.name[cut:] and each.name[-1] != "/"]
            yield [SharedObject(each.name[cut:], each.size, each.etag) for each in files]

    def open(self, objects: Sequence[SharedObject], *, anew: bool = False) -> list[OpenedObject]:
        found = [self._now(each) for each in objects] if anew else objects
        return [OpenedObject(each, partial(self._read, each)) for each in found if each is not None]

    def _now(self, known: SharedObject) -> SharedObject | None:
        try:
            head = self._call("head_object", Bucket=self._bucket, Key=self._prefix + known.name)
        except NotFound:
            return None
        return stored_object(known.name, head.get("ContentLength"), head.get("ETag"))

    def _read(self, each: SharedObject, start: int) -> Iterator[bytes]:
        span = {"Range": f"bytes={start}-"} if start else {}
        key = self._prefix + each.name
        body = self._call("get_object", Bucket=self._bucket, Key=key, IfMatch=each.etag, **span)["Body"]
        try:
            yield from body.iter_chunks(_PIECE)
        except (BotoCoreError, OSError) as error:
            raise Unavailable(f"the store broke off ({type(error).__name__})") from None
        finally:
            body.close()

    def _call(self, operation: str, **told: Any) -> Any:
        from botocore.parsers import ResponseParserError

        try:
            return getattr(self._client(), operation)(**told)
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            if code in {"PreconditionFailed", "412"}:
                raise ObjectChanged("the object has changed") from None
            if code in {"NoSuchKey", "404"}:
                raise NotFound("an object is gone") from None
            if isinstance(status, int) and status >= 500:  # noqa: PLR2004 -- Server Error
                raise Unavailable(f"the store answers {status}") from None
            raise UrlRefused(f"the store refuses the credentials that the server gave ({code})") from None
        except (BotoCoreError, ResponseParserError, ValueError) as error:  # the last of a number that is none
            raise Unavailable(f"the store cannot be reached, or understood ({type(error).__name__})") from None

    def _client(self) -> Any:
        with self._lock:
            if self._known is None or self._ends < time.time() + _LEAST_SECONDS:
                self._known, self._ends = self._fresh()
            return self._known

    def _fresh(self) -> tuple[Any, float]:
        import boto3  # here and in `_call`: tables and URLs need no client of S3
        from botocore.config import Config

        reply = self._server.json("POST", self._path, {})
        reply = reply.credentials or reply
        keys = reply.aws_temp_credentials
        if keys is None:
            raise UnsupportedOperation("the server gives no credentials of AWS: other stores cannot be pulled from")
        not_elsewhere: Any = {"ignore_configured_endpoint_urls": True}  # of the environment; unknown to the stubs
        config = Config(
            s3={"addressing_style": "path" if reply.endpoint else "auto"},
            retries={"total_max_attempts": 1},
            max_pool_connections=32,
            **not_elsewhere,
        )
        try:
            session = boto3.session.Session(keys["accessKeyId"], keys["secretAccessKey"], keys["sessionToken"])
            if reply.endpoint:
                check_url(self._server.endpoint, reply.endpoint)
            # Without a region it is the environment's.
            client = session.client("s3", region_name=reply.region, endpoint_url=reply.endpoint, config=config)
        except (AnswerRefused, KeyError, ValueError, BotoCoreError) as wrong:
            raise UnsupportedOperation(f"the server's credentials cannot be used: {wrong}") from None
        return client, reply.expiration_time / 1000
