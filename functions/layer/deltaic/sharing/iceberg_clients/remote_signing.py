"""Decides which of a reader's requests to the store are signed: reads of files that it was given, and nothing else.

Clients make requests of S3 as ever and have each of them signed here. What is signed is made anew from bucket and key:
the request goes where they lie, whatever host the client has named, with no parameter of its own.
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

_FOLLOWED: Final = frozenset({"", ".", ".."})
"""Segments of a key that some stores follow."""

_RANGE: Final = re.compile(r"bytes=([0-9]{1,18})-([0-9]{1,18})")
_OF_S3: Final = re.compile("x-amz-[a-z0-9-]+")
_HARMLESS: Final = frozenset({"", "x-id=GetObject", "x-id=HeadObject"})
"""Query strings that change nothing of a read; any other asks for something else, such as an object's older version."""


class SigningRequest(msgspec.Struct, frozen=True):
    """What Iceberg's clients send (`RemoteSignRequest` of its REST catalog)."""

    method: str
    uri: str
    region: str = ""
    headers: dict[str, list[str]] = {}

    @classmethod
    def parse(cls, content: bytes) -> Self:
        """Read a body; raises MalformedRequest."""
        try:
            return msgspec.json.decode(content, type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise MalformedRequest("the body is not a request to sign: method, region, uri and headers") from None


def sign_request(sharing: Sharing, caller: Caller, name: RequestedTable, token: str, request: SigningRequest) -> bytes:
    """Return the headers that make a read of the reader's own files valid.

    Of who has a limit by bytes a range is signed too and counted, and without one the whole file is. Raises
    PermissionDenied for all else, and what `open_table` does.
    """
    table = open_table(sharing, caller, name)
    if table.entry.iceberg != "signed":
        raise PermissionDenied("requests for this table are not signed: it is read with credentials")
    if request.method not in {"GET", "HEAD"}:
        raise PermissionDenied("shared tables are read only: nothing but reads of files is signed")
    known = open_set(sharing, table, token) if table.entry.format == "delta" else None
    storage, place = _allowed(sharing, table, known, request.uri)
    headers = {name.lower(): ",".join(values) for name, values in request.headers.items()}
    bound = {name: value for name, value in headers.items() if _OF_S3.fullmatch(name)}  # S3 wants these signed
    is_data = request.method == "GET" and place.bucket != sharing.iceberg_bucket().name
    asked = _asked(headers.get("range", "")) if is_data else 0
    if table.counted and is_data:
        if asked:
            bound["range"] = headers["range"]  # what is counted is all that can be read
        else:
            asked = _size(sharing, storage, place)
    now = datetime.fromtimestamp(int(sharing.clock()), UTC)
    recipient_id = caller.recipient_id
    credentials = sharing.sessions.credentials(recipient_id, storage)
    signed = signed_request(credentials, storage, place, request.method, bound, now)
    caller.audit.add(version=known and known.version)
    caller.audit.signed(sharing.sessions.name_of(recipient_id, storage), now.timestamp())
    if request.method == "GET":
        caller.audit.metrics.add(1, asked)
    return iceberg_bodies.signed_request(signed.uri, signed.headers)


def _allowed(
    sharing: Sharing, table: SharedTable, known: SignedSet | None, uri: str
) -> tuple[StorageConfig, ObjectName]:
    """Return where an object lies and its name; raises PermissionDenied for one that is not this reader's.

    With no set, all below the table's locations is: of an Iceberg table, which is shared whole.
    """
    bucket = sharing.iceberg_bucket()
    try:
        parts = urlsplit(uri)
    except ValueError:
        raise MalformedRequest("the uri of the request to sign is none") from None
    if parts.query in _HARMLESS and not parts.fragment:
        for name in _readings(table, parts.hostname or "", unquote(parts.path), bucket.name):
            if not _FOLLOWED.isdisjoint(name.key.split("/")):
                continue  # some stores would read another object
            if known is not None and name.bucket == bucket.name and _is_for_readers(name.key, known.folder):
                return bucket.storage, name
            if any(one.holds(name) for one in table.locations) and (
                known is None or _lists(sharing, table, known, name)
            ):
                return table.storage, name
    raise PermissionDenied("what is asked for is not one of this table's files as you have loaded it")


def _readings(table: SharedTable, host: str, path: str, own: str) -> Iterator[ObjectName]:
    """Yield the objects that a request may mean: the bucket stands in the path, or before the host."""
    storage = table.storage
    root = urlsplit(storage.public_endpoint or storage.endpoint).path.rstrip("/")
    below = path.removeprefix(root).removeprefix("/")
    for bucket in dict.fromkeys([own, *(one.bucket for one in table.locations)]):
        if below.startswith(f"{bucket}/"):
            yield ObjectName(bucket, below[len(bucket) + 1 :])
        if host.startswith(f"{bucket.lower()}."):
            yield ObjectName(bucket, below)


def _is_for_readers(key: str, folder: str) -> bool:
    """Tell whether a key lies in a folder, and is none of its indexes."""
    kind, _, _ = key.removeprefix(f"{folder}/").partition("/")
    return key.startswith(f"{folder}/") and kind != INDEXES


def _since(table: SharedTable, known: SignedSet) -> int:
    """Return the first version of which files are signed; raises InvalidParameter for one that is no more shared."""
    table.gate.check_version(known.version)
    since = since_of(table)
    return known.version if since is None else since


def _lists(sharing: Sharing, table: SharedTable, known: SignedSet, name: ObjectName) -> bool:
    location = f"s3://{sharing.iceberg_bucket().name}/{known.folder}"
    return _index(sharing, known).lists_file(location, f"s3://{name.bucket}/{name.key}", _since(table, known))


def _index(sharing: Sharing, known: SignedSet) -> FileIndex:
    kept = sharing.memory.iceberg.get(known)
    if kept is None:
        kept = read_index(sharing.iceberg_bucket(), known.index_key)
        if kept is None:
            raise PermissionDenied("what was made of this table has been made anew: load it again")
        sharing.memory.iceberg.put(known, kept, len(kept.encode()))
    return cast("FileIndex", kept)


def _size(sharing: Sharing, storage: StorageConfig, name: ObjectName) -> int:
    """Return how large an object is; 0 of one that is gone."""
    reader = sharing.sessions.file_reader(storage)
    [found] = head_objects(reader, storage, Location(name.bucket, ""), [name.key])
    return found.size if found else 0


def _asked(range_: str) -> int:
    """Return how many bytes a read says it takes (RFC 9110, section 14.1.2); 0 where it does not say."""
    found = _RANGE.fullmatch(range_.strip())
    return max(int(found[2]) - int(found[1]) + 1, 0) if found else 0
