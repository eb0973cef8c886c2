"""Answers for every table that Spark wrote: line by line against its log, in pages, and the bytes behind the URLs."""

import hashlib
import re
import struct
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from client.golden_shares import CHANGED, FORMATS, Format, Shared
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
"""Of an add, what says nothing of its rows: `dataChange` of a snapshot is always true, the others stay behind."""


def served(table: Shared, version: int, as_format: Format) -> bool:
    """Tell whether a format is answered; that the others are refused is asserted where rows are read."""
    return not table.refused(version, as_format)


@pytest.mark.parametrize("as_format", FORMATS)
@pytest.mark.parametrize("name", names())
def test_every_line_says_what_the_log_says(shared: Share, name: str, as_format: Format) -> None:
    table = shared(name)
    versions = table.golden.versions
    for version in {versions[0], versions[len(versions) // 2], versions[-1]}:
        if not served(table, version, as_format):
            continue
        answer = table.asked(as_format).query(version=version)
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
        hashed = {IDS[as_format](path.encode()).hexdigest(): add for path, add in state.adds.items()}
        assert files.keys() == hashed.keys()
        for key, add in hashed.items():
            assert sent(files[key]) == wanted(add, as_format), f"{name} version {version}"


def for_readers(metadata: Action) -> Action:
    """Return the log's metaData with those properties that change how a table is read; the others stay behind."""
    kept = {name: value for name, value in metadata["configuration"].items() if READERS_PROPERTY.match(name)}
    return {**metadata, "configuration": kept}


def sent(line: Line) -> Action:
    """Return what a line says of its file: without signed URLs and their end."""
    if "deltaSingleAction" not in line:
        # Which version was asked for is told in this format; that it is the right one, the header says.
        return {key: line[key] for key in line.keys() - {"id", "url", "expirationTimestamp", "version", "timestamp"}}
    add = dict(line["deltaSingleAction"]["add"])
    assert add.pop("path").startswith("http")
    assert add.pop("dataChange") is True
    if "deletionVector" in add:
        add["deletionVector"] = without_place(add["deletionVector"])
    return add


def wanted(add: Action, as_format: Format) -> Action:
    """Return what the line of an add has to say."""
    if as_format == "parquet":
        return {key: add[key] for key in ("partitionValues", "size", "stats") if key in add}
    kept = {key: value for key, value in add.items() if key not in WRITERS_KEYS | {"path", "stats_parsed"}}
    if "deletionVector" in kept:
        kept["deletionVector"] = without_place(kept["deletionVector"])
    return kept


def without_place(vector: Action) -> Action:
    """Return a deletion vector without where it lies, which is signed, unless it lies in the log."""
    if vector["storageType"] == "i":
        return vector
    return {key: vector[key] for key in ("offset", "sizeInBytes", "cardinality") if key in vector}


def as_sets(protocol: Action) -> Action:
    return {key: set(value) if isinstance(value, list) else value for key, value in protocol.items()}


@pytest.mark.parametrize("as_format", FORMATS)
@pytest.mark.parametrize("name", names())
def test_pages_are_the_whole_and_the_urls_give_the_files(shared: Share, name: str, as_format: Format) -> None:
    table = shared(name)
    if not served(table, table.golden.versions[-1], as_format):
        return
    whole = table.asked(as_format).query()
    for size in (1, 2):
        found = list(pages(lambda body: table.asked(as_format).query(body), {"maxFiles": size}))
        assert lasting([line for page in found for line in page.only("file")]) == lasting(whole.only("file"))
        assert all(len(page.only("file")) == size for page in found[:-1])
        assert {tuple(page.body.split(b"\n")[:2]) for page in found} == {tuple(whole.body.split(b"\n")[:2])}
    for line in whole.only("file"):
        check_bytes(table, line)


@pytest.mark.parametrize("as_format", FORMATS)
@pytest.mark.parametrize("name", CHANGED)
def test_pages_of_changes_are_the_whole_and_the_urls_give_the_files(
    shared: Share, name: str, as_format: Format
) -> None:
    table = shared(name)
    assert table.golden.change_range is not None
    first, last = table.golden.change_range
    if not served(table, last, as_format):
        return
    kinds = ("file", "add", "cdf", "remove")
    ask = table.asked(as_format).changes
    bounds = {"startingVersion": first, "endingVersion": last}
    whole = ask(parameters(bounds))
    for size in (1, 2):
        found = list(pages(lambda asked: ask(parameters(asked)), {**bounds, "maxFiles": size}))
        assert lasting([line for page in found for line in page.only(*kinds)]) == lasting(whole.only(*kinds))
    for line in whole.only(*kinds):
        check_bytes(table, line)


def test_a_change_feed_that_was_off_is_refused_with_the_version(shared: Share) -> None:
    table = shared("change_feed_later")
    for as_format in FORMATS:
        # On from version 2, off from 5, on again from 7.
        answer = table.asked(as_format).changes("?startingVersion=2&endingVersion=8")
        assert answer.status == 400
        assert "5" in answer.json["message"], answer.json
        assert table.asked(as_format).changes("?startingVersion=2&endingVersion=4").status == 200


def pages(ask: Callable[[dict[str, Any]], Reply], asked: dict[str, Any]) -> Iterator[Reply]:
    """Ask for page after page."""
    page = ask(asked)
    yield page
    while token := page.end.get("nextPageToken"):
        page = ask({**asked, "pageToken": token})
        yield page


def parameters(asked: dict[str, Any]) -> str:
    return "?" + "&".join(f"{name}={value}" for name, value in asked.items())


def lasting(lines: list[Line]) -> list[Line]:
    """Return what stays of lines from answer to answer: not the signatures and when they end."""

    def kept(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: kept(inner) for key, inner in value.items() if key != "expirationTimestamp"}
        return value.partition("?")[0] if isinstance(value, str) and value.startswith("http") else value

    return [kept(line) for line in lines]


def check_bytes(table: Shared, line: Line) -> None:
    """Assert that a line's URLs give the file and the deletion vector that the log means, whole and by range."""
    url = data_url(line)
    content = stored(table, url)
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
    content = stored(table, vector["pathOrInlineDv"])
    assert download(vector["pathOrInlineDv"]).body == content
    # Delta protocol, "Deletion Vector File Storage Format": the size, big-endian, stands before the data.
    size = struct.pack(">i", vector["sizeInBytes"])
    part = download(vector["pathOrInlineDv"], (vector["offset"], vector["offset"] + 3))
    assert (part.status, part.body) == (206, size)


def stored(table: Shared, url: str) -> bytes:
    """Return the bytes of the file that was uploaded where a URL points to."""
    return table.file(unquote(urlsplit(url).path).removeprefix(f"/{DATA_BUCKET}/")).read_bytes()
