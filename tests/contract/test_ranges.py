"""Read Data from a Table since a version: the data changes of each commit, with the metadata that changed between."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from contract.logs import TableLog
from contract.recipient import CAPABILITIES, Line, Reply, Table, data_url, download
from contract.server import Server
from contract.tables import NAMES

READS_ALL = "responseformat=delta;readerfeatures=deletionvectors,columnmapping,timestampntz"
formats = pytest.mark.parametrize("capabilities", [None, READS_ALL], ids=["parquet", "delta"])
BAD = (400, "INVALID_PARAMETER_VALUE")


def kind_and_version(line: Line) -> tuple[str, int | None]:
    """Return what a line is and the version that it names."""
    ((kind, content),) = line.items()
    if kind == "file":
        ((kind, _),) = content["deltaSingleAction"].items()
    return kind, content.get("version")


def story(reply: Reply) -> list[tuple[str, int | None]]:
    return [kind_and_version(line) for line in reply.lines]


def pages(table: Table, **body: Any) -> list[Reply]:
    replies = [table.query(**body)]
    while token := replies[-1].end.get("nextPageToken"):
        replies.append(table.query(**body, pageToken=token))
    return replies


@formats
def test_a_range_has_inserts_compaction_and_rewrites(
    table: Callable[[str], Table], server: Server, capabilities: str | None
) -> None:
    """OPTIMIZE changes no data, so version 4 says nothing; a rewrite removes before it adds, as the log does."""
    log = server.shelf.logs["streaming_table_with_optimize"]
    reply = table("streaming_table_with_optimize").with_capabilities(capabilities).query(startingVersion=0)
    assert reply.version == 0
    assert reply.headers[CAPABILITIES] == f"responseformat={'delta' if capabilities else 'parquet'}"
    changes = [("add", 1), ("add", 2), ("add", 3), ("remove", 5), ("add", 5), ("remove", 6), ("add", 6)]
    assert story(reply) == [("protocol", None), ("metaData", 0), *changes]
    lines = [next(iter(line.values())) for line in reply.lines[2:]]
    assert [line["timestamp"] for line in lines] == [log.times[version] for _, version in changes]
    assert lines[0]["timestamp"] == 1_664_325_366_000
    if capabilities is None:
        assert [line[:9] for line in reply.body.splitlines()[2:5]] == [b'{"add":{"'] * 3
        assert reply.body.splitlines()[5].startswith(b'{"remove":{"')
    for line, (kind, version) in zip(lines, changes, strict=True):
        logged = next(action for action in log.commits[version] if kind in action)
        assert download(data_url(line)).body == log.content(logged)
        action = line.get("deltaSingleAction", {}).get(kind, line)
        assert action["size"] == logged[kind]["size"]
        assert action["partitionValues"] == {}
        assert ("stats" in action) is (kind == "add")


def test_a_range_can_be_read_in_pages(table: Callable[[str], Table]) -> None:
    shared_table = table("streaming_table_with_optimize")
    replies = pages(shared_table, startingVersion=6, maxFiles=1)
    assert [story(page)[1:3] for page in replies] == [[("metaData", 6), ("remove", 6)], [("metaData", 6), ("add", 6)]]
    assert [len(page.lines) for page in replies] == [4, 4]
    replies = pages(shared_table, startingVersion=2, endingVersion=3, maxFiles=1)
    assert [story(page)[2] for page in replies] == [("add", 2), ("add", 3)]
    for page in replies:
        assert page.version == 2
        assert page.body.splitlines()[:2] == replies[0].body.splitlines()[:2]
        expiry = page.only("add")[0]["expirationTimestamp"]
        assert page.end["minUrlExpirationTimestamp"] == expiry


@formats
@pytest.mark.parametrize("size", range(1, 9))
def test_pages_of_any_size_join_to_the_complete_result(
    table: Callable[[str], Table], size: int, capabilities: str | None
) -> None:
    for name in ("streaming_table_with_optimize", "streaming_table_metadata_protocol", "streaming_null_to_notnull"):
        shared_table = table(name).with_capabilities(capabilities)
        complete, replies = (
            story(shared_table.query(startingVersion=0)),
            pages(shared_table, startingVersion=0, maxFiles=size),
        )
        assert complete == story(replies[0])[:2] + [line for page in replies for line in story(page)[2:-1]]
        assert all(page.lines[:2] == replies[0].lines[:2] for page in replies)


HEAD = [("protocol", None)]
METADATA_CASES: Mapping[str, tuple[str, dict[str, Any], list[tuple[str, int]]]] = {
    "all": (
        "streaming_table_metadata_protocol",
        {"startingVersion": 0},
        [("metaData", 0), ("add", 1), ("metaData", 2), ("metaData", 3), ("add", 4)],
    ),
    "from a metadata change": (
        "streaming_table_metadata_protocol",
        {"startingVersion": 2},
        [("metaData", 2), ("metaData", 3), ("add", 4)],
    ),
    "to a metadata change": (
        "streaming_table_metadata_protocol",
        {"startingVersion": 0, "endingVersion": 2},
        [("metaData", 0), ("add", 1), ("metaData", 2)],
    ),
    "one version": (
        "streaming_table_metadata_protocol",
        {"startingVersion": 1, "endingVersion": 1},
        [("metaData", 1), ("add", 1)],
    ),
    "one metadata change": (
        "streaming_table_metadata_protocol",
        {"startingVersion": "2", "endingVersion": "2"},
        [("metaData", 2)],
    ),
    "not null to null": (
        "streaming_notnull_to_null",
        {"startingVersion": 0},
        [("metaData", 0), ("add", 1), ("metaData", 2), ("add", 3)],
    ),
    "null to not null": (
        "streaming_null_to_notnull",
        {"startingVersion": 0},
        [("metaData", 0), ("add", 1), ("remove", 2), ("add", 2), ("metaData", 3), ("add", 4)],
    ),
    "a raised reader version, which the reference cannot read": (
        "table_reader_version_increased",
        {"startingVersion": 0},
        [("metaData", 0), ("add", 1), ("add", 2)],
    ),
    "from a checkpoint on": (
        "table_data_loss_with_checkpoint",
        {"startingVersion": "2"},
        [("metaData", 2), ("add", 2)],
    ),
}


@formats
@pytest.mark.parametrize(("name", "body", "lines"), METADATA_CASES.values(), ids=METADATA_CASES)
def test_metadata_lines_are_at_the_versions_of_their_changes(
    table: Callable[[str], Table],
    name: str,
    body: Mapping[str, Any],
    lines: list[tuple[str, int]],
    capabilities: str | None,
) -> None:
    assert story(table(name).with_capabilities(capabilities).query(body)) == HEAD + lines


def test_each_metadata_line_is_of_its_version(table: Callable[[str], Table]) -> None:
    reply = table("streaming_table_metadata_protocol").query(startingVersion=0)
    flags = [line["configuration"].get("enableChangeDataFeed") for line in reply.only("metaData")]
    assert flags == [None, "true", None]
    reply = table("streaming_notnull_to_null").query(startingVersion=0)
    schemas = [json.loads(line["schemaString"])["fields"] for line in reply.only("metaData")]
    assert [fields[0]["nullable"] for fields in schemas] == [False, True]


def test_metadata_is_sent_on_the_page_before_the_next_file(table: Callable[[str], Table]) -> None:
    first, second = pages(table("streaming_table_metadata_protocol"), startingVersion=0, maxFiles=1)
    expected = [*HEAD, ("metaData", 0), ("add", 1), ("metaData", 2), ("metaData", 3), ("endStreamAction", None)]
    assert story(first) == expected
    assert first.end["minUrlExpirationTimestamp"] == first.only("add")[0]["expirationTimestamp"]
    assert story(second) == [*HEAD, ("metaData", 0), ("add", 4), ("endStreamAction", None)]


PROTOCOLS: Mapping[str, tuple[dict[str, Any], list[tuple[int | None, tuple[int, int]]]]] = {
    "not asked": ({"startingVersion": 0, "endingVersion": 4}, [(None, (1, 2))]),
    "asked": (
        {"startingVersion": 0, "endingVersion": 4, "includeHistoricalProtocol": True},
        [(0, (1, 2)), (2, (1, 4))],
    ),
    "asked by text": ({"startingVersion": 0, "includeHistoricalProtocol": "TRUE"}, [(0, (1, 2)), (2, (1, 4))]),
    "asked from the change on": (
        {"startingVersion": 2, "endingVersion": 4, "includeHistoricalProtocol": True},
        [(2, (1, 4))],
    ),
}


@pytest.mark.parametrize(("body", "protocols"), PROTOCOLS.values(), ids=PROTOCOLS)
def test_historical_protocols_can_be_included(
    table: Callable[[str], Table], body: Mapping[str, Any], protocols: list[tuple[int | None, tuple[int, int]]]
) -> None:
    lines = table("protocol_evolution").with_capabilities("responseformat=delta").query(body).only("protocol")
    versions = [
        (line["deltaProtocol"]["minReaderVersion"], line["deltaProtocol"]["minWriterVersion"]) for line in lines
    ]
    assert [(line.get("version"), pair) for line, pair in zip(lines, versions, strict=True)] == protocols
    parquet = table("protocol_evolution").query(body)
    assert parquet.only("protocol") == [{"minReaderVersion": 1}]


def test_a_range_can_have_deletion_vectors(table: Callable[[str], Table], server: Server) -> None:
    """The reference has no ranges of such tables."""
    reply = table("deletion_vector_kinds").with_capabilities(READS_ALL).query(startingVersion=1)
    assert story(reply)[2:] == [("add", 1)] * 3 + [(kind, v) for v in (2, 3, 4) for kind in ("remove", "add")]
    log = server.shelf.logs["deletion_vector_kinds"]
    for line in reply.only("file")[3:]:
        ((kind, action),) = line["deltaSingleAction"].items()
        vector = log.commits[line["version"]][0 if kind == "remove" else 1][kind].get("deletionVector")
        if vector is None:
            assert "deletionVector" not in action
            continue
        sent = action["deletionVector"]
        assert sent["cardinality"] == vector["cardinality"] == 1
        if vector["storageType"] == "i":
            assert sent == vector
        else:
            assert sent["storageType"] == "p"
            assert len(line["deletionVectorFileId"]) == 64
            span = (vector["offset"], vector["offset"] + vector["sizeInBytes"] + 7)
            assert download(sent["pathOrInlineDv"], span).status == 206


@pytest.mark.parametrize("capabilities", [None, "responseformat=parquet", "responseformat=delta"], ids=str)
def test_deletion_vectors_in_a_range_are_refused_to_clients_that_misread_them(
    table: Callable[[str], Table], capabilities: str | None
) -> None:
    shared_table = table("deletion_vector_kinds").with_capabilities(capabilities)
    for reply in (shared_table.query(startingVersion=0), shared_table.changes("?startingVersion=0")):
        reply.refused(400, "UNSUPPORTED_OPERATION", "deletionVectors", "readerfeatures")


def test_all_pages_of_a_range_have_one_format(server: Server) -> None:
    """A feature that one commit needs applies to all later commits of the range."""
    on, off = ({"delta.enableDeletionVectors": value} for value in ("true", "false"))
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["deletionVectors"],
    }
    log: TableLog = server.shelf.log("once_marked", NAMES, timed=False, protocol=protocol, configuration=dict(off))
    log.create()
    added = log.add([{"name": "1"}, {"name": "2"}])
    log.commit(added)
    log.configuration |= on
    log.commit(log.metadata())
    marked = log.deleted(added, [0])
    log.commit(log.remove(added), marked)
    log.commit(log.remove(marked))
    log.configuration |= off
    log.commit(log.metadata())
    for name in "345":
        log.commit(log.add([{"name": name}]))
    server.admin.tables.create("share1", "default", "once_marked", log.location, history=True)
    try:
        shared_table = Table(server.alice, "share1", "default", "once_marked")
        either = shared_table.with_capabilities("responseformat=parquet,delta;readerfeatures=deletionvectors")
        replies = pages(either, startingVersion=0, maxFiles=1)
        assert len(replies) == 7
        assert {page.headers[CAPABILITIES] for page in replies} == {"responseformat=delta"}
        assert len({page.body.split(b"\n")[0] for page in replies}) == 1
        assert shared_table.query(startingVersion=6).kinds[2:] == ["add", "add", "add"]
    finally:
        server.admin.tables.delete("share1", "default", "once_marked")


@formats
@pytest.mark.parametrize(
    ("name", "body", "code", "text"),
    [
        (
            "cdf_table_cdf_enabled",
            {"startingVersion": 3, "endingVersion": 2},
            "INVALID_PARAMETER_VALUE",
            "startingVersion(3) must be smaller than or equal to endingVersion(2)",
        ),
        (
            "cdf_table_cdf_enabled",
            {"startingVersion": 2, "endingVersion": 10},
            "INVALID_PARAMETER_VALUE",
            "End version cannot be greater than the latest version of the table(5)",
        ),
        (
            "cdf_table_cdf_enabled",
            {"startingVersion": 6},
            "INVALID_PARAMETER_VALUE",
            "Start version cannot be greater than the latest version of the table(5)",
        ),
        (
            "cdf_table_with_partition",
            {"startingVersion": "0"},
            "INVALID_PARAMETER_VALUE",
            "You can only query table data since version 1",
        ),
        (
            "table2",
            {"startingVersion": 0},
            "INVALID_PARAMETER_VALUE",
            "history sharing is not enabled on table: share2.default.table2",
        ),
        ("table_data_loss_with_checkpoint", {"startingVersion": "1"}, "RESOURCE_DOES_NOT_EXIST", "00001.json"),
        ("table_data_loss_no_checkpoint", {"startingVersion": 2}, "RESOURCE_DOES_NOT_EXIST", "00001.json"),
        ("cdf_table_missing_log", {"startingVersion": 1}, "RESOURCE_DOES_NOT_EXIST", "0002.json"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_invalid_requests_for_a_range_are_refused(
    table: Callable[[str], Table],
    *,
    name: str,
    body: Mapping[str, Any],
    code: str,
    text: str,
    capabilities: str | None,
) -> None:
    table(name).with_capabilities(capabilities).query(body).refused(400, code, text)


def test_page_tokens_are_valid_only_for_their_range(table: Callable[[str], Table]) -> None:
    shared_table = table("streaming_table_with_optimize")
    token = shared_table.query(startingVersion=1, maxFiles=1).end["nextPageToken"]
    mismatch = "Query parameter mismatch detected for the next page query"
    for body in ({"startingVersion": 2}, {"startingVersion": 1, "endingVersion": 3}, {}):
        shared_table.query(maxFiles=1, pageToken=token, **body).refused(*BAD, mismatch)
    shared_table.changes(f"?startingVersion=1&maxFiles=1&pageToken={token}").refused(400, "INVALID_PARAMETER_VALUE")


def test_the_end_stream_action_is_sent_only_on_request(table: Callable[[str], Table]) -> None:
    shared_table = table("streaming_notnull_to_null")
    assert shared_table.query(startingVersion=0).kinds[-1] == "add"
    reply = shared_table.with_capabilities("responseformat=parquet;includeendstreamaction=true").query(
        startingVersion=0
    )
    assert reply.headers[CAPABILITIES] == "responseformat=parquet;includeendstreamaction=true"
    assert reply.end == {"minUrlExpirationTimestamp": reply.only("add")[0]["expirationTimestamp"]}
    empty = shared_table.with_capabilities("includeendstreamaction=true").query(startingVersion=2, endingVersion=2)
    assert empty.lines[-1] == {"endStreamAction": {}}
