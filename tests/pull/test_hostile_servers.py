"""Servers that nobody should trust: answers that are too large, endless, malformed or of this machine are refused."""

from __future__ import annotations

import gzip
import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from delta_sharing_conformance.untrusted_http import MOST_BYTES
from delta_sharing_pull.server import Shared, SharingServer
from delta_sharing_pull.shared_folders import find_folder
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
    assert deltaic is not None  # has made the folder the working one
    with any_server() as running:
        running.put(1, 2)
        running.put(3)
        running.profile(tmp_path)
        yield running


@pytest.fixture
def volume(deltaic: Deltaic, tmp_path: Path) -> Iterator[Folder]:
    assert deltaic is not None  # has made the folder the working one
    with folder_server() as running:
        running.objects |= {"a.txt": b"one", "b.txt": b"two", "c.txt": b"three"}
        running.server.profile(tmp_path)
        yield running


def refusal(deltaic: Deltaic, line: str) -> str:
    """Run a command that must be refused; an exception that is no refusal fails the test."""
    result = deltaic(line)
    assert result.exit_code == 1, result.output
    assert result.stderr
    return result.stderr


@pytest.mark.parametrize(
    ("line", "ending", "body"),
    [
        pytest.param(TABLE, "/query", b" " * (MOST_BYTES + 1), id="one line of a query"),
        pytest.param(TABLE, "/query", (b" " * 999_999 + b"\n") * 68, id="lines of a query"),
        pytest.param(FOLDER, "/volumes/v", b" " * (MOST_BYTES + 1), id="what a folder is"),
    ],
)
def test_an_answer_that_grows_when_it_is_unpacked_is_refused(
    deltaic: Deltaic, server: AnyServer, line: str, ending: str, body: bytes
) -> None:
    server.told = lambda path, _: (200, body) if path.endswith(ending) else None
    server.zipped = ending
    assert "more than 64 MiB" in refusal(deltaic, line)
    assert len([path for _, path, _, _ in server.asked if path.endswith(ending)]) == 1


def test_a_large_answer_that_came_as_it_is_may_be_longer(deltaic: Deltaic, server: AnyServer) -> None:
    """A million files are some hundred megabytes, and their URLs do not shrink by much."""
    filler = b'{"x":"' + b"x" * 1_000_000 + b'"}\n'

    def answer(path: str, _: bytes) -> tuple[int, bytes] | None:
        lines = b"".join(json.dumps(line).encode() + b"\n" for line in server.query())
        return (200, lines + filler * 70) if path.endswith("/query") else None

    server.told = answer
    assert deltaic.json(TABLE)["files"] == 2


def test_an_answer_compressed_otherwise_is_refused(deltaic: Deltaic, server: AnyServer) -> None:
    server.headers["Content-Encoding"] = "br"
    assert "packed otherwise than by gzip" in refusal(deltaic, TABLE)
    assert {headers["Accept-Encoding"] for _, _, headers, _ in server.asked} == {"gzip"}


def with_vector(server: AnyServer, **fields: Any) -> None:
    """Answer in delta format, with a deletion vector in a file of its own."""

    def change(lines: list[Any]) -> list[Any]:
        vector = {"storageType": "p", "pathOrInlineDv": server.url("vector"), "sizeInBytes": 1, "cardinality": 1}
        add = {"path": server.url(next(iter(server.files))), "size": len(next(iter(server.files.values())))}
        add |= {"partitionValues": {}, "deletionVector": {**vector, **fields}}
        return [*lines[:2], {"file": {"id": "f", "deltaSingleAction": {"add": add}}}]

    server.change = change


def test_an_object_is_kept_as_the_store_has_it(deltaic: Deltaic, server: AnyServer, tmp_path: Path) -> None:
    """Its bytes are the table's, whatever Content-Encoding somebody has stored beside them."""
    with_vector(server)
    server.told = lambda path, _: (200, b"v" * 10_000) if path.endswith("/vector") else None
    server.zipped = "/vector"
    deltaic.done(TABLE)
    [vector] = (tmp_path / "copy").glob("*.bin")
    assert gzip.decompress(vector.read_bytes()) == b"v" * 10_000


def test_a_deletion_vector_without_an_end_is_refused(deltaic: Deltaic, server: AnyServer, tmp_path: Path) -> None:
    with_vector(server)
    server.told = lambda path, _: (200, b"v" * (MOST_BYTES + 1)) if path.endswith("/vector") else None
    assert "more than" in refusal(deltaic, TABLE)
    assert not [*(tmp_path / "copy").glob("*.bin")]


def test_a_query_whose_page_token_never_changes_is_refused(deltaic: Deltaic, server: AnyServer) -> None:
    more = {"endStreamAction": {"nextPageToken": "again"}}
    server.change = lambda lines: [*lines[:2], *([lines[2]] if len(server.asked) == 1 else []), more]
    assert "the same nextPageToken" in refusal(deltaic, TABLE)
    assert len(server.asked) == 2


def test_a_listing_whose_page_token_never_changes_is_refused(deltaic: Deltaic, volume: Folder) -> None:
    page = {"items": [], "nextPageToken": "again"}
    ours = volume.answer
    volume.server.told = lambda path, body: (
        (200, json.dumps(page).encode()) if "/files" in path and not body else ours(path, body)
    )
    assert "the same nextPageToken" in refusal(deltaic, FOLDER)
    assert len([path for _, path, _, _ in volume.server.asked if "/files" in path]) == 2


def test_a_file_that_is_listed_twice_is_refused(deltaic: Deltaic, server: AnyServer) -> None:
    """Its rows would be read twice."""
    server.change = lambda lines: [*lines, lines[2]]
    assert "lists a file twice" in refusal(deltaic, TABLE)


def change(path: str, value: Any) -> Callable[[list[Any]], list[Any]]:
    """Return what sets a value in the lines of an answer, or takes it away; `path` is like `2.file.size`."""

    def changed(lines: list[Any]) -> list[Any]:
        place: Any = lines
        *parts, last = [int(part) if part.isdecimal() else part for part in path.split(".")]
        for part in parts:
            place = place[part]
        if value is ...:
            del place[last]
        else:
            place[last] = value
        return lines

    return changed


def as_delta(lines: list[Any]) -> list[Any]:
    """Return the lines of an answer in delta format."""
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
def test_a_malformed_answer_in_parquet_format_is_refused(
    deltaic: Deltaic, server: AnyServer, path: str, value: Any, target: str
) -> None:
    server.change = change(path, value)
    refusal(deltaic, f"pull any.share#s.d.t {target} --kind table")


@pytest.mark.parametrize(("path", "value"), DELTA)
def test_a_malformed_answer_in_delta_format_is_refused(
    deltaic: Deltaic, server: AnyServer, path: str, value: Any
) -> None:
    server.change = lambda lines: change(path, value)(as_delta(lines))
    refusal(deltaic, TABLE)


def test_the_answer_in_delta_format_is_right_before_a_case_changes_it(deltaic: Deltaic, server: AnyServer) -> None:
    server.change = as_delta
    assert deltaic.json(TABLE)["files"] == 2


def test_numbers_may_be_texts_and_absent_fields_null(deltaic: Deltaic, server: AnyServer) -> None:
    """So does Protocol Buffers' JSON write 64 bits, and so do some servers write what is not there."""

    def changed(lines: list[Any]) -> list[Any]:
        for file in (line["file"] for line in lines[2:]):
            file |= {"size": str(file["size"]), "stats": None, "expirationTimestamp": None, "partitionValues": None}
        lines[1]["metaData"] |= {"name": None, "configuration": None, "partitionColumns": None}
        return [*lines, {"endStreamAction": None}]

    server.change = changed
    assert deltaic.json(TABLE)["files"] == 2


@pytest.mark.parametrize("version", ["\u00b2", "-1", "x", "", "9" * 5_000])
def test_a_version_that_is_no_number_is_refused(deltaic: Deltaic, server: AnyServer, version: str) -> None:
    server.headers["Delta-Table-Version"] = version
    assert "version" in refusal(deltaic, TABLE)


@pytest.mark.parametrize(
    "told",
    [
        {"accessModes": 5},
        {"accessModes": [5]},
        {"accessModes": ["dir"], "storageLocation": 5},
        {"accessModes": ["dir"], "storageLocation": None},
    ],
)
def test_a_malformed_folder_is_refused(deltaic: Deltaic, volume: Folder, told: dict[str, Any]) -> None:
    volume.told |= told
    refusal(deltaic, FOLDER)


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
def test_a_malformed_listing_is_refused(deltaic: Deltaic, volume: Folder, page: Any) -> None:
    ours = volume.answer
    volume.server.told = lambda path, body: (
        (200, json.dumps(page).encode()) if "/files" in path and not body else ours(path, body)
    )
    refusal(deltaic, FOLDER)


@pytest.mark.parametrize("items", [5, [5], [{}], [ITEM], [{**ITEM, "url": 5}], [{**ITEM, "url": None}]])
def test_malformed_urls_of_files_are_refused(deltaic: Deltaic, volume: Folder, items: Any) -> None:
    ours = volume.answer
    volume.server.told = lambda path, body: (
        (200, json.dumps({"items": items}).encode()) if "/files" in path and body else ours(path, body)
    )
    refusal(deltaic, FOLDER)


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
def test_malformed_credentials_are_refused(deltaic: Deltaic, volume: Folder, credentials: Any) -> None:
    volume.told = {"name": "v", "storageLocation": "s3://pulled/x"}
    volume.credentials = credentials
    refusal(deltaic, FOLDER)


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
def test_a_store_that_lists_nonsense_or_without_an_end_is_refused(
    deltaic: Deltaic, volume: Folder, listing: str
) -> None:
    volume.told = {"name": "v", "storageLocation": "s3://pulled/x"}
    volume.credentials = {
        "awsTempCredentials": KEYS,
        "expirationTime": LATER,
        "endpoint": volume.server.endpoint,
        "region": "r",
    }
    ours = volume.answer
    volume.server.told = lambda path, body: (200, listing.encode()) if path.startswith("/pulled") else ours(path, body)
    refusal(deltaic, FOLDER)
    assert len([path for _, path, _, _ in volume.server.asked if path.startswith("/pulled")]) <= 3


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
def test_a_store_of_this_machine_is_not_asked_for_a_server_elsewhere(
    deltaic: Deltaic, volume: Folder, tmp_path: Path, endpoint: str
) -> None:
    """The server stands behind a proxy, at an address of documentation: this machine's are none of its business."""
    volume.told = {"name": "v", "storageLocation": "s3://pulled/x"}
    volume.credentials = {"awsTempCredentials": KEYS, "expirationTime": LATER, "endpoint": endpoint}
    proxy, ours = volume.server.endpoint, volume.answer
    volume.server.told = lambda path, body: ours(path.removeprefix("http://192.0.2.1"), body)
    told = {"shareCredentialsVersion": 1, "endpoint": "http://192.0.2.1", "bearerToken": "t"}
    (tmp_path / "any.share").write_text(json.dumps(told))
    refused = deltaic(FOLDER, HTTP_PROXY=proxy, http_proxy=proxy, NO_PROXY="", no_proxy="")
    assert (refused.exit_code, "loopback or link-local" in refused.stderr) == (1, True), refused.output
    assert [path for _, path, _, _ in volume.server.asked if not path.startswith("http://192.0.2.1/")] == []


def test_credentials_are_shown_to_no_endpoint_of_the_environment(
    volume: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AWS_ENDPOINT_URL names the AWS of whoever pulls; a server that names no endpoint means AWS's own."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", volume.server.endpoint)
    volume.told = {"name": "v", "storageLocation": "s3://pulled/x"}
    volume.credentials = {"awsTempCredentials": KEYS, "expirationTime": LATER, "region": "eu-central-1"}
    shared = Shared.parse(f"{tmp_path}/any.share#s.d.v")
    with closing(SharingServer.of(shared.profile)) as server:
        reader: Any = find_folder(server, shared)
        assert reader is not None
        assert reader._client().meta.endpoint_url == "https://s3.eu-central-1.amazonaws.com"


@pytest.mark.parametrize("answer", ["5", "[]", "{}", '{"access_token":"t","expires_in":1e999}', DEEP])
def test_a_token_endpoint_that_answers_nonsense_is_refused(
    deltaic: Deltaic, server: AnyServer, tmp_path: Path, answer: str
) -> None:
    endpoint = server.endpoint
    told = {"shareCredentialsVersion": 2, "type": "oauth_client_credentials", "endpoint": endpoint}
    told |= {"tokenEndpoint": f"{endpoint}/token", "clientId": "c", "clientSecret": "s"}
    (tmp_path / "any.share").write_text(json.dumps(told))
    server.told = lambda path, _: (200, answer.encode()) if path == "/token" else None
    assert "gives no token" in refusal(deltaic, TABLE)
