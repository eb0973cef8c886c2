"""A version of a shared table as the server tells it: Delta's own actions, and a URL for each file.

Asked for in delta format. A server that answers in parquet format all the same has its files told as Delta's actions,
so that whoever reads a snapshot knows one form.
"""

import base64
import hashlib
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from threading import Lock
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import httpx
import msgspec
from delta_sharing_conformance.untrusted_http import body_lines
from msgspec import to_builtins

from delta_sharing_pull.answers import Add, File, InvalidAnswer, Line, Reply, decoded
from delta_sharing_pull.errors import Conflict, Unavailable, UnsupportedOperation
from delta_sharing_pull.local_log import DATA_FEATURES, LOG_FEATURES
from delta_sharing_pull.server import Shared, SharingServer

CAPABILITIES: Final = "delta-sharing-capabilities"
_FIRST_PAGE: Final = frozenset({"includeRefreshToken", "refreshToken"})
"""What is asked on the first page alone."""
FEATURES: Final = DATA_FEATURES + LOG_FEATURES
"""What a copy carries as it is: whatever concerns who reads the files or the log."""
_LEAST_SECONDS: Final = 60
"""A URL that ends sooner is renewed before it is used."""
_TO_Z85: Final = bytes.maketrans(
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~",
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#",
)
"""Python's base 85 (RFC 1924) to that of Delta (ZeroMQ RFC 32)."""


class SourceMoved(Conflict):
    """The table is another version by now, without files of the one that is being read."""


@dataclass(frozen=True)
class SharedFile:
    """A data file, with the deletion vector that belongs to it."""

    key: tuple[str, str]
    """The server's ids of the file and of its vector's file, if any, which another version may have exchanged."""
    add: Mapping[str, Any]
    """Delta's action for a table whose files have their names here."""
    vector_name: str
    """The name here of the file that the vector lies in; empty for none and for an inline one."""

    @property
    def size(self) -> int:
        """Bytes of the data file."""
        return int(self.add["size"])

    @property
    def data_name(self) -> str:
        """The data file's name here; the server's ids are no names."""
        return str(self.add["path"])

    @property
    def vector_end(self) -> int:
        """Where the vector ends in its file at the latest: behind its version, length and checksum."""
        vector = self.add["deletionVector"]
        return int(vector.get("offset", 1)) + int(vector["sizeInBytes"]) + 8


class Link(NamedTuple):
    """Where a file is read, for a while."""

    url: str
    vector_url: str
    ends: float
    """Seconds since the epoch; infinite where the server does not say."""


def logical_file(add: Mapping[str, Any]) -> tuple[str, str]:
    """Return what names a file in a log: its path, and the id of its deletion vector (Delta protocol, `uniqueId`)."""
    vector = add.get("deletionVector")
    if not vector:
        return str(add["path"]), ""
    name, offset = vector["storageType"] + vector["pathOrInlineDv"], vector.get("offset")
    return str(add["path"]), name if offset is None else f"{name}@{offset}"


class _Answer(NamedTuple):
    """A page of an answer to a query, or all of them."""

    version: int
    protocol: dict[str, Any]
    metadata: dict[str, Any]
    files: list[tuple[SharedFile, Link]]
    next_token: str | None
    refresh_token: str | None


class Snapshot:
    """A version of a shared table. `link` may be called from several threads."""

    def __init__(
        self, server: SharingServer, shared: Shared, asked: Mapping[str, Any], features: Sequence[str] = FEATURES
    ) -> None:
        """Query it; `asked` is of the request's body: version, timestamp, limitHint. Raises what the server refuses."""
        self._server = server
        self._shared = shared
        self._features = features
        self._lock = Lock()
        self._body = dict(asked)
        if not {"version", "timestamp"} & asked.keys():
            self._body["includeRefreshToken"] = True
        answer = self._query(self._body)
        self._links = {file.key: link for file, link in answer.files}
        self._refresh_token = answer.refresh_token
        self.urls = server.urls
        self.version = answer.version
        self.protocol = answer.protocol
        self.metadata = answer.metadata
        self.files = [file for file, _ in answer.files]
        """In the server's order."""
        if self._body.pop("timestamp", None):
            self._body["version"] = self.version

    def link(self, file: SharedFile, refused: Link | None = None) -> Link:
        """Return where a file is read; renewed where it ends soon, or is the one that the store has refused.

        Raises SourceMoved where the server does not tell this file any more.
        """
        with self._lock:
            found = self._links.get(file.key)
            if found is not None and (found is refused or found.ends < time.time() + _LEAST_SECONDS):
                self._renew()
                found = self._links.get(file.key)
            if found is None:  # not in what was told when the URLs were renewed, for this file or another one
                raise SourceMoved(f"{self._shared} has changed, and the files of version {self.version} are gone")
            return found

    def _renew(self) -> None:
        """Ask for the same files again: by the refresh token, by the version, else as they are now."""
        renewed: _Answer | None = None
        if self._refresh_token:
            try:
                renewed = self._query({**self._body, "refreshToken": self._refresh_token})
            except UnsupportedOperation:  # ended, or of a server that has forgotten it
                self._refresh_token = None
        renewed = renewed or self._query(self._body)
        self._refresh_token = renewed.refresh_token or self._refresh_token
        self._links = {file.key: link for file, link in renewed.files}

    def _query(self, body: Mapping[str, Any]) -> _Answer:
        pages = list(self._server.pages(lambda token: self._page(body, token), lambda page: page.next_token))
        files = [pair for page in pages for pair in page.files]
        if len({file.key for file, _ in files}) < len(files):
            raise InvalidAnswer(self._server.host, "it lists a file twice")
        refresh_token = next((page.refresh_token for page in pages if page.refresh_token), None)
        return pages[0]._replace(files=files, refresh_token=refresh_token)

    def _page(self, body: Mapping[str, Any], token: str) -> _Answer:
        capabilities = f"responseformat=delta;readerfeatures={','.join(self._features)};includeendstreamaction=true"
        host, sent = self._server.host, dict(body)
        if token:
            sent = {name: value for name, value in body.items() if name not in _FIRST_PAGE} | {"pageToken": token}

        def read(answer: httpx.Response) -> _Answer:
            version = self._server.version(answer)
            lines = (decoded(line, Line, host) for line in body_lines(answer) if line.strip())
            files: list[tuple[SharedFile, Link]] = []
            end: Reply | None = None
            try:
                head = _head(next(lines, None), next(lines, None))
                for line in lines:
                    if line.end_stream_action is not msgspec.UNSET:
                        end = line.end_stream_action or Reply()
                    elif line.file is not None:
                        files.append(_shared_file(line.file))
            except ValueError as wrong:
                raise InvalidAnswer(host, wrong) from None
            if end is None and "includeendstreamaction=true" in answer.headers.get(CAPABILITIES, "").lower():
                raise Unavailable(f"the answer of {host} breaks off")
            end = end or Reply()
            if end.error_message:
                raise Unavailable(f"{host} breaks off: {end.error_message}")
            return _Answer(version, *head, files, end.next_page_token, end.refresh_token)

        return self._server.ask(
            "POST", f"{self._shared.path('tables')}/query", read, body=sent, headers={CAPABILITIES: capabilities}
        )


def latest_version(server: SharingServer, shared: Shared) -> int:
    """Return which version a table has now."""
    return server.ask("GET", f"{shared.path('tables')}/version", server.version)


def _head(first: Line | None, second: Line | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return Delta's protocol and metaData of an answer in either format; raises ValueError for one without."""
    if first is None or first.protocol is None or second is None or second.meta_data is None:
        raise ValueError("protocol or metaData is missing")
    protocol, metadata = first.protocol, second.meta_data
    fields = {"format": {"provider": "parquet", "options": {}}, "partitionColumns": []}
    fields |= to_builtins(metadata.delta_metadata or metadata)
    if metadata.delta_metadata is not None:
        return to_builtins(protocol.delta_protocol or protocol), fields
    wide = "timestamp_ntz" in metadata.schema_string
    features = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["timestampNtz"]}
    return features if wide else {"minReaderVersion": 1, "minWriterVersion": 2}, {**fields, "configuration": {}}


def _shared_file(file: File) -> tuple[SharedFile, Link]:
    """Return a file and its URL; raises ValueError for a file without URL or size."""
    add: Add | None = file
    if file.delta_single_action is not None:
        add = file.delta_single_action.get("add")
    url = add.path if add is not None and add is not file else file.url
    if add is None or url is None or add.size is None:
        raise ValueError("url or size of a file is missing")
    action: dict[str, Any] = {
        "path": f"{hashlib.sha256(file.id.encode()).hexdigest()}.parquet",
        "partitionValues": add.partition_values or {},
        "size": add.size,
        "modificationTime": add.modification_time,
        "dataChange": True,
        **({"stats": add.stats} if add.stats else {}),
    }
    vector_name = vector_url = vector_id = ""
    if add.deletion_vector:
        vector = action["deletionVector"] = to_builtins(add.deletion_vector)
        if vector["storageType"] != "i":
            vector_url = vector["pathOrInlineDv"]
            parts = urlsplit(vector_url)
            vector_id = file.deletion_vector_file_id or f"{parts.netloc}{parts.path}"
            local = uuid.UUID(bytes=hashlib.sha256(vector_id.encode()).digest()[:16])
            vector_name = f"deletion_vector_{local}.bin"
            vector |= {"storageType": "u", "pathOrInlineDv": base64.b85encode(local.bytes).translate(_TO_Z85).decode()}
    expires = file.expiration_timestamp
    link = Link(url, vector_url, expires / 1000 if expires else inf)
    return SharedFile((file.id, vector_id), action, vector_name), link
