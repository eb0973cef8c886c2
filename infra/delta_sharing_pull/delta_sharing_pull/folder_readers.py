"""List and read the files of volumes, skills and model versions, with temporary credentials or signed URLs."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from threading import Lock
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import quote

from botocore.exceptions import BotoCoreError, ClientError
from delta_sharing_conformance.untrusted_http import UnsafeResponse, check_url

from delta_sharing_pull.downloads import ObjectChanged, UrlRefused
from delta_sharing_pull.errors import NotFound, PermissionDenied, Unavailable, UnsupportedOperation
from delta_sharing_pull.responses import InvalidResponse, Reply, SharedObject, stored_object
from delta_sharing_pull.server import SharedName, SharingServer

_PAGE_SIZE: Final = 1000
_CHUNK_BYTES: Final = 1 << 18
_RENEW_SECONDS: Final = 300
_ACCESS_POINT: Final = r"arn:aws[a-z-]*:s3:[a-z0-9-]+:\d{12}:accesspoint/[a-z0-9-]{3,50}"
_LOCATION: Final = re.compile(rf"(?i:s3[an]?)://({_ACCESS_POINT}|[A-Za-z0-9][A-Za-z0-9._-]+)(?:/+(.*?))?/*")
"""Matches an S3 location. Groups: bucket or access point, and the prefix without leading and trailing slashes."""
KINDS: Final = {"volume": "volumes", "skill": "skills", "model": "models"}


class ReadableObject(NamedTuple):
    """An object, and a function that reads it from an offset on and raises ObjectChanged if its ETag differs."""

    object: SharedObject
    read: Callable[[int], Iterator[bytes]]


class FolderReader(Protocol):
    """Reader that lists and opens the objects of a shared folder. Several threads can call `open`."""

    def pages(self) -> Iterator[Sequence[SharedObject]]:
        """Yield all objects of the folder, one page at a time."""

    def open(self, objects: Sequence[SharedObject], *, refresh: bool = False) -> list[ReadableObject]:
        """Return the objects that still exist, ready to be read; `refresh` gets their ETags and URLs again."""


def find_folder(
    server: SharingServer, name: SharedName, kind: str = "", version: int | None = None
) -> FolderReader | None:
    """Return a reader for the volume, skill or model version with this name; None if none exists.

    `kind` limits the search to volumes, skills or models. The version of a model is `version`, or follows a `/` in the
    name; raises UnsupportedOperation for a model without a version.
    """
    base, _, suffix = name.name.partition("/")
    name = SharedName(name.profile, name.share, name.schema, base)
    model_version = suffix or ("" if version is None else str(version))
    for candidate in [kind] if kind else ["model"] if suffix else KINDS:
        path = name.path(KINDS[candidate])
        details = _details(server, path)
        if details is not None and candidate == "model":
            if not model_version:
                raise UnsupportedOperation(f"{name} is a model: specify a version with {name}/3 or --version 3")
            path = f"{path}/versions/{quote(model_version, safe='')}"
            details = _details(server, path)
        if details is not None and "dir" in (details.access_modes or ["dir"]):
            return _CredentialsReader(server, candidate, path, details.storage_location or "")
        if details is not None:
            return _UrlFolderReader(server, f"{path}/files")
    return None


def _details(server: SharingServer, path: str) -> Reply | None:
    try:
        return server.json("GET", path)
    except InvalidResponse:
        raise
    except (NotFound, PermissionDenied, UnsupportedOperation):  # servers without this route respond with any of these
        return None


class _UrlFolderReader:
    """Reader of a folder's objects by signed URLs that the sharing server creates."""

    def __init__(self, server: SharingServer, path: str) -> None:
        self._server = server
        self._path = path

    def pages(self) -> Iterator[Sequence[SharedObject]]:
        def get_page(token: str) -> Reply:
            parameters = {"pageToken": token} if token else {}
            return self._server.json("GET", self._path, maxResults=_PAGE_SIZE, **parameters)

        return (page.items or [] for page in self._server.pages(get_page, lambda page: page.next_page_token))

    def open(self, objects: Sequence[SharedObject], *, refresh: bool = False) -> list[ReadableObject]:  # noqa: ARG002
        body = {"paths": [item.name for item in objects]}
        signed = self._server.json("POST", self._path, body).items or []
        if any(item.url is None for item in signed):
            raise InvalidResponse(self._server.host, "a file has no URL")
        read = self._server.url_reader.read
        return [
            ReadableObject(item, partial(read, item.url or "", etag=item.etag))
            for item in signed
            if item.name in body["paths"]
        ]


class _CredentialsReader:
    """Reader of a folder's objects from S3 with temporary credentials, which it renews before they expire."""

    def __init__(self, server: SharingServer, kind: str, path: str, location: str) -> None:
        self._server = server
        self._path = f"{path}/temporary-{'model-version' if kind == 'model' else kind}-credentials"
        match = _LOCATION.fullmatch(location)
        if match is None:
            raise UnsupportedOperation(f"The {kind} is stored in '{location}', but only S3 is supported")
        self._bucket, self._prefix = match[1], f"{match[2]}/" if match[2] else ""
        self._lock = Lock()
        self._expires = 0.0
        self._s3: Any = None

    def pages(self) -> Iterator[Sequence[SharedObject]]:
        def get_page(token: str) -> Any:
            parameters = {"ContinuationToken": token} if token else {}
            return self._call("list_objects_v2", Bucket=self._bucket, Prefix=self._prefix, **parameters)

        def next_token(page: Any) -> str:
            token = page.get("NextContinuationToken", "")
            if page.get("IsTruncated") and not token:
                raise InvalidResponse("The object store", "a truncated listing has no continuation token")
            return str(token)

        start = len(self._prefix)
        for page in self._server.pages(get_page, next_token):
            contents = page.get("Contents", [])
            objects = [stored_object(item.get("Key"), item.get("Size"), item.get("ETag")) for item in contents]
            # Objects whose names end with / only mark folders.
            files = [item for item in objects if item.name[start:] and item.name[-1] != "/"]
            yield [SharedObject(item.name[start:], item.size, item.etag) for item in files]

    def open(self, objects: Sequence[SharedObject], *, refresh: bool = False) -> list[ReadableObject]:
        current = [self._head(item) for item in objects] if refresh else objects
        return [ReadableObject(item, partial(self._read, item)) for item in current if item is not None]

    def _head(self, item: SharedObject) -> SharedObject | None:
        try:
            head = self._call("head_object", Bucket=self._bucket, Key=self._prefix + item.name)
        except NotFound:
            return None
        return stored_object(item.name, head.get("ContentLength"), head.get("ETag"))

    def _read(self, item: SharedObject, start: int) -> Iterator[bytes]:
        headers = {"Range": f"bytes={start}-"} if start else {}
        key = self._prefix + item.name
        body = self._call("get_object", Bucket=self._bucket, Key=key, IfMatch=item.etag, **headers)["Body"]
        try:
            yield from body.iter_chunks(_CHUNK_BYTES)
        except (BotoCoreError, OSError) as error:
            raise Unavailable(f"The connection to the object store failed ({type(error).__name__})") from None
        finally:
            body.close()

    def _call(self, operation: str, **parameters: Any) -> Any:
        from botocore.parsers import ResponseParserError

        try:
            return getattr(self._client(), operation)(**parameters)
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            if code in {"PreconditionFailed", "412"}:
                raise ObjectChanged("The object changed during the download") from None
            if code in {"NoSuchKey", "404"}:
                raise NotFound("The object does not exist") from None
            if isinstance(status, int) and status >= 500:  # noqa: PLR2004 -- Server Error
                raise Unavailable(f"The object store responds with status {status}: try again later") from None
            raise UrlRefused(f"The object store rejects the server's credentials ({code}): tell the provider") from None
        except (BotoCoreError, ResponseParserError, ValueError) as error:  # ValueError for an invalid number
            raise Unavailable(f"The request to the object store failed ({type(error).__name__})") from None

    def _client(self) -> Any:
        with self._lock:
            if self._s3 is None or self._expires < time.time() + _RENEW_SECONDS:
                self._s3, self._expires = self._new_client()
            return self._s3

    def _new_client(self) -> tuple[Any, float]:
        import boto3  # imported late, as in `_call`, because tables and signed URLs do not need it
        from botocore.config import Config

        reply = self._server.json("POST", self._path, {})
        reply = reply.credentials or reply
        keys = reply.aws_temp_credentials
        if keys is None:
            raise UnsupportedOperation("The server issues no AWS credentials: ask the provider for signed URLs")
        # Ignore AWS_ENDPOINT_URL, so that no other endpoint sees the credentials. The type stubs lack this option.
        ignore_environment: Any = {"ignore_configured_endpoint_urls": True}
        config = Config(
            s3={"addressing_style": "path" if reply.endpoint else "auto"},
            retries={"total_max_attempts": 1},
            max_pool_connections=32,
            **ignore_environment,
        )
        try:
            session = boto3.session.Session(keys["accessKeyId"], keys["secretAccessKey"], keys["sessionToken"])
            if reply.endpoint:
                check_url(self._server.endpoint, reply.endpoint)
            # Without a region in the response, boto3 uses the region of the environment.
            client = session.client("s3", region_name=reply.region, endpoint_url=reply.endpoint, config=config)
        except (UnsafeResponse, KeyError, ValueError, BotoCoreError) as error:
            raise UnsupportedOperation(f"The credentials of the server are invalid: {error}") from None
        return client, reply.expiration_time / 1000
