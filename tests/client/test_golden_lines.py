"""Test the response lines of every golden table: their contents, pages, and the bytes behind their URLs."""

import hashlib
import re
import struct
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from client.golden_shares import CHANGE_FEEDS, FORMATS, Format, Shared
from client.naive_log import Action, replay
from contract.recipient import Line, Reply, data_url, download
from deltaic_ops.local.resources import DATA_BUCKET
from golden.library import names

Share = Callable[[str], Shared]
IDS = {"delta": hashlib.sha256, "parquet": hashlib.md5}
FOOTER = b"PAR1"
READERS_PROPERTY = re.compile(
    r"delta\.(columnMapping\.|rowTracking\.|enable(ChangeDataFeed|DeletionVectors|TypeWidening|VariantShredding|RowTracking)$)"
)
WRITERS_KEYS = {"dataChange", "tags", "clusteringProvider"}
"""Fields of an add that do not concern its rows: `dataChange` of a snapshot is always true, the others are omitted."""


def is_served(table: Shared, version: int, as_format: Format) -> bool:
    """Return whether a format is served; tests of rows assert that others are refused."""
    return not table.refused_features(version, as_format)


@pytest.mark.parametrize("as_format", FORMATS)
@pytest.mark.parametrize("name", names())
def test_every_line_equals_the_log(shared: Share, name: str, as_format: Format) -> None:
    table = shared(name)
    versions = table.golden.versions
    for version in {versions[0], versions[len(versions) // 2], versions[-1]}:
        if not is_served(table, version, as_format):
            continue
        answer = table.requested(as_format).query(version=version)
        state = replay(table.log, version)
        assert answer.version == version
        (protocol,), (metadata,) = answer.only("protocol"), answer.only("metaData")
        if as_format == "delta":
            assert as_sets(protocol["deltaProtocol"]) == as_sets(state.protocol)
            assert metadata["deltaMetadata"] == for_readers(state.metadata)
        else:
            assert protocol == {"minReaderVersion": 1}
            same = ("id", "schemaString", "partitionColumns")
            assert {key: metadata[key] for key in same} == {key: state.metadata[key] for key in same}
        assert metadata["numFiles"] == len(state.adds)
        assert metadata["size"] == sum(add["size"] for add in state.adds.values())
        files = {line["id"]: line for line in answer.only("file")}
        assert len(files) == len(answer.lines) - 2
        adds_by_id = {IDS[as_format](path.encode()).hexdigest(): add for path, add in state.adds.items()}
        assert files.keys() == adds_by_id.keys()
        for key, add in adds_by_id.items():
            assert sent_fields(files[key]) == expected_fields(add, as_format), f"{name} version {version}"


def for_readers(metadata: Action) -> Action:
    """Return the log's metaData with only the properties that affect readers."""
    filtered = {name: value for name, value in metadata["configuration"].items() if READERS_PROPERTY.match(name)}
    return {**metadata, "configuration": filtered}


def sent_fields(line: Line) -> Action:
    """Return the fields of a line without signed URLs and their expiry."""
    if "deltaSingleAction" not in line:
        # Lines of this format contain the requested version, which the header already confirms.
        return {key: line[key] for key in line.keys() - {"id", "url", "expirationTimestamp", "version", "timestamp"}}
    add = dict(line["deltaSingleAction"]["add"])
    assert add.pop("path").startswith("http")
    assert add.pop("dataChange") is True
    if "deletionVector" in add:
        add["deletionVector"] = without_location(add["deletionVector"])
    return add


def expected_fields(add: Action, as_format: Format) -> Action:
    """Return the expected fields of the line of an add."""
    if as_format == "parquet":
        return {key: add[key] for key in ("partitionValues", "size", "stats") if key in add}
    filtered = {key: value for key, value in add.items() if key not in WRITERS_KEYS | {"path", "stats_parsed"}}
    if "deletionVector" in filtered:
        filtered["deletionVector"] = without_location(filtered["deletionVector"])
    return filtered


def without_location(vector: Action) -> Action:
    """Return a deletion vector without its location, which is signed, unless it is inline."""
    if vector["storageType"] == "i":
        return vector
    return {key: vector[key] for key in ("offset", "sizeInBytes", "cardinality") if key in vector}


def as_sets(protocol: Action) -> Action:
    return {key: set(value) if isinstance(value, list) else value for key, value in protocol.items()}


@pytest.mark.parametrize("as_format", FORMATS)
@pytest.mark.parametrize("name", names())
def test_pages_equal_the_full_answer_and_urls_return_the_files(shared: Share, name: str, as_format: Format) -> None:
    table = shared(name)
    if not is_served(table, table.golden.versions[-1], as_format):
        return
    full_answer = table.requested(as_format).query()
    for size in (1, 2):
        answers = list(pages(lambda body: table.requested(as_format).query(body), {"maxFiles": size}))
        assert without_signatures([line for page in answers for line in page.only("file")]) == without_signatures(
            full_answer.only("file")
        )
        assert all(len(page.only("file")) == size for page in answers[:-1])
        assert {tuple(page.body.split(b"\n")[:2]) for page in answers} == {tuple(full_answer.body.split(b"\n")[:2])}
    for line in full_answer.only("file"):
        check_bytes(table, line)


@pytest.mark.parametrize("as_format", FORMATS)
@pytest.mark.parametrize("name", CHANGE_FEEDS)
def test_pages_of_changes_equal_the_full_answer_and_urls_return_the_files(
    shared: Share, name: str, as_format: Format
) -> None:
    table = shared(name)
    assert table.golden.change_range is not None
    first, last = table.golden.change_range
    if not is_served(table, last, as_format):
        return
    kinds = ("file", "add", "cdf", "remove")
    request = table.requested(as_format).changes
    bounds = {"startingVersion": first, "endingVersion": last}
    full_answer = request(parameters(bounds))
    for size in (1, 2):
        answers = list(pages(lambda requested: request(parameters(requested)), {**bounds, "maxFiles": size}))
        assert without_signatures([line for page in answers for line in page.only(*kinds)]) == without_signatures(
            full_answer.only(*kinds)
        )
    for line in full_answer.only(*kinds):
        check_bytes(table, line)


def test_a_disabled_change_feed_is_refused_with_its_version(shared: Share) -> None:
    table = shared("change_feed_later")
    for as_format in FORMATS:
        # On from version 2, off from 5, on again from 7.
        answer = table.requested(as_format).changes("?startingVersion=2&endingVersion=8")
        assert answer.status == 400
        assert "5" in answer.json["message"], answer.json
        assert table.requested(as_format).changes("?startingVersion=2&endingVersion=4").status == 200


def pages(request: Callable[[dict[str, Any]], Reply], requested: dict[str, Any]) -> Iterator[Reply]:
    """Yield page after page."""
    page = request(requested)
    yield page
    while token := page.end.get("nextPageToken"):
        page = request({**requested, "pageToken": token})
        yield page


def parameters(requested: dict[str, Any]) -> str:
    return "?" + "&".join(f"{name}={value}" for name, value in requested.items())


def without_signatures(lines: list[Line]) -> list[Line]:
    """Return lines without signatures and expiry, which differ between responses."""

    def filtered(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: filtered(inner) for key, inner in value.items() if key != "expirationTimestamp"}
        return value.partition("?")[0] if isinstance(value, str) and value.startswith("http") else value

    return [filtered(line) for line in lines]


def check_bytes(table: Shared, line: Line) -> None:
    """Assert that a line's URLs return the file and the deletion vector, completely and by range."""
    url = data_url(line)
    content = stored_bytes(table, url)
    assert download(url).body == content
    tail = download(url, (len(content) - 4, len(content) - 1))
    assert (tail.status, tail.body) == (206, FOOTER)
    assert content[-4:] == FOOTER
    action: Action = next(iter(line.get("deltaSingleAction", {"none": {}}).values()))
    if action:
        assert action.get("size", len(content)) == len(content)
    else:
        assert line["size"] == len(content)
    vector = action.get("deletionVector")
    if vector is None or vector["storageType"] == "i":
        return
    assert vector["storageType"] == "p"
    assert len(line["deletionVectorFileId"]) == 64
    content = stored_bytes(table, vector["pathOrInlineDv"])
    assert download(vector["pathOrInlineDv"]).body == content
    # Delta protocol, "Deletion Vector File Storage Format": the size, big-endian, stands before the data.
    size = struct.pack(">i", vector["sizeInBytes"])
    part = download(vector["pathOrInlineDv"], (vector["offset"], vector["offset"] + 3))
    assert (part.status, part.body) == (206, size)


def stored_bytes(table: Shared, url: str) -> bytes:
    """Return the bytes of the file that was uploaded where a URL points to."""
    return table.file(unquote(urlsplit(url).path).removeprefix(f"/{DATA_BUCKET}/")).read_bytes()
