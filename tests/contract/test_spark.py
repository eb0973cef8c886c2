"""The requests of the Spark connector 4.2 (client 1.3.10), as they were observed, and what it needs back.

Spark itself checks: only 200; `Delta-Table-Version` on every answer; a format among those asked for; equal schemas of
/metadata and /query; 206 to ranged reads; `deletionVectorFileId`; every change with version and timestamp.
"""

import json
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from contract.recipient import CAPABILITIES, Recipient, Reply, Table, data_url, download
from contract.server import Server
from contract.tables import VERSION_1, iso

RF = (
    "readerfeatures=deletionVectors,columnMapping,timestampNtz,typeWidening-preview,typeWidening,variantType-preview,"
    "variantType,variantShredding-preview,variantShredding"
)
AGENT = "Delta-Sharing-Spark/1.3.10 Spark/4.1.1 QueryId-0a1b2c3d  Hadoop/3.4.2 Linux/6.1 Java/17.0.9 Scala/2.13.16"
STREAM_AGENT = AGENT.replace("Spark/1", "SparkStructuredStreaming/1")
LATEST = {"predicateHints": [], "includeRefreshToken": True}


class Spark:
    """The connector's REST client on one table."""

    def __init__(self, table: Table, capabilities: str, agent: str = AGENT) -> None:
        self.table = table
        self.capabilities = capabilities
        self.agent = agent

    def ask(self, method: str, call: str, body: Mapping[str, Any] | None = None) -> Reply:
        """Send a request with the connector's headers and check what it checks of every answer."""
        headers = {
            "user-agent": self.agent,
            "accept-encoding": "gzip,deflate",
            "connection": "Keep-Alive",
            CAPABILITIES: self.capabilities,
        }
        content = None
        if body is not None:
            content = json.dumps(body, separators=(",", ":")).encode()
            headers["content-type"] = "application/json; charset=UTF-8"
        reply = self.table.recipient.ask(method, self.table.path + call, content, **headers)
        if reply.status == 200:
            assert reply.version >= 0
            if call != "/version" and not call.startswith("/version?"):
                answered = reply.headers[CAPABILITIES].split(";")[0].removeprefix("responseformat=")
                formats = self.capabilities.split(";")[0].removeprefix("responseformat=").split(",")
                assert answered in formats
        return reply

    def metadata(self, parameters: str = "") -> Reply:
        reply = self.ask("GET", f"/metadata{parameters}")
        if reply.status == 200:
            assert reply.kinds == ["protocol", "metaData"]
        return reply

    def query(self, body: Mapping[str, Any]) -> Reply:
        return self.ask("POST", "/query", body)

    def result(self, body: Mapping[str, Any]) -> Reply:
        return self.ask("POST", f"/queries/{body['queryId']}", body)

    def changes(self, parameters: str) -> Reply:
        return self.ask("GET", f"/changes{parameters}")

    def version(self, parameters: str = "") -> int:
        reply = self.ask("GET", f"/version{parameters}")
        assert reply.body == b""
        return reply.version


def schema_of(reply: Reply) -> str:
    """Return the schema's text, which Spark compares between answers."""
    metadata = reply.only("metaData")[0]
    text = metadata.get("deltaMetadata", metadata)["schemaString"]
    assert isinstance(text, str)
    return text


def read_like_spark(line: Mapping[str, Any]) -> None:
    """Read a data file as the connector does: the footer's length, the footer, a column chunk; all by range."""
    url = data_url(dict(line))
    size = line.get("size") or next(iter(line["deltaSingleAction"].values()))["size"]
    tail = download(url, (size - 8, size - 1))
    assert (tail.status, tail.body[4:]) == (206, b"PAR1")
    assert tail.headers["content-range"] == f"bytes {size - 8}-{size - 1}/{size}"
    footer = int.from_bytes(tail.body[:4], "little")
    assert download(url, (size - 8 - footer, size - 9)).status == 206
    assert download(url, (0, 3)).body == b"PAR1"


def ends_with_refresh(reply: Reply) -> None:
    assert reply.kinds[-1] == "endStreamAction"
    assert set(reply.end) == {"refreshToken", "minUrlExpirationTimestamp"}


AUTO: Mapping[str, str] = {
    "table1": "parquet",
    "table3": "parquet",
    "cdf_table_cdf_enabled": "parquet",
    "partition_values": "parquet",
    "table_with_cm_name": "delta",
    "table_with_cm_id": "delta",
    "deletion_vectors_with_dvs_dv_property_on": "delta",
    "dv_and_cm_table": "delta",
    "deletion_vector_kinds": "delta",
}


@pytest.mark.parametrize(("name", "answered"), AUTO.items(), ids=AUTO)
def test_loading_without_a_format_works(table: Callable[[str], Table], name: str, answered: str) -> None:
    first = Spark(table(name), f"responseformat=parquet,delta;{RF}").metadata()
    assert first.headers[CAPABILITIES] == f"responseformat={answered}"
    chosen = "responseformat=parquet" if answered == "parquet" else f"responseformat=delta;{RF}"
    reply = Spark(table(name), chosen).query(LATEST)
    assert reply.headers[CAPABILITIES] == f"responseformat={answered}"
    assert reply.version == first.version
    assert schema_of(reply) == schema_of(first)
    assert set(reply.kinds) == {"protocol", "metaData", "file", "endStreamAction"}
    ends_with_refresh(reply)
    for line in reply.only("file"):
        read_like_spark(line)
    for answer in (first, reply):
        metadata = answer.only("metaData")[0]
        assert metadata["numFiles"] == len(reply.only("file"))
        assert metadata["size"] == sum(
            line.get("size") or line["deltaSingleAction"]["add"]["size"] for line in reply.only("file")
        )


@pytest.mark.parametrize("answered", ["parquet", "delta"])
def test_loading_with_a_format_works(table: Callable[[str], Table], answered: str) -> None:
    spark = Spark(table("table1"), f"responseformat={answered}" + (f";{RF}" if answered == "delta" else ""))
    metadata, reply = spark.metadata(), spark.query(LATEST)
    assert {answer.headers[CAPABILITIES] for answer in (metadata, reply)} == {f"responseformat={answered}"}
    assert schema_of(metadata) == schema_of(reply)
    ends_with_refresh(reply)
    refreshed = spark.query({**LATEST, "refreshToken": reply.end["refreshToken"]})
    assert [line["id"] for line in refreshed.only("file")] == [line["id"] for line in reply.only("file")]


def test_a_deletion_vector_is_read_with_a_range_request(table: Callable[[str], Table]) -> None:
    spark = Spark(table("deletion_vector_kinds"), f"responseformat=delta;{RF}")
    lines = spark.query(LATEST).only("file")
    vectors = [(line, line["deltaSingleAction"]["add"]["deletionVector"]) for line in lines]
    assert sorted(vector["storageType"] for _, vector in vectors) == ["i", "p", "p"]
    for line, vector in vectors:
        if vector["storageType"] == "p":
            assert line["deletionVectorFileId"] != line["id"]
            reply = download(vector["pathOrInlineDv"], (vector["offset"], vector["offset"] + vector["sizeInBytes"] + 7))
            assert (reply.status, len(reply.body)) == (206, vector["sizeInBytes"] + 8)
            assert int.from_bytes(reply.body[:4], "big") == vector["sizeInBytes"]


def test_a_filter_reduces_files(table: Callable[[str], Table]) -> None:
    def column(name: str, kind: str) -> dict[str, Any]:
        return {"op": "column", "name": name, "valueType": kind}

    hint = {
        "op": "and",
        "children": [
            {"op": "not", "children": [{"op": "isNull", "children": [column("age", "int")]}]},
            {
                "op": "or",
                "children": [
                    {
                        "op": "equal",
                        "children": [
                            column("age", "int"),
                            {"op": "literal", "value": value, "valueType": "int"},
                        ],
                    }
                    for value in ("1", "17")
                ],
            },
        ],
    }
    for capabilities in ("responseformat=parquet", f"responseformat=delta;{RF}"):
        spark = Spark(table("cdf_table_with_partition"), capabilities)
        reply = spark.query({**LATEST, "jsonPredicateHints": json.dumps(hint)})
        assert len(reply.only("file")) == 1
        ends_with_refresh(reply)


def test_a_limit_reduces_files(table: Callable[[str], Table]) -> None:
    reply = Spark(table("table3"), "responseformat=parquet").query({**LATEST, "limitHint": 1})
    assert len(reply.only("file")) == 1


@pytest.mark.parametrize(
    "capabilities", ["responseformat=parquet", f"responseformat=delta;{RF}"], ids=["parquet", "delta"]
)
@pytest.mark.parametrize(
    ("parameters", "body"),
    [
        ("?version=1", {"version": 1}),
        (f"?timestamp={iso(VERSION_1).replace(':', '%3A')}", {"timestamp": iso(VERSION_1)}),
    ],
    ids=["versionAsOf", "timestampAsOf"],
)
def test_earlier_versions_can_be_read(
    table: Callable[[str], Table], capabilities: str, parameters: str, body: Mapping[str, Any]
) -> None:
    spark = Spark(table("cdf_table_cdf_enabled"), capabilities)
    metadata = spark.metadata(parameters)
    reply = spark.query({"predicateHints": [], **body, "includeRefreshToken": False})
    assert (metadata.version, reply.version) == (1, 1)
    assert schema_of(metadata) == schema_of(reply)
    assert reply.kinds == ["protocol", "metaData", "file", "file", "file"]
    assert {(line["version"], line["timestamp"]) for line in reply.only("file")} == {(1, VERSION_1)}
    for line in reply.only("file"):
        read_like_spark(line)


def test_a_change_feed_can_be_read_in_parquet_format(table: Callable[[str], Table]) -> None:
    spark = Spark(table("cdf_table_cdf_enabled"), "responseformat=parquet")
    metadata = spark.metadata()
    reply = spark.changes("?startingVersion=0&readChangeFeed=true&endingVersion=3")
    assert reply.version == 0
    assert reply.kinds == ["protocol", "metaData", "add", "add", "add", "cdf", "cdf"]
    assert schema_of(metadata) == schema_of(reply)
    for line in reply.only("add", "cdf"):
        assert {"version", "timestamp"} <= set(line)
        read_like_spark(line)


@pytest.mark.parametrize("end", ["", "&endingVersion=3"], ids=["open", "closed"])
def test_a_change_feed_can_be_read_in_delta_format(table: Callable[[str], Table], end: str) -> None:
    """The head describes the first version, and every change names its version and time."""
    name = "deletion_vector_kinds" if not end else "cdf_table_cdf_enabled"
    spark = Spark(table(name), f"responseformat=delta;{RF}")
    reply = spark.changes(f"?includeHistoricalMetadata=true&startingVersion=0&readChangeFeed=true{end}")
    assert reply.version == 0
    assert reply.headers[CAPABILITIES] == "responseformat=delta"
    assert reply.only("metaData")[0]["version"] == 0
    files = reply.only("file")
    assert {next(iter(line["deltaSingleAction"])) for line in files} == {"add", "cdc"}
    for line in files:
        assert {"version", "timestamp", "id"} <= set(line)
        read_like_spark(line)


@pytest.mark.parametrize(
    "name", ["deletion_vector_kinds", "deletion_vectors_with_dvs_dv_property_on", "table_with_cm_name"]
)
def test_parquet_format_is_refused_where_it_returns_wrong_rows(table: Callable[[str], Table], name: str) -> None:
    """Streams, and change feeds without a format, ask for parquet outright and would return deleted rows."""
    spark = Spark(table(name), "responseformat=parquet", STREAM_AGENT)
    replies = [spark.metadata(), spark.query(LATEST)]
    if name == "deletion_vector_kinds":
        replies += [
            spark.changes("?startingVersion=0&readChangeFeed=true"),
            spark.query({"predicateHints": [], "startingVersion": 1, "endingVersion": 1}),
        ]
    for reply in replies:
        reply.refused(400, "UNSUPPORTED_OPERATION", "responseFormat=delta")


@pytest.mark.parametrize(
    "capabilities", ["responseformat=parquet", f"responseformat=delta;{RF}"], ids=["parquet", "delta"]
)
def test_a_stream_can_start_with_a_snapshot(table: Callable[[str], Table], capabilities: str) -> None:
    """Two metadata calls, the version, its snapshot, and then windows of versions."""
    spark = Spark(table("streaming_null_to_notnull"), capabilities, STREAM_AGENT)
    first, second = spark.metadata(), spark.metadata()
    assert first.body == second.body
    latest = spark.version()
    snapshot = spark.query({"predicateHints": [], "version": latest, "includeRefreshToken": False})
    assert snapshot.version == latest
    assert {line["version"] for line in snapshot.only("file")} == {latest}
    ids = {answer.only("metaData")[0].get("id") for answer in (first, snapshot)}
    assert len(ids) == 1
    for version in range(1, latest + 1):
        window = spark.query({"predicateHints": [], "startingVersion": version, "endingVersion": version})
        assert window.version == version
        changes = window.only("add", "remove", "file")
        assert {line["version"] for line in changes} <= {version}
        for line in changes:
            assert "timestamp" in line
            read_like_spark(line)


def test_a_stream_can_start_at_a_version_or_a_time(table: Callable[[str], Table]) -> None:
    spark = Spark(table("streaming_table_with_optimize"), "responseformat=parquet", STREAM_AGENT)
    body = {"predicateHints": [], "startingVersion": 1, "endingVersion": 6}
    reply = spark.query(body)
    assert [line["version"] for line in reply.only("add", "remove")] == [1, 2, 3, 5, 5, 6, 6]
    times = Spark(table("cdf_table_cdf_enabled"), "responseformat=parquet", STREAM_AGENT)
    assert times.version(f"?startingTimestamp={iso(VERSION_1 + 1).replace(':', '%3A')}") == 2


def test_a_stream_can_read_changes(table: Callable[[str], Table]) -> None:
    spark = Spark(table("streaming_notnull_to_null"), "responseformat=parquet", STREAM_AGENT)
    assert spark.metadata().body == spark.metadata().body
    latest = spark.version()
    parameters = f"?startingVersion=0&endingVersion={latest}&includeHistoricalMetadata=true"
    assert spark.changes(parameters).kinds == ["protocol", "metaData", "add", "metaData", "add"]


def test_a_submitted_query_can_be_read_in_pages(table: Callable[[str], Table]) -> None:
    """Spark's connector polls by id, reads a response without a status as the result, and requests pages by id."""
    spark = Spark(table("partition_values"), "responseformat=parquet;asyncquery=true")
    body = {"predicateHints": [], "includeRefreshToken": True, "maxFiles": 2, "idempotency_key": str(uuid.uuid4())}
    pending = spark.query(body)
    assert pending.kinds == ["queryStatus"]
    query_id = pending.only("queryStatus")[0]["queryId"]
    assert query_id.replace("-", "").replace("_", "").isalnum()
    replies = [spark.result({"queryId": query_id, "maxFiles": 2})]
    while token := replies[-1].end.get("nextPageToken"):
        replies.append(spark.result({"queryId": query_id, "maxFiles": 2, "pageToken": token}))
    assert {reply.headers[CAPABILITIES] for reply in (pending, *replies)} == {spark.capabilities}
    assert len({tuple(page.body.split(b"\n")[:2]) for page in replies}) == 1
    assert {page.version for page in replies} == {pending.version}
    ids = [line["id"] for page in replies for line in page.only("file")]
    assert len(ids) == len(set(ids)) == 9
    assert [len(page.only("file")) for page in replies] == [2, 2, 2, 2, 1]
    repeated = spark.query(
        {**body, "idempotency_key": str(uuid.uuid4()), "refreshToken": replies[0].end["refreshToken"]}
    ).only("queryStatus")
    refreshed = spark.result({"queryId": repeated[0]["queryId"]})
    assert [line["id"] for line in refreshed.only("file")] == ids[:2]


def test_the_status_of_a_query_that_cannot_be_answered_is_an_error(table: Callable[[str], Table]) -> None:
    """Whatever else a status says, it is polled again for ten minutes."""
    spark = Spark(table("table1"), "responseformat=parquet;asyncquery=true")
    spark.result({"queryId": "x"}).refused(404, "RESOURCE_DOES_NOT_EXIST")


def test_a_stream_works_with_async_queries(table: Callable[[str], Table]) -> None:
    """Ranges carry no key, and without pages their lines are read from the answer itself."""
    spark = Spark(table("streaming_table_with_optimize"), "responseformat=parquet;asyncquery=true", STREAM_AGENT)
    window = spark.query({"predicateHints": [], "startingVersion": 1, "endingVersion": 6})
    assert [line["version"] for line in window.only("add", "remove")] == [1, 2, 3, 5, 5, 6, 6]
    assert window.headers[CAPABILITIES] == "responseformat=parquet"


def test_async_without_an_idempotency_key_is_refused(table: Callable[[str], Table]) -> None:
    spark = Spark(table("table1"), "responseformat=parquet;asyncquery=true")
    refusal = "idempotency_key is required for async query."
    spark.query(LATEST).refused(400, "INVALID_PARAMETER_VALUE", refusal)
    assert spark.query({**LATEST, "idempotencyKey": "x"}).status == 200


def test_pages_of_changes_work_with_the_end_stream_action(table: Callable[[str], Table]) -> None:
    """The token is appended un-encoded, so it must be safe in a query string."""
    spark = Spark(table("cdf_table_cdf_enabled"), "responseformat=parquet;asyncquery=true;includeendstreamaction=true")
    parameters = "?startingVersion=0&endingVersion=3&readChangeFeed=true&maxFiles=2"
    replies = [spark.changes(parameters)]
    while token := replies[-1].end.get("nextPageToken"):
        assert token.replace("-", "").replace("_", "").isalnum()
        replies.append(spark.changes(f"{parameters}&pageToken={token}"))
    assert [len(page.only("add", "cdf")) for page in replies] == [2, 2, 1]
    for page in replies:
        assert page.headers[CAPABILITIES] == "responseformat=parquet;includeendstreamaction=true"


@pytest.mark.parametrize(
    "capabilities", ["responseformat=parquet", f"responseformat=delta;{RF}"], ids=["parquet", "delta"]
)
def test_a_query_works_with_the_end_stream_action(table: Callable[[str], Table], capabilities: str) -> None:
    spark = Spark(table("table1"), f"{capabilities};includeendstreamaction=true")
    answered = capabilities.split(";", maxsplit=1)[0]
    reply = spark.query({"predicateHints": [], "includeRefreshToken": False})
    assert reply.headers[CAPABILITIES] == f"{answered};includeendstreamaction=true"
    assert set(reply.end) == {"minUrlExpirationTimestamp"}


def test_names_with_javas_encoding_are_accepted(server: Server) -> None:
    """URLEncoder writes a space as `+`, which no name has; everything else is percent-encoded once."""
    name = "tab-\u00fc(1)+x"
    server.admin.tables.create("share1", "default", name, f"s3://{server.shelf.bucket}/table1")
    try:
        encoded = "tab-%C3%BC%281%29%2Bx"
        table = Table(server.alice, "share1", "default", encoded)
        assert Spark(table, "responseformat=parquet").metadata().version == 2
        assert Spark(table, "responseformat=parquet").query(LATEST).status == 200
    finally:
        server.admin.tables.delete("share1", "default", name)


def test_listings_work_with_the_connectors_headers(alice: Recipient) -> None:
    headers = {"user_agent": AGENT, "accept_encoding": "gzip,deflate", CAPABILITIES: "responseformat=parquet"}
    for path in ("/shares", "/shares/share1/schemas", "/shares/share8/all-tables", "/shares/share1"):
        assert alice.get(path, **headers).json == alice.get(path).json
