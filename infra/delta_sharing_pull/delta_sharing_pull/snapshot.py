"""Query one version of a shared table: its Delta actions, and a signed URL for each file.

The request asks for delta format. A response in parquet format is converted, so callers always see Delta actions.
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

from delta_sharing_pull.errors import Conflict, Unavailable, UnsupportedOperation
from delta_sharing_pull.local_log import DATA_FEATURES, LOG_FEATURES
from delta_sharing_pull.responses import Add, File, InvalidResponse, Line, Reply, decode
from delta_sharing_pull.server import SharedName, SharingServer

CAPABILITIES: Final = "delta-sharing-capabilities"
_FIRST_PAGE: Final = frozenset({"includeRefreshToken", "refreshToken"})
"""Request body fields that are sent only with the request for the first page."""
FEATURES: Final = DATA_FEATURES + LOG_FEATURES
"""All table features that a copy supports: those of data files and those of the Delta log."""
_RENEW_SECONDS: Final = 60
"""Remaining seconds of validity below which a signed URL is renewed before use."""
_TO_Z85: Final = bytes.maketrans(
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~",
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#",
)
"""Translation table from Python's base 85 alphabet (RFC 1924) to Delta's (Z85, ZeroMQ RFC 32)."""


class SourceChanged(Conflict):
    """The table has a new version, and files of the requested version are no longer available."""


@dataclass(frozen=True)
class SharedFile:
    """A data file and its deletion vector."""

    key: tuple[str, str]
    """Ids from the server for the data file and for its deletion vector, which can differ between table versions."""
    add: Mapping[str, Any]
    """Delta's `add` action for the file, with local file names."""
    vector_name: str
    """Local name of the deletion vector file; empty if there is no vector or it is inline."""

    @property
    def size(self) -> int:
        """Size of the data file in bytes."""
        return int(self.add["size"])

    @property
    def data_name(self) -> str:
        """Local name of the data file: a hash of the server's id, which could be an unsafe file name."""
        return str(self.add["path"])

    @property
    def vector_end(self) -> int:
        """Maximum offset in bytes at which the deletion vector can end in its file, with its header and checksum."""
        vector = self.add["deletionVector"]
        return int(vector.get("offset", 1)) + int(vector["sizeInBytes"]) + 8


class SignedUrls(NamedTuple):
    """Signed URLs of a data file and its deletion vector."""

    url: str
    vector_url: str
    expires: float
    """Expiry time of the URLs in seconds since the epoch; infinite if the server names none."""


def logical_file(add: Mapping[str, Any]) -> tuple[str, str]:
    """Return the key of a file in a Delta log: its path and deletion vector id (Delta protocol, `uniqueId`)."""
    vector = add.get("deletionVector")
    if not vector:
        return str(add["path"]), ""
    name, offset = vector["storageType"] + vector["pathOrInlineDv"], vector.get("offset")
    return str(add["path"]), name if offset is None else f"{name}@{offset}"


class _QueryResult(NamedTuple):
    """Content of one page of a query response, or of all pages combined."""

    version: int
    protocol: dict[str, Any]
    metadata: dict[str, Any]
    files: list[tuple[SharedFile, SignedUrls]]
    next_token: str | None
    refresh_token: str | None


class Snapshot:
    """One version of a shared table. Several threads can call `signed_urls`."""

    def __init__(
        self, server: SharingServer, name: SharedName, options: Mapping[str, Any], features: Sequence[str] = FEATURES
    ) -> None:
        """Query the table. `options` are fields of the request body, such as version, timestamp and limitHint."""
        self._server = server
        self._name = name
        self._features = features
        self._lock = Lock()
        self._body = dict(options)
        if not {"version", "timestamp"} & options.keys():
            self._body["includeRefreshToken"] = True
        result = self._query(self._body)
        self._urls = {file.key: urls for file, urls in result.files}
        self._refresh_token = result.refresh_token
        self.url_reader = server.url_reader
        self.version = result.version
        self.protocol = result.protocol
        self.metadata = result.metadata
        self.files = [file for file, _ in result.files]
        if self._body.pop("timestamp", None):
            self._body["version"] = self.version

    def signed_urls(self, file: SharedFile, rejected: SignedUrls | None = None) -> SignedUrls:
        """Return the signed URLs of a file; renew them if they expire soon or the object store has `rejected` them.

        Raises SourceChanged if the server no longer lists the file.
        """
        with self._lock:
            urls = self._urls.get(file.key)
            if urls is not None and (urls is rejected or urls.expires < time.time() + _RENEW_SECONDS):
                self._renew()
                urls = self._urls.get(file.key)
            if urls is None:  # missing since URLs were renewed for this file or another one
                raise SourceChanged(f"Files of {self._name} version {self.version} were deleted: download again")
            return urls

    def _renew(self) -> None:
        """Query the files again for new URLs, by refresh token or version if possible, else at the latest version."""
        renewed: _QueryResult | None = None
        if self._refresh_token:
            try:
                renewed = self._query({**self._body, "refreshToken": self._refresh_token})
            except UnsupportedOperation:  # the refresh token has expired or is unknown
                self._refresh_token = None
        renewed = renewed or self._query(self._body)
        self._refresh_token = renewed.refresh_token or self._refresh_token
        self._urls = {file.key: urls for file, urls in renewed.files}

    def _query(self, body: Mapping[str, Any]) -> _QueryResult:
        pages = list(self._server.pages(lambda token: self._page(body, token), lambda page: page.next_token))
        files = [pair for page in pages for pair in page.files]
        if len({file.key for file, _ in files}) < len(files):
            raise InvalidResponse(self._server.host, "it lists a file twice")
        refresh_token = next((page.refresh_token for page in pages if page.refresh_token), None)
        return pages[0]._replace(files=files, refresh_token=refresh_token)

    def _page(self, body: Mapping[str, Any], token: str) -> _QueryResult:
        capabilities = f"responseformat=delta;readerfeatures={','.join(self._features)};includeendstreamaction=true"
        host, request = self._server.host, dict(body)
        if token:
            request = {name: value for name, value in body.items() if name not in _FIRST_PAGE} | {"pageToken": token}

        def read(response: httpx.Response) -> _QueryResult:
            version = self._server.version(response)
            lines = (decode(line, Line, host) for line in body_lines(response) if line.strip())
            files: list[tuple[SharedFile, SignedUrls]] = []
            end: Reply | None = None
            try:
                head = _head(next(lines, None), next(lines, None))
                for line in lines:
                    if line.end_stream_action is not msgspec.UNSET:
                        end = line.end_stream_action or Reply()
                    elif line.file is not None:
                        files.append(_shared_file(line.file))
            except ValueError as error:
                raise InvalidResponse(host, error) from None
            if end is None and "includeendstreamaction=true" in response.headers.get(CAPABILITIES, "").lower():
                raise Unavailable(f"{host} sent an incomplete response: try again later")
            end = end or Reply()
            if end.error_message:
                raise Unavailable(f"{host} ended the response with an error: {end.error_message}")
            return _QueryResult(version, *head, files, end.next_page_token, end.refresh_token)

        return self._server.request(
            "POST", f"{self._name.path('tables')}/query", read, body=request, headers={CAPABILITIES: capabilities}
        )


def latest_version(server: SharingServer, name: SharedName) -> int:
    """Return the latest version of a shared table."""
    return server.request("GET", f"{name.path('tables')}/version", server.version)


def _head(first: Line | None, second: Line | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return Delta's protocol and metaData from the first two lines; raises ValueError if one is missing."""
    if first is None or first.protocol is None or second is None or second.meta_data is None:
        raise ValueError("protocol or metaData is missing")
    protocol, metadata = first.protocol, second.meta_data
    fields = {"format": {"provider": "parquet", "options": {}}, "partitionColumns": []}
    fields |= to_builtins(metadata.delta_metadata or metadata)
    if metadata.delta_metadata is not None:
        return to_builtins(protocol.delta_protocol or protocol), fields
    has_ntz = "timestamp_ntz" in metadata.schema_string
    features = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["timestampNtz"]}
    return features if has_ntz else {"minReaderVersion": 1, "minWriterVersion": 2}, {**fields, "configuration": {}}


def _shared_file(file: File) -> tuple[SharedFile, SignedUrls]:
    """Convert a file in a response to a SharedFile and its URLs; raises ValueError if URL or size is missing."""
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
    urls = SignedUrls(url, vector_url, expires / 1000 if expires else inf)
    return SharedFile((file.id, vector_id), action, vector_name), urls
