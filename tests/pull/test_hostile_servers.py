"""Untrusted servers: responses that are too large, endless, malformed or point to this machine are rejected."""

from __future__ import annotations

import gzip
import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from delta_sharing_conformance.untrusted_http import MAX_BYTES
from delta_sharing_pull.folder_readers import find_folder
from delta_sharing_pull.server import SharedName, SharingServer
from pull.any_server import AnyServer, any_server
from pull.folder_server import Folder, folder_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from cli.conftest import Deltaic

pytestmark = pytest.mark.slow

TABLE, FOLDER = "pull any.share#s.d.t copy/ --kind table", "pull any.share#s.d.v got"
DEEP = "[" * 100_000
LATER = 9_999_999_999_999
KEYS = {"accessKeyId": "A", "secretAccessKey": "S", "sessionToken": "T"}


@pytest.fixture
def server(deltaic: Deltaic, tmp_path: Path) -> Iterator[AnyServer]:
    assert deltaic is not None  # this fixture changes the current folder
    with any_server() as running:
        running.put(1, 2)
        running.put(3)
        running.profile(tmp_path)
        yield running


@pytest.fixture
def volume(deltaic: Deltaic, tmp_path: Path) -> Iterator[Folder]:
    assert deltaic is not None  # this fixture changes the current folder
    with folder_server() as running:
        running.objects |= {"a.txt": b"one", "b.txt": b"two", "c.txt": b"three"}
        running.server.profile(tmp_path)
        yield running


def error_of(deltaic: Deltaic, line: str) -> str:
    """Run a command that must fail with exit code 1, and return its error."""
    result = deltaic(line)
    assert result.exit_code == 1, result.output
    assert result.stderr
    return result.stderr


@pytest.mark.parametrize(
    ("line", "suffix", "body"),
    [
        pytest.param(TABLE, "/query", b" " * (MAX_BYTES + 1), id="one long line"),
        pytest.param(TABLE, "/query", (b" " * 999_999 + b"\n") * 68, id="many lines"),
        pytest.param(FOLDER, "/volumes/v", b" " * (MAX_BYTES + 1), id="description of a folder"),
    ],
)
def test_response_that_is_too_large_when_decompressed_is_rejected(
    deltaic: Deltaic, server: AnyServer, line: str, suffix: str, body: bytes
) -> None:
    server.override = lambda path, _: (200, body) if path.endswith(suffix) else None
    server.gzip_suffix = suffix
    assert "more than 64 MiB" in error_of(deltaic, line)
    assert len([path for _, path, _, _ in server.requests if path.endswith(suffix)]) == 1


def test_large_uncompressed_query_response_is_accepted(deltaic: Deltaic, server: AnyServer) -> None:
    """A response with a million files has several hundred megabytes, and signed URLs compress badly."""
    filler = b'{"x":"' + b"x" * 1_000_000 + b'"}\n'

    def respond(path: str, _: bytes) -> tuple[int, bytes] | None:
        lines = b"".join(json.dumps(line).encode() + b"\n" for line in server.query())
        return (200, lines + filler * 70) if path.endswith("/query") else None

    server.override = respond
    assert deltaic.json(TABLE)["files"] == 2


def test_response_with_another_compression_than_gzip_is_rejected(deltaic: Deltaic, server: AnyServer) -> None:
    server.headers["Content-Encoding"] = "br"
    assert "the Content-Encoding is 'br' instead of gzip" in error_of(deltaic, TABLE)
    assert {headers["Accept-Encoding"] for _, _, headers, _ in server.requests} == {"gzip"}


def with_vector(server: AnyServer, **fields: Any) -> None:
    """Respond in delta format, with a deletion vector file."""

    def change(lines: list[Any]) -> list[Any]:
        vector = {"storageType": "p", "pathOrInlineDv": server.url("vector"), "sizeInBytes": 1, "cardinality": 1}
        add = {"path": server.url(next(iter(server.files))), "size": len(next(iter(server.files.values())))}
        add |= {"partitionValues": {}, "deletionVector": {**vector, **fields}}
        return [*lines[:2], {"file": {"id": "f", "deltaSingleAction": {"add": add}}}]

    server.change = change


def test_objects_are_stored_without_decompression(deltaic: Deltaic, server: AnyServer, tmp_path: Path) -> None:
    """The bytes belong to the table, whatever Content-Encoding the store returns."""
    with_vector(server)
    server.override = lambda path, _: (200, b"v" * 10_000) if path.endswith("/vector") else None
    server.gzip_suffix = "/vector"
    deltaic.done(TABLE)
    [vector] = (tmp_path / "copy").glob("*.bin")
    assert gzip.decompress(vector.read_bytes()) == b"v" * 10_000


def test_deletion_vector_that_is_too_large_is_rejected(deltaic: Deltaic, server: AnyServer, tmp_path: Path) -> None:
    with_vector(server)
    server.override = lambda path, _: (200, b"v" * (MAX_BYTES + 1)) if path.endswith("/vector") else None
    assert "more than" in error_of(deltaic, TABLE)
    assert not [*(tmp_path / "copy").glob("*.bin")]


def test_query_that_repeats_a_page_token_is_rejected(deltaic: Deltaic, server: AnyServer) -> None:
    last_line = {"endStreamAction": {"nextPageToken": "again"}}
    server.change = lambda lines: [*lines[:2], *([lines[2]] if len(server.requests) == 1 else []), last_line]
    assert "the server repeats a page token" in error_of(deltaic, TABLE)
    assert len(server.requests) == 2


def test_listing_that_repeats_a_page_token_is_rejected(deltaic: Deltaic, volume: Folder) -> None:
    page = {"items": [], "nextPageToken": "again"}
    respond = volume.answer
    volume.server.override = lambda path, body: (
        (200, json.dumps(page).encode()) if "/files" in path and not body else respond(path, body)
    )
    assert "the server repeats a page token" in error_of(deltaic, FOLDER)
    assert len([path for _, path, _, _ in volume.server.requests if "/files" in path]) == 2


def test_file_that_is_listed_twice_is_rejected(deltaic: Deltaic, server: AnyServer) -> None:
    """Its rows would be read twice."""
    server.change = lambda lines: [*lines, lines[2]]
    assert "lists a file twice" in error_of(deltaic, TABLE)


def change(path: str, value: Any) -> Callable[[list[Any]], list[Any]]:
    """Return a function that sets or deletes the value at a path like `2.file.size` in response lines."""

    def apply(lines: list[Any]) -> list[Any]:
        parent: Any = lines
        *parts, last = [int(part) if part.isdecimal() else part for part in path.split(".")]
        for part in parts:
            parent = parent[part]
        if value is ...:
            del parent[last]
        else:
            parent[last] = value
        return lines

    return apply


def as_delta(lines: list[Any]) -> list[Any]:
    """Convert response lines from parquet to delta format."""
    metadata = {"deltaMetadata": lines[1]["metaData"] | {"configuration": {}}}
    files = [line["file"] for line in lines[2:]]
    adds = [{"path": file.pop("url"), "size": file.pop("size"), "partitionValues": {}} for file in files]
    return [
        {"protocol": {"deltaProtocol": {"minReaderVersion": 1, "minWriterVersion": 2}}},
        {"metaData": metadata},
        *({"file": {**file, "deltaSingleAction": {"add": add}}} for file, add in zip(files, adds, strict=True)),
    ]


PARQUET = [
    ("0", 1),
    ("0", []),
    ("0.protocol", None),
    ("0.protocol", []),
    ("0.protocol.minReaderVersion", "x"),
    ("1", "x"),
    ("1.metaData", 5),
    ("1.metaData.id", 5),
    ("1.metaData.schemaString", ...),
    ("1.metaData.schemaString", 5),
    ("1.metaData.schemaString", ""),
    ("1.metaData.schemaString", "[]"),
    ("1.metaData.schemaString", '{"type":"struct"}'),
    ("1.metaData.schemaString", '{"type":"struct","fields":[5]}'),
    ("1.metaData.schemaString", '{"type":"struct","fields":[{"name":"id"}]}'),
    ("1.metaData.schemaString", '{"type":"struct","fields":[{"name":"id","type":{"type":"array"}}]}'),
    ("1.metaData.schemaString", DEEP),
    ("1.metaData.partitionColumns", 5),
    ("1.metaData.partitionColumns", [5]),
    ("2", None),
    ("2.file", []),
    ("2.file.url", ...),
    ("2.file.url", 5),
    ("2.file.id", ...),
    ("2.file.id", 5),
    ("2.file.size", -1),
    ("2.file.size", 1.5),
    ("2.file.size", 1e999),
    ("2.file.size", 2**64),
    ("2.file.partitionValues", []),
    ("2.file.partitionValues", {"id": []}),
    ("2.file.stats", {}),
    ("2.file.expirationTimestamp", "x"),
    ("2.file.expirationTimestamp", 1e999),
    ("2.endStreamAction", "x"),
    ("2.endStreamAction", {"nextPageToken": 5}),
    ("2.endStreamAction", {"refreshToken": []}),
]
ADD = "2.file.deltaSingleAction.add"
VECTOR = {"storageType": "p", "pathOrInlineDv": "http://127.0.0.1:9/x", "sizeInBytes": 1, "cardinality": 1}
DELTA = [
    ("0.protocol.deltaProtocol", []),
    ("0.protocol.deltaProtocol.readerFeatures", 5),
    ("0.protocol.deltaProtocol.readerFeatures", [5]),
    ("1.metaData.deltaMetadata", []),
    ("1.metaData.deltaMetadata.configuration", []),
    ("1.metaData.deltaMetadata.configuration", {"delta.columnMapping.mode": 5}),
    ("2.file.deltaSingleAction", 5),
    ("2.file.deltaSingleAction", {"remove": {}}),
    (ADD, []),
    (f"{ADD}.path", ...),
    (f"{ADD}.size", ...),
    (f"{ADD}.deletionVector", []),
    (f"{ADD}.deletionVector", {"storageType": "p"}),
    (f"{ADD}.deletionVector", {**VECTOR, "offset": -1}),
    (f"{ADD}.deletionVector", {**VECTOR, "sizeInBytes": "x"}),
    (f"{ADD}.deletionVector", {**VECTOR, "pathOrInlineDv": 5}),
]


@pytest.mark.parametrize("target", ["copy/", "t.csv"])
@pytest.mark.parametrize(("path", "value"), PARQUET)
def test_malformed_response_in_parquet_format_is_rejected(
    deltaic: Deltaic, server: AnyServer, path: str, value: Any, target: str
) -> None:
    server.change = change(path, value)
    error_of(deltaic, f"pull any.share#s.d.t {target} --kind table")


@pytest.mark.parametrize(("path", "value"), DELTA)
def test_malformed_response_in_delta_format_is_rejected(
    deltaic: Deltaic, server: AnyServer, path: str, value: Any
) -> None:
    server.change = lambda lines: change(path, value)(as_delta(lines))
    error_of(deltaic, TABLE)


def test_unchanged_response_in_delta_format_is_accepted(deltaic: Deltaic, server: AnyServer) -> None:
    server.change = as_delta
    assert deltaic.json(TABLE)["files"] == 2


def test_numbers_as_strings_and_null_fields_are_accepted(deltaic: Deltaic, server: AnyServer) -> None:
    """Protocol Buffers' JSON writes 64-bit numbers as strings, and some servers write null for missing fields."""

    def changed(lines: list[Any]) -> list[Any]:
        for file in (line["file"] for line in lines[2:]):
            file |= {"size": str(file["size"]), "stats": None, "expirationTimestamp": None, "partitionValues": None}
        lines[1]["metaData"] |= {"name": None, "configuration": None, "partitionColumns": None}
        return [*lines, {"endStreamAction": None}]

    server.change = changed
    assert deltaic.json(TABLE)["files"] == 2


@pytest.mark.parametrize("version", ["\u00b2", "-1", "x", "", "9" * 5_000])
def test_version_that_is_not_a_number_is_rejected(deltaic: Deltaic, server: AnyServer, version: str) -> None:
    server.headers["Delta-Table-Version"] = version
    assert "no valid Delta-Table-Version header" in error_of(deltaic, TABLE)


@pytest.mark.parametrize(
    "fields",
    [
        {"accessModes": 5},
        {"accessModes": [5]},
        {"accessModes": ["dir"], "storageLocation": 5},
        {"accessModes": ["dir"], "storageLocation": None},
    ],
)
def test_malformed_folder_description_is_rejected(deltaic: Deltaic, volume: Folder, fields: dict[str, Any]) -> None:
    volume.description |= fields
    error_of(deltaic, FOLDER)


ITEM = {"name": "a.txt", "size": 3, "etag": '"e"'}


@pytest.mark.parametrize(
    "page",
    [
        {"items": 5},
        {"items": [5]},
        {"items": [{}]},
        {"items": [{**ITEM, "name": 5}]},
        {"items": [{**ITEM, "size": -1}]},
        {"items": [{**ITEM, "size": 2**64}]},
        {"items": [{**ITEM, "etag": 5}]},
        {"items": [], "nextPageToken": 5},
    ],
)
def test_malformed_listing_is_rejected(deltaic: Deltaic, volume: Folder, page: Any) -> None:
    respond = volume.answer
    volume.server.override = lambda path, body: (
        (200, json.dumps(page).encode()) if "/files" in path and not body else respond(path, body)
    )
    error_of(deltaic, FOLDER)


@pytest.mark.parametrize("items", [5, [5], [{}], [ITEM], [{**ITEM, "url": 5}], [{**ITEM, "url": None}]])
def test_malformed_urls_of_files_are_refused(deltaic: Deltaic, volume: Folder, items: Any) -> None:
    respond = volume.answer
    volume.server.override = lambda path, body: (
        (200, json.dumps({"items": items}).encode()) if "/files" in path and body else respond(path, body)
    )
    error_of(deltaic, FOLDER)


@pytest.mark.parametrize(
    "credentials",
    [
        {"credentials": "x"},
        {"awsTempCredentials": []},
        {"awsTempCredentials": {"accessKeyId": "A"}, "expirationTime": LATER},
        {"awsTempCredentials": {**KEYS, "accessKeyId": 5}, "expirationTime": LATER},
        {"awsTempCredentials": KEYS, "expirationTime": 1e999},
    ],
)
def test_malformed_credentials_are_rejected(deltaic: Deltaic, volume: Folder, credentials: Any) -> None:
    volume.description = {"name": "v", "storageLocation": "s3://pulled/x"}
    volume.credentials = credentials
    error_of(deltaic, FOLDER)


ENTRY = '<Contents><Key>x/a.txt</Key><Size>3</Size><ETag>"e"</ETag></Contents>'


@pytest.mark.parametrize(
    "listing",
    [
        "no XML",
        "<html><p>sign in</p></html",
        f"<ListBucketResult>{ENTRY.replace('<Key>x/a.txt</Key>', '')}</ListBucketResult>",
        f"<ListBucketResult>{ENTRY.replace('<Size>3</Size>', '')}</ListBucketResult>",
        f"<ListBucketResult>{ENTRY.replace('>3<', '>three<')}</ListBucketResult>",
        f"<ListBucketResult>{ENTRY.replace('>3<', '>-3<')}</ListBucketResult>",
        "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
        "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken></ListBucketResult>",
    ],
)
def test_store_with_malformed_or_endless_listing_is_rejected(deltaic: Deltaic, volume: Folder, listing: str) -> None:
    volume.description = {"name": "v", "storageLocation": "s3://pulled/x"}
    volume.credentials = {
        "awsTempCredentials": KEYS,
        "expirationTime": LATER,
        "endpoint": volume.server.endpoint,
        "region": "r",
    }
    respond = volume.answer
    volume.server.override = lambda path, body: (
        (200, listing.encode()) if path.startswith("/pulled") else respond(path, body)
    )
    error_of(deltaic, FOLDER)
    assert len([path for _, path, _, _ in volume.server.requests if path.startswith("/pulled")]) <= 3


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://169.254.169.254",
        "http://127.0.0.1:9",
        "http://localhost:9",
        "http://[::1]:9",
        "http://0.0.0.0:9",
        "http://[fd00:ec2::254]",
    ],
)
def test_remote_server_cannot_send_clients_to_a_store_on_this_machine(
    deltaic: Deltaic, volume: Folder, tmp_path: Path, endpoint: str
) -> None:
    """The server has a documentation address and is reached by a proxy, so it counts as remote."""
    volume.description = {"name": "v", "storageLocation": "s3://pulled/x"}
    volume.credentials = {"awsTempCredentials": KEYS, "expirationTime": LATER, "endpoint": endpoint}
    proxy, respond = volume.server.endpoint, volume.answer
    volume.server.override = lambda path, body: respond(path.removeprefix("http://192.0.2.1"), body)
    profile = {"shareCredentialsVersion": 1, "endpoint": "http://192.0.2.1", "bearerToken": "t"}
    (tmp_path / "any.share").write_text(json.dumps(profile))
    refused = deltaic(FOLDER, HTTP_PROXY=proxy, http_proxy=proxy, NO_PROXY="", no_proxy="")
    assert (refused.exit_code, "loopback or link-local" in refused.stderr) == (1, True), refused.output
    assert [path for _, path, _, _ in volume.server.requests if not path.startswith("http://192.0.2.1/")] == []


def test_credentials_are_not_sent_to_the_endpoint_of_the_environment(
    volume: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AWS_ENDPOINT_URL belongs to the user. Without an endpoint in the response, AWS itself is used."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", volume.server.endpoint)
    volume.description = {"name": "v", "storageLocation": "s3://pulled/x"}
    volume.credentials = {"awsTempCredentials": KEYS, "expirationTime": LATER, "region": "eu-central-1"}
    name = SharedName.parse(f"{tmp_path}/any.share#s.d.v")
    with closing(SharingServer.from_profile(name.profile)) as server:
        reader: Any = find_folder(server, name)
        assert reader is not None
        assert reader._client().meta.endpoint_url == "https://s3.eu-central-1.amazonaws.com"


@pytest.mark.parametrize("answer", ["5", "[]", "{}", '{"access_token":"t","expires_in":1e999}', DEEP])
def test_malformed_response_of_the_token_endpoint_is_rejected(
    deltaic: Deltaic, server: AnyServer, tmp_path: Path, answer: str
) -> None:
    endpoint = server.endpoint
    profile = {"shareCredentialsVersion": 2, "type": "oauth_client_credentials", "endpoint": endpoint}
    profile |= {"tokenEndpoint": f"{endpoint}/token", "clientId": "c", "clientSecret": "s"}
    (tmp_path / "any.share").write_text(json.dumps(profile))
    server.override = lambda path, _: (200, answer.encode()) if path == "/token" else None
    assert "issued no token" in error_of(deltaic, TABLE)
