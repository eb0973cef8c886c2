"""Volumes, skills and model versions: folders of objects, read by credentials or by signed URLs."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import quote

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from deltaic.errors import InvalidParameter, NotFound, PermissionDenied, Unavailable, UnsupportedOperation
from deltaic.storage.locations import Location

from deltaic_ops.pull.fetching import ObjectChanged, UrlRefused, Urls
from deltaic_ops.pull.server import Shared, SharingServer

_PAGE: Final = 1000
_PIECE: Final = 1 << 18
_LEAST_SECONDS: Final = 300
KINDS: Final = {"volume": "volumes", "skill": "skills", "model": "models"}


class SharedObject(NamedTuple):
    """An object as the folder lists it."""

    name: str
    size: int
    etag: str


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


@dataclass(frozen=True)
class SharedFolder:
    """A folder of objects that a recipient may read."""

    kind: str
    path: str
    """Its route below the endpoint."""
    told: Mapping[str, Any]
    """What the server says of it."""

    def reader(self, server: SharingServer, urls: Urls) -> FolderReader:
        """Return what reads it: by credentials, unless the server says that there are none."""
        if "dir" in (self.told.get("accessModes") or ["dir"]):
            return _ByCredentials(server, self)
        return _ByUrls(server, self, urls)


def find_folder(
    server: SharingServer, shared: Shared, kind: str = "", version: int | None = None
) -> SharedFolder | None:
    """Return the volume, skill or model version of a name; None if there is none, as on servers without such.

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
        if told is not None:
            return SharedFolder(each, path, told)
    return None


def _told(server: SharingServer, path: str) -> Mapping[str, Any] | None:
    try:
        found: Mapping[str, Any] = server.json("GET", path)
    except (NotFound, PermissionDenied, UnsupportedOperation):  # as servers answer for a route that they do not have
        return None
    return found


class _ByUrls:
    """By signed URLs, for who cannot take credentials."""

    def __init__(self, server: SharingServer, folder: SharedFolder, urls: Urls) -> None:
        self._server = server
        self._path = f"{folder.path}/files"
        self._urls = urls

    def pages(self) -> Iterator[Sequence[SharedObject]]:
        told: dict[str, str | int] = {"maxResults": _PAGE}
        while True:
            page = self._server.json("GET", self._path, None, **told)
            yield [_object(item) for item in page.get("items") or []]
            if not page.get("nextPageToken"):
                return
            told["pageToken"] = str(page["nextPageToken"])

    def open(self, objects: Sequence[SharedObject], *, anew: bool = False) -> list[OpenedObject]:  # noqa: ARG002
        answer = self._server.json("POST", self._path, {"paths": [each.name for each in objects]})
        wanted = {each.name for each in objects}
        found = [(_object(item), str(item["url"])) for item in answer.get("items") or []]
        return [OpenedObject(each, self._reading(url, each.etag)) for each, url in found if each.name in wanted]

    def _reading(self, url: str, etag: str) -> Callable[[int], Iterator[bytes]]:
        return lambda start: self._urls.read(url, start, etag)


def _object(item: Mapping[str, Any]) -> SharedObject:
    try:
        found = SharedObject(str(item["name"]), int(item["size"]), str(item["etag"]))
    except (KeyError, TypeError, ValueError):
        found = None
    if found is None or not found.etag:  # by which content is told from content
        raise UnsupportedOperation("the server lists a file that cannot be read: a field is missing or wrong")
    return found


class _ByCredentials:
    """By credentials of the store, renewed before they end."""

    def __init__(self, server: SharingServer, folder: SharedFolder) -> None:
        self._server = server
        self._folder = folder
        told = str(folder.told.get("storageLocation") or "")
        try:
            place = Location.parse(told)
        except InvalidParameter:
            raise UnsupportedOperation(f"a {folder.kind} that lies in '{told}' cannot be pulled: only S3 can") from None
        self._bucket, self._prefix = place.bucket, place.key_prefix
        self._lock = Lock()
        self._ends = 0.0
        self._known: Any = None

    def pages(self) -> Iterator[Sequence[SharedObject]]:
        told: dict[str, str] = {}
        while True:
            page = self._call("list_objects_v2", Bucket=self._bucket, Prefix=self._prefix, **told)
            found = [(each["Key"][len(self._prefix) :], each) for each in page.get("Contents", [])]
            # A marker of a folder is no file.
            yield [SharedObject(name, each["Size"], each["ETag"]) for name, each in found if name and name[-1] != "/"]
            if not page.get("IsTruncated"):
                return
            told["ContinuationToken"] = page["NextContinuationToken"]

    def open(self, objects: Sequence[SharedObject], *, anew: bool = False) -> list[OpenedObject]:
        found = [self._now(each) for each in objects] if anew else objects
        return [OpenedObject(each, self._reading(each)) for each in found if each is not None]

    def _now(self, known: SharedObject) -> SharedObject | None:
        try:
            head = self._call("head_object", Bucket=self._bucket, Key=self._prefix + known.name)
        except NotFound:
            return None
        return SharedObject(known.name, head["ContentLength"], head["ETag"])

    def _reading(self, each: SharedObject) -> Callable[[int], Iterator[bytes]]:
        def read(start: int) -> Iterator[bytes]:
            span = {"Range": f"bytes={start}-"} if start else {}
            key = self._prefix + each.name
            body = self._call("get_object", Bucket=self._bucket, Key=key, IfMatch=each.etag, **span)["Body"]
            try:
                yield from body.iter_chunks(_PIECE)
            except (BotoCoreError, OSError) as error:
                raise Unavailable(f"the store broke off ({type(error).__name__})") from None
            finally:
                body.close()

        return read

    def _call(self, operation: str, **told: Any) -> Any:
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
        except BotoCoreError as error:
            raise Unavailable(f"the store cannot be reached ({type(error).__name__})") from None

    def _client(self) -> Any:
        with self._lock:
            if self._known is None or self._ends < time.time() + _LEAST_SECONDS:
                self._known, self._ends = self._fresh()
            return self._known

    def _fresh(self) -> tuple[Any, float]:
        what = "model-version" if self._folder.kind == "model" else self._folder.kind
        told = self._server.json("POST", f"{self._folder.path}/temporary-{what}-credentials", {})
        told = told.get("credentials") or told
        keys = told.get("awsTempCredentials")
        if not isinstance(keys, dict):
            raise UnsupportedOperation("the server gives no credentials of AWS: other stores cannot be pulled from")
        endpoint = told.get("endpoint")
        session = boto3.session.Session(
            str(keys.get("accessKeyId")), str(keys.get("secretAccessKey")), str(keys.get("sessionToken"))
        )
        config = Config(
            s3={"addressing_style": "path" if endpoint else "auto"},
            retries={"total_max_attempts": 1},
            max_pool_connections=32,
        )
        try:
            ends = int(told.get("expirationTime") or 0) / 1000
            # Without a region it is the environment's.
            return session.client("s3", region_name=told.get("region"), endpoint_url=endpoint, config=config), ends
        except (TypeError, ValueError, OverflowError, BotoCoreError):
            raise UnsupportedOperation(
                "the server's credentials cannot be used: a region, an endpoint or a time is none"
            ) from None
