"""A version of a shared table as the server tells it: Delta's own actions, and a URL for each file.

Asked for in delta format. A server that answers in parquet format all the same has its files told as Delta's actions,
so that whoever reads a snapshot knows one form.
"""

import hashlib
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
from deltaic.delta.deletion_vectors import encode_z85, unique_id
from deltaic.errors import Conflict, Unavailable, UnsupportedOperation
from deltaic.table_features import TABLE_FEATURES, Concerns

from deltaic_ops.pull.server import Shared, SharingServer, json_lines

CAPABILITIES: Final = "delta-sharing-capabilities"
VERSION: Final = "delta-table-version"
FEATURES: Final = tuple(each.name for each in TABLE_FEATURES if each.concerns in {Concerns.DATA, Concerns.LOG})
"""What a copy carries as it is: whatever concerns who reads the files or the log."""
_LEAST_SECONDS: Final = 60
"""A URL that ends sooner is renewed before it is used."""


class SourceMoved(Conflict):
    """The table is another version by now, without files of the one that is being read."""


@dataclass(frozen=True)
class SharedFile:
    """A data file, with the deletion vector that belongs to it."""

    id: str
    add: Mapping[str, Any]
    """Delta's action, without path and vector."""
    vector: Mapping[str, Any]
    """The vector's descriptor; empty for none. One on storage has no path here."""
    vector_id: str
    """Of the file that the vector lies in; empty for none and for an inline one."""

    @property
    def size(self) -> int:
        """Bytes of the data file."""
        return int(self.add["size"])

    @property
    def data_name(self) -> str:
        """The data file's name here; the server's ids are no names."""
        return f"{hashlib.sha256(self.id.encode()).hexdigest()}.parquet"

    @property
    def vector_name(self) -> str:
        """The name of the vector's file here; empty for none."""
        return f"deletion_vector_{self._vector_uuid}.bin" if self.vector_id else ""

    @property
    def _vector_uuid(self) -> uuid.UUID:
        return uuid.UUID(bytes=hashlib.sha256(self.vector_id.encode()).digest()[:16])

    def local_add(self) -> dict[str, Any]:
        """Return Delta's `add` for a table whose files lie under their names here."""
        told = {**self.add, "path": self.data_name, "dataChange": True}
        if self.vector_id:
            told["deletionVector"] = {
                **self.vector,
                "storageType": "u",
                "pathOrInlineDv": encode_z85(self._vector_uuid.bytes),
            }
        elif self.vector:
            told["deletionVector"] = dict(self.vector)
        return told


@dataclass(frozen=True)
class Link:
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
    return str(add["path"]), unique_id(vector["storageType"], vector["pathOrInlineDv"], vector.get("offset"))


@dataclass(frozen=True)
class Answer:
    """One answer to a query, with all its pages."""

    version: int
    protocol: dict[str, Any]
    metadata: dict[str, Any]
    files: Sequence[SharedFile]
    links: dict[tuple[str, str], Link]
    """By the ids of a file and of its vector, which another version may have exchanged."""
    refresh_token: str


class Snapshot:
    """A version of a shared table. `link` may be called from several threads."""

    def __init__(
        self, server: SharingServer, shared: Shared, asked: Mapping[str, Any], features: Sequence[str] = FEATURES
    ) -> None:
        """Query it; `asked` is of the request's body: version, timestamp, limitHint. Raises what the server refuses."""
        self._server = server
        self._shared = shared
        self._features = features
        self._asked = dict(asked)
        self._lock = Lock()
        self._answer = self._query(self._first())
        self._links = self._answer.links
        self._refresh_token = self._answer.refresh_token

    @property
    def version(self) -> int:
        """The source's version."""
        return self._answer.version

    @property
    def protocol(self) -> dict[str, Any]:
        """Delta's `protocol`, as the server tells it."""
        return self._answer.protocol

    @property
    def metadata(self) -> dict[str, Any]:
        """Delta's `metaData`."""
        return self._answer.metadata

    @property
    def files(self) -> Sequence[SharedFile]:
        """Its files, in the server's order."""
        return self._answer.files

    def link(self, file: SharedFile, refused: Link | None = None) -> Link:
        """Return where a file is read; renewed where it ends soon, or is the one that the store has refused.

        Raises SourceMoved where the server does not tell this file any more.
        """
        with self._lock:
            found = self._links.get((file.id, file.vector_id))
            if found is not None and (found is refused or found.ends < time.time() + _LEAST_SECONDS):
                self._renew()
                found = self._links.get((file.id, file.vector_id))
            if found is None:  # not in what was told when the URLs were renewed, for this file or another one
                raise SourceMoved(f"{self._shared} has changed, and the files of version {self.version} are gone")
            return found

    def _first(self) -> dict[str, Any]:
        pinned = {"version", "timestamp"} & self._asked.keys()
        return self._asked if pinned else {**self._asked, "includeRefreshToken": True}

    def _renew(self) -> None:
        """Ask for the same files again: by the refresh token, by the version, else as they are now."""
        again = self._first()
        if "timestamp" in again:
            again = {**{name: value for name, value in again.items() if name != "timestamp"}, "version": self.version}
        renewed: Answer | None = None
        if self._refresh_token:
            try:
                renewed = self._query({**again, "refreshToken": self._refresh_token})
            except UnsupportedOperation:  # ended, or of a server that has forgotten it
                self._refresh_token = ""
        renewed = renewed or self._query(again)
        self._refresh_token = renewed.refresh_token or self._refresh_token
        self._links = renewed.links

    def _query(self, body: Mapping[str, Any]) -> Answer:
        heads: list[tuple[int, dict[str, Any], dict[str, Any]]] = []
        files: list[SharedFile] = []
        links: dict[tuple[str, str], Link] = {}
        token = page = ""
        while True:
            sent = {**body, "pageToken": page} if page else dict(body)
            if page:
                sent.pop("includeRefreshToken", None)
                sent.pop("refreshToken", None)
            head, told, end = self._page(sent)
            heads.append(head)
            for file, link in told:
                files.append(file)
                links[file.id, file.vector_id] = link
            token = token or str(end.get("refreshToken") or "")
            page = str(end.get("nextPageToken") or "")
            if not page:
                return Answer(*heads[0], files, links, token)

    def _page(
        self, body: Mapping[str, Any]
    ) -> tuple[tuple[int, dict[str, Any], dict[str, Any]], list[tuple[SharedFile, Link]], dict[str, Any]]:
        capabilities = f"responseformat=delta;readerfeatures={','.join(self._features)};includeendstreamaction=true"

        def read(answer: httpx.Response) -> Any:
            version = answer.headers.get(VERSION, "")
            if not version.isdigit():
                raise UnsupportedOperation(f"{self._server.host} does not tell which version it answers")
            lines = json_lines(answer)
            head = int(version), *_head(lines)
            files: list[tuple[SharedFile, Link]] = []
            end: dict[str, Any] | None = None
            for line in lines:
                if "endStreamAction" in line:
                    end = line["endStreamAction"] or {}
                elif "file" in line:
                    files.append(shared_file(line["file"]))
            if end is None and "includeendstreamaction=true" in answer.headers.get(CAPABILITIES, "").lower():
                raise Unavailable(f"the answer of {self._server.host} breaks off")
            if end and end.get("errorMessage"):
                raise Unavailable(f"{self._server.host} breaks off: {end['errorMessage']}")
            return head, files, end or {}

        found: Any = self._server.ask(
            "POST", f"{self._shared.path('tables')}/query", read, body=body, headers={CAPABILITIES: capabilities}
        )
        return found  # type: ignore[no-any-return]


def latest_version(server: SharingServer, shared: Shared) -> int:
    """Return which version a table has now."""

    def read(answer: httpx.Response) -> int:
        version = answer.headers.get(VERSION, "")
        if not version.isdigit():
            raise UnsupportedOperation(f"{server.host} does not tell a version of {shared}")
        return int(version)

    return server.ask("GET", f"{shared.path('tables')}/version", read)


def _head(lines: Iterator[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return Delta's protocol and metaData of an answer in either format."""
    try:
        protocol, metadata = next(lines)["protocol"], next(lines)["metaData"]
        if "deltaMetadata" in metadata:
            return protocol["deltaProtocol"], metadata["deltaMetadata"]
        wide = "timestamp_ntz" in metadata["schemaString"]
        features = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["timestampNtz"]}
        return features if wide else {"minReaderVersion": 1, "minWriterVersion": 2}, {
            "id": metadata["id"],
            "format": {"provider": "parquet", "options": {}},
            "schemaString": metadata["schemaString"],
            "partitionColumns": metadata.get("partitionColumns") or [],
            "configuration": {},
        }
    except (StopIteration, KeyError, TypeError):
        raise UnsupportedOperation(
            "the server's answer is not Delta Sharing's: protocol or metaData is missing"
        ) from None


def shared_file(told: Mapping[str, Any]) -> tuple[SharedFile, Link]:
    """Return a file and its URL of a line in either format; raises UnsupportedOperation for one that cannot be read."""
    try:
        add = dict(told["deltaSingleAction"]["add"]) if "deltaSingleAction" in told else _parquet_add(told)
        url, vector = str(add.pop("path")), dict(add.pop("deletionVector", None) or {})
        # Of writers alone, or of a table whose log they stand in.
        for name in ("tags", "baseRowId", "defaultRowCommitVersion", "clusteringProvider"):
            add.pop(name, None)
        vector_url, vector_id = "", ""
        if vector and vector["storageType"] != "i":
            vector_url = str(vector.pop("pathOrInlineDv"))
            parts = urlsplit(vector_url)
            vector_id = str(told.get("deletionVectorFileId") or f"{parts.netloc}{parts.path}")
        ends = told.get("expirationTimestamp")
        link = Link(url, vector_url, int(ends) / 1000 if ends else float("inf"))
        file_id, add["size"] = str(told["id"]), int(add["size"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UnsupportedOperation("the server tells a file that cannot be read: a field is missing or wrong") from None
    return SharedFile(file_id, add, vector, vector_id), link


def _parquet_add(told: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "path": told["url"],
        "partitionValues": told.get("partitionValues") or {},
        "size": told["size"],
        "modificationTime": told.get("timestamp") or 0,
        **({"stats": told["stats"]} if told.get("stats") else {}),
    }
