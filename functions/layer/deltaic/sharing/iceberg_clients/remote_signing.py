"""Sign the requests that Iceberg clients send to S3, if they read files of the loaded table.

The server does not sign the client's URL, but builds the request from bucket and key. So a signed request always goes
to the storage of the table, without query parameters, even if the client's URL has another host.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, Self, cast
from urllib.parse import unquote, urlsplit

import msgspec

from deltaic.errors import MalformedRequest, PermissionDenied
from deltaic.iceberg.file_index import FileIndex
from deltaic.protocol import iceberg_bodies
from deltaic.sharing.caller import Caller, RequestedTable
from deltaic.sharing.context import SharedTable, Sharing
from deltaic.sharing.iceberg_clients.metadata_folder import INDEXES, read_index, since_of
from deltaic.sharing.iceberg_clients.signed_set import SignedSet, open_set
from deltaic.sharing.iceberg_clients.table_access import open_table
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.folder_objects import head_objects
from deltaic.storage.locations import Location, ObjectName
from deltaic.storage.signing import signed_request

_RESOLVED_SEGMENTS: Final = frozenset({"", ".", ".."})
"""Path segments in an object key that some stores resolve as a file system does."""

_RANGE: Final = re.compile(r"bytes=([0-9]{1,18})-([0-9]{1,18})")
_S3_HEADER: Final = re.compile("x-amz-[a-z0-9-]+")
_ALLOWED_QUERIES: Final = frozenset({"", "x-id=GetObject", "x-id=HeadObject"})
"""Accepted query strings. Others could, for example, request an older version of an object."""


class SigningRequest(msgspec.Struct, frozen=True):
    """Request of an Iceberg client to sign a request to S3 (`RemoteSignRequest` of the REST catalog)."""

    method: str
    uri: str
    region: str = ""
    headers: dict[str, list[str]] = {}

    @classmethod
    def parse(cls, content: bytes) -> Self:
        """Parse the body of a signing request; raises MalformedRequest."""
        try:
            return msgspec.json.decode(content, type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise MalformedRequest("the body is not a signing request: send method, region, uri and headers") from None


def sign_request(sharing: Sharing, caller: Caller, name: RequestedTable, token: str, request: SigningRequest) -> bytes:
    """Return the signed URL and headers for a read of one of the table's files.

    If the recipient has a limit of bytes, the Range header is also signed, and its bytes are counted; without a range,
    the size of the file is counted. Raises PermissionDenied for all other requests, and the errors of `open_table`.
    """
    table = open_table(sharing, caller, name)
    if table.entry.iceberg != "signed":
        raise PermissionDenied("the server signs no requests for this table: read it with credentials")
    if request.method not in {"GET", "HEAD"}:
        raise PermissionDenied("shared tables are read only: the server signs only GET and HEAD requests")
    loaded = open_set(sharing, table, token) if table.entry.format == "delta" else None
    storage, file = _find_allowed(sharing, table, loaded, request.uri)
    headers = {name.lower(): ",".join(values) for name, values in request.headers.items()}
    signed_headers = {name: value for name, value in headers.items() if _S3_HEADER.fullmatch(name)}  # S3 requires it
    is_data = request.method == "GET" and file.bucket != sharing.iceberg_bucket().name
    size = _range_size(headers.get("range", "")) if is_data else 0
    if table.counts_bytes and is_data:
        if size:
            signed_headers["range"] = headers["range"]  # so that the client cannot read more than is counted
        else:
            size = _file_size(sharing, storage, file)
    now = datetime.fromtimestamp(int(sharing.clock()), UTC)
    recipient_id = caller.recipient_id
    credentials = sharing.sessions.credentials(recipient_id, storage)
    signed = signed_request(credentials, storage, file, request.method, signed_headers, now)
    caller.audit.add(version=loaded and loaded.version)
    caller.audit.add_signing(sharing.sessions.name_of(recipient_id, storage), now.timestamp())
    if request.method == "GET":
        caller.audit.metrics.add(1, size)
    return iceberg_bodies.signed_request(signed.uri, signed.headers)


def _find_allowed(
    sharing: Sharing, table: SharedTable, loaded: SignedSet | None, uri: str
) -> tuple[StorageConfig, ObjectName]:
    """Return the storage and name of the object at `uri`; raises PermissionDenied if the client must not read it.

    `loaded` is from the client's token. None means that the table is in Iceberg format and unfiltered: then all objects
    in its locations are allowed.
    """
    bucket = sharing.iceberg_bucket()
    try:
        parts = urlsplit(uri)
    except ValueError:
        raise MalformedRequest("the request to sign has an invalid uri: send the URL of an object") from None
    if parts.query in _ALLOWED_QUERIES and not parts.fragment:
        for name in _candidates(table, parts.hostname or "", unquote(parts.path), bucket.name):
            if not _RESOLVED_SEGMENTS.isdisjoint(name.key.split("/")):
                continue  # some stores would read another object
            if loaded is not None and name.bucket == bucket.name and _is_metadata(name.key, loaded.folder):
                return bucket.storage, name
            if any(location.holds(name) for location in table.locations) and (
                loaded is None or _lists(sharing, table, loaded, name)
            ):
                return table.storage, name
    raise PermissionDenied("the requested object is not a file of the table that you loaded")


def _candidates(table: SharedTable, host: str, path: str, server_bucket: str) -> Iterator[ObjectName]:
    """Yield the objects that a URL can mean, because the bucket is in the path or in the host name."""
    storage = table.storage
    root = urlsplit(storage.public_endpoint or storage.endpoint).path.rstrip("/")
    relative = path.removeprefix(root).removeprefix("/")
    for bucket in dict.fromkeys([server_bucket, *(location.bucket for location in table.locations)]):
        if relative.startswith(f"{bucket}/"):
            yield ObjectName(bucket, relative[len(bucket) + 1 :])
        if host.startswith(f"{bucket.lower()}."):
            yield ObjectName(bucket, relative)


def _is_metadata(key: str, folder: str) -> bool:
    """Return whether an object key is in the metadata folder, but not in its subfolder of file indexes."""
    kind, _, _ = key.removeprefix(f"{folder}/").partition("/")
    return key.startswith(f"{folder}/") and kind != INDEXES


def _since(table: SharedTable, loaded: SignedSet) -> int:
    """Return the first version whose files may be read; raises InvalidParameter if the loaded version is unshared."""
    table.gate.check_version(loaded.version)
    since = since_of(table)
    return loaded.version if since is None else since


def _lists(sharing: Sharing, table: SharedTable, loaded: SignedSet, name: ObjectName) -> bool:
    location = f"s3://{sharing.iceberg_bucket().name}/{loaded.folder}"
    return _index(sharing, loaded).lists_file(location, f"s3://{name.bucket}/{name.key}", _since(table, loaded))


def _index(sharing: Sharing, loaded: SignedSet) -> FileIndex:
    index = sharing.memory.iceberg.get(loaded)
    if index is None:
        index = read_index(sharing.iceberg_bucket(), loaded.index_key)
        if index is None:
            raise PermissionDenied("the server has replaced the metadata of this table: load the table again")
        sharing.memory.iceberg.put(loaded, index, len(index.encode()))
    return cast("FileIndex", index)


def _file_size(sharing: Sharing, storage: StorageConfig, name: ObjectName) -> int:
    """Return the size of an object in bytes; 0 if it does not exist."""
    reader = sharing.sessions.file_reader(storage)
    [file] = head_objects(reader, storage, Location(name.bucket, ""), [name.key])
    return file.size if file else 0


def _range_size(header: str) -> int:
    """Return the number of bytes that a Range header requests (RFC 9110, 14.1.2); 0 if not `bytes=start-end`."""
    match = _RANGE.fullmatch(header.strip())
    return max(int(match[2]) - int(match[1]) + 1, 0) if match else 0
