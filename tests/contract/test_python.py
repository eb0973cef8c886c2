"""The requests of the published Python client 1.4.2, and what it crashes on.

It reads bodies by `str.splitlines`, the first line of a listing only, and after the two head lines only `file` (query)
or `add`, `cdf`, `remove` (changes); an `endStreamAction` that it did not ask for is a KeyError there.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from contract.recipient import CAPABILITIES, Recipient, Reply, Table, data_url, download
from contract.server import Server
from contract.tables import VERSION_1, iso

AGENT = "Delta-Sharing-Python/1.4.2 pandas/2.3.3 PyArrow/23.0.1 Python/3.11.9 System/Linux-6.1-x86_64"
RESOLVES = "responseformat=delta,parquet;readerfeatures=deletionvectors,columnmapping,timestampntz"
DELTA = "responseformat=delta;readerfeatures=deletionvectors,columnmapping,timestampntz"
CHANGES = "responseformat=delta;readerfeatures=deletionvectors,columnmapping"


class Python:
    """The client's REST calls on one table."""

    def __init__(self, table: Table, agent: str = AGENT) -> None:
        self.table = table
        self.agent = agent

    def ask(self, method: str, call: str, body: Any = None, capabilities: str | None = None) -> Reply:
        headers = {
            "user-agent": self.agent,
            "accept-encoding": "gzip, deflate",
            "accept": "*/*",
            "connection": "keep-alive",
        }
        if capabilities is not None:
            headers[CAPABILITIES] = capabilities
        content = None
        if method == "POST":
            headers["content-type"] = "application/json"
            content = json.dumps(body).encode()
        return self.table.recipient.ask(method, self.table.path + call, content, **headers)

    def lines(self, reply: Reply) -> list[dict[str, Any]]:
        """Take a body apart as the client does."""
        assert "delta-table-version" in reply.headers
        lines = [json.loads(line) for line in reply.body.decode("utf-8").splitlines()]
        assert lines == reply.lines
        return lines


def formats_of(reply: Reply) -> str:
    """Return the format as the client finds it: by the letters `delta` in the header."""
    return "delta" if "delta" in reply.headers.get(CAPABILITIES, "") else "parquet"


@pytest.mark.parametrize(
    ("name", "answered"),
    [
        ("table1", "parquet"),
        ("table2", "parquet"),
        ("partition_values", "parquet"),
        ("cdf_table_cdf_enabled", "parquet"),
        ("table_with_cm_name", "delta"),
        ("dv_and_cm_table", "delta"),
        ("deletion_vector_kinds", "delta"),
    ],
)
def test_loading_without_a_format_works(table: Callable[[str], Table], name: str, answered: str) -> None:
    python = Python(table(name))
    resolved = python.ask("GET", "/metadata", capabilities=RESOLVES)
    assert len(python.lines(resolved)) == 2
    assert formats_of(resolved) == answered
    # The parquet query goes out without any capabilities header.
    reply = python.ask("POST", "/query", {}, DELTA if answered == "delta" else None)
    assert formats_of(reply) == answered
    assert reply.headers["content-encoding"] == "gzip"
    head, files = python.lines(reply)[:2], python.lines(reply)[2:]
    assert [next(iter(line)) for line in head] == ["protocol", "metaData"]
    assert {next(iter(line)) for line in files} == {"file"}
    for line in files:
        file = line["file"]
        url = data_url(file)
        # The delta reader recognizes a URL only by this parameter, and then downloads the complete file.
        assert "X-Amz-Signature" in parse_qs(urlsplit(url).query)
        assert download(url).body[:4] == b"PAR1"
        if answered == "parquet":
            assert {"url", "id", "partitionValues", "size"} <= set(file)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"limitHint": 1},
        {"predicateHints": ["date = '2021-04-28'"]},
        {"jsonPredicateHints": '{"op":"equal"}'},
        {"predicateHints": None, "limitHint": None},
    ],
    ids=str,
)
@pytest.mark.parametrize("capabilities", [None, DELTA], ids=["parquet", "delta"])
def test_a_query_without_capabilities_has_only_file_lines(
    table: Callable[[str], Table], body: Mapping[str, Any], capabilities: str | None
) -> None:
    python = Python(table("table2"))
    kinds = [next(iter(line)) for line in python.lines(python.ask("POST", "/query", body, capabilities))]
    assert kinds[:2] == ["protocol", "metaData"]
    assert set(kinds[2:]) == {"file"}


@pytest.mark.parametrize("body", [{"version": 1}, {"timestamp": iso(VERSION_1)}], ids=["version", "timestamp"])
@pytest.mark.parametrize("capabilities", [None, DELTA], ids=["parquet", "delta"])
def test_earlier_versions_can_be_read(
    table: Callable[[str], Table], body: Mapping[str, Any], capabilities: str | None
) -> None:
    python = Python(table("cdf_table_cdf_enabled"))
    reply = python.ask("POST", "/query", body, capabilities)
    assert reply.version == 1
    assert [next(iter(line)) for line in python.lines(reply)[2:]] == ["file"] * 3


@pytest.mark.parametrize("flag", ["", "&includeHistoricalMetadata=False"], ids=["plain", "False"])
def test_changes_can_be_read_in_parquet_format(table: Callable[[str], Table], flag: str) -> None:
    python = Python(table("cdf_table_cdf_enabled"))
    reply = python.ask("GET", f"/changes?startingVersion=0&endingVersion=3{flag}")
    lines = python.lines(reply)
    assert formats_of(reply) == "parquet"
    assert [next(iter(line)) for line in lines[2:]] == ["add", "add", "add", "cdf", "cdf"]
    assert all({"version", "timestamp"} <= set(next(iter(line.values()))) for line in lines[2:])


@pytest.mark.parametrize("name", ["cdf_table_cdf_enabled", "deletion_vector_kinds", "streaming_notnull_to_null"])
def test_changes_can_be_read_in_delta_format(table: Callable[[str], Table], name: str) -> None:
    """The client sends the flag with a capital T, and writes its own log from the response."""
    python = Python(table(name))
    parameters = "?startingVersion=0&endingVersion=3&includeHistoricalMetadata=True"
    reply = python.ask("GET", f"/changes{parameters}", capabilities=CHANGES)
    assert formats_of(reply) == "delta"
    protocol, head, *rest = python.lines(reply)
    assert head["metaData"]["version"] == 0
    assert head["metaData"]["deltaMetadata"]["configuration"]["delta.enableChangeDataFeed"] == "true"
    delta = protocol["protocol"]["deltaProtocol"]
    assert delta["minWriterVersion"] >= 4
    assert set(delta.get("readerFeatures", [])) <= set(delta.get("writerFeatures", []))
    assert {next(iter(line)) for line in rest} <= {"file", "metaData"}
    for line in rest:
        assert "version" in next(iter(line.values()))
        if "file" in line:
            assert "timestamp" in line["file"]


@pytest.mark.parametrize(
    ("which", "timestamp"),
    [("startingTimestamp", iso(VERSION_1)), ("startingTimestamp", "2022-04-29T22:50:35.000Z")],
)
def test_timestamps_in_quotes_are_accepted(table: Callable[[str], Table], which: str, timestamp: str) -> None:
    python = Python(table("cdf_table_cdf_enabled"))
    quoted = quote(timestamp)
    assert "%3A" in quoted
    assert python.ask("GET", f"/version?{which}={quoted}").version == 1
    assert python.ask("GET", f"/changes?{which}={quoted}&endingVersion=3").version == 1


def test_the_client_reads_the_first_line_of_listings(alice: Recipient) -> None:
    headers = {"user_agent": AGENT, "accept_encoding": "gzip, deflate"}
    for path in ("/shares", "/shares/share7/schemas", "/shares/share8/all-tables?maxResults=2"):
        reply = alice.get(path, **headers)
        first = json.loads(reply.body.decode().splitlines()[0])
        assert first == reply.json
        if token := first.get("nextPageToken"):
            assert quote(token, safe="") == token
            assert alice.get(f"{path}&pageToken={token}", **headers).status == 200


@pytest.mark.parametrize(
    "name", ["plus+sign", "quote's", "(brackets)", "tilde~star*", "comma,semi;colon:at@", "a=b&c$"]
)
def test_path_components_without_encoding_are_accepted(server: Server, name: str) -> None:
    """The client encodes only characters of names that cannot be in a URL."""
    server.admin.tables.create("share1", "default", name, f"s3://{server.shelf.bucket}/table1")
    try:
        python = Python(Table(server.alice, "share1", "default", name))
        assert python.ask("GET", "/version").version == 2
        assert len(python.lines(python.ask("POST", "/query", {}))) == 4
    finally:
        server.admin.tables.delete("share1", "default", name)


def test_names_can_contain_unicode_and_percent_signs(server: Server) -> None:
    """`requests` percent-encodes both; what arrives is decoded once."""
    for name, sent in {"\u6771\u4eac": "%E6%9D%B1%E4%BA%AC", "100%25": "100%2525", "t\u2028x": "t%E2%80%A8x"}.items():
        server.admin.tables.create("share1", "default", name, f"s3://{server.shelf.bucket}/table1")
        try:
            assert Python(Table(server.alice, "share1", "default", sent)).ask("GET", "/version").version == 2
            listing = server.alice.get("/shares/share1/all-tables")
            assert name in {item["name"] for item in listing.json["items"]}
            assert len(listing.body.decode().splitlines()) == 1
        finally:
            server.admin.tables.delete("share1", "default", name)


def test_all_text_is_sent_as_ascii(server: Server) -> None:
    """Line separators that JSON allows would split a line for this client."""
    odd = "\u2028\u2029\u0085\x0b\x0c\x1c\x1d\x1e\u00e9\U0001f600"
    log = server.shelf.log("odd_texts", server.shelf.logs["partition_values"].schema, partitions=("c2",), timed=False)
    log.description = odd
    added = log.add([{"c1": 1}], c2="x")
    added["add"]["partitionValues"]["c2"] = odd
    added["add"]["stats"] = json.dumps({"numRecords": 1, "minValues": {"c1": odd}}, ensure_ascii=False)
    log.create(added)
    server.admin.tables.create("share1", "default", "odd_texts", log.location)
    try:
        for capabilities in (None, DELTA):
            python = Python(Table(server.alice, "share1", "default", "odd_texts"))
            lines = python.lines(python.ask("POST", "/query", {}, capabilities))
            file, metadata = lines[2]["file"], lines[1]["metaData"]
            action = file.get("deltaSingleAction", {}).get("add", file)
            assert action["partitionValues"] == {"c2": odd}
            assert action.get("stats") == (added["add"]["stats"] if capabilities else None)
            assert metadata.get("deltaMetadata", metadata)["description"] == odd
    finally:
        server.admin.tables.delete("share1", "default", "odd_texts")


def test_errors_are_sent_as_json(table: Callable[[str], Table]) -> None:
    reply = Python(table("table2")).ask("POST", "/query", {"version": 1})
    reply.refused(400, "INVALID_PARAMETER_VALUE", "history sharing is not enabled")


@pytest.mark.parametrize(
    ("method", "call", "body"), [("POST", "/query", {}), ("GET", "/changes?startingVersion=1", None)]
)
def test_a_client_without_delta_format_is_told_which_release_has_it(
    table: Callable[[str], Table], method: str, call: str, body: Any
) -> None:
    shared = table("deletion_vector_kinds")
    old = Python(shared, "Delta-Sharing-Python/1.0.5 pandas/2.2.3 PyArrow/17.0.0 Python/3.11.9").ask(method, call, body)
    old.refused(
        400, "UNSUPPORTED_OPERATION", "deletionVectors", "Upgrade delta-sharing to 1.1 or later (change feeds: 1.3)."
    )
    assert "use_delta_format" not in old.json["message"]
    newest = Python(shared).ask(method, call, body)
    newest.refused(400, "UNSUPPORTED_OPERATION", "Python: use_delta_format=True for changes")
