"""Read Data from a Table, snapshots: which files, what each line says, and the bytes behind the URLs."""

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pytest
from contract.logs import Action
from contract.recipient import CAPABILITIES, Line, Table, data_url, download
from contract.server import Server
from contract.tables import NASTY, VERSION_1, iso

HINTS = {"predicateHints": ["date = CAST('2021-04-28' AS DATE)"]}
READS_ALL = "responseformat=delta;readerfeatures=deletionvectors,columnmapping,timestampntz"
BAD = (400, "INVALID_PARAMETER_VALUE")


def file_id(path: str, scheme: str) -> str:
    """PROTOCOL.md leaves ids to the server; these are the reference's, so that recipients' caches survive a move."""
    return (hashlib.md5 if scheme == "parquet" else hashlib.sha256)(path.encode()).hexdigest()


def logged(server: Server, name: str) -> list[Action]:
    """Return the live adds of a table that `deltalake` wrote, in its own words."""
    adds: list[Action] = pa.table(server.shelf.written[name].get_add_actions()).to_pylist()
    assert adds
    return adds


@pytest.mark.parametrize("response_format", ["parquet", "delta", "parquet,delta", "delta,parquet"])
@pytest.mark.parametrize("ends", [True, False], ids=["end stream", "no end stream"])
def test_formats_and_the_end_of_the_stream_are_negotiated(
    table: Callable[[str], Table], response_format: str, *, ends: bool
) -> None:
    capabilities = f"responseformat={response_format}" + (";includeendstreamaction=true" if ends else "")
    reply = table("table1").with_capabilities(capabilities).query(HINTS)
    answered = "delta" if response_format == "delta" else "parquet"
    assert reply.version == 2
    assert reply.headers[CAPABILITIES] == f"responseformat={answered}" + (
        ";includeendstreamaction=true" if ends else ""
    )
    assert reply.kinds == ["protocol", "metaData", "file", "file"] + ["endStreamAction"] * ends
    if ends:
        expiry = {line["expirationTimestamp"] for line in reply.only("file")}
        assert reply.end == {"minUrlExpirationTimestamp": min(expiry)}


def test_end_stream_capability_with_other_values_is_ignored(table: Callable[[str], Table]) -> None:
    """The reference answers 500 for a value that is neither true nor false."""
    for value in ("false", "yes", ""):
        reply = table("table1").with_capabilities(f"includeendstreamaction={value}").query()
        assert reply.headers[CAPABILITIES] == "responseformat=parquet"
        assert reply.kinds[-1] == "file"


def test_file_lines_have_parquet_format(table: Callable[[str], Table], server: Server) -> None:
    files = {line["id"]: line for line in table("table2").query({**HINTS, "limitHint": 123}).only("file")}
    adds = logged(server, "table2")
    assert set(files) == {file_id(add["path"], "parquet") for add in adds}
    for add in adds:
        line = files[file_id(add["path"], "parquet")]
        assert line["partitionValues"] == {"date": "2021-04-28"}
        assert line["size"] == add["size_bytes"]
        assert json.loads(line["stats"])["numRecords"] == add["num_records"]
        assert set(line) == {"url", "id", "partitionValues", "size", "stats", "expirationTimestamp"}


def test_file_lines_have_delta_format(table: Callable[[str], Table], server: Server) -> None:
    files = {
        line["id"]: line for line in table("table2").with_capabilities("responseformat=delta").query().only("file")
    }
    adds = logged(server, "table2")
    assert set(files) == {file_id(add["path"], "delta") for add in adds}
    for add in adds:
        line = files[file_id(add["path"], "delta")]
        assert set(line) == {"id", "expirationTimestamp", "deltaSingleAction"}
        action = line["deltaSingleAction"]["add"]
        assert set(action) == {"path", "partitionValues", "size", "modificationTime", "dataChange", "stats"}
        assert action["modificationTime"] == add["modification_time"]
        assert (action["size"], action["dataChange"]) == (add["size_bytes"], True)


@pytest.mark.parametrize("capabilities", [None, "responseformat=delta"], ids=["parquet", "delta"])
def test_urls_return_the_file_for_most_of_an_hour(table: Callable[[str], Table], capabilities: str | None) -> None:
    for line in table("table1").with_capabilities(capabilities).query().only("file"):
        url = data_url(line)
        size = line.get("size") or line["deltaSingleAction"]["add"]["size"]
        content = download(url)
        assert (content.status, len(content.body)) == (200, size)
        assert (content.body[:4], content.body[-4:]) == (b"PAR1", b"PAR1")
        ranged = download(url, (size - 8, size - 1))
        assert (ranged.status, ranged.body) == (206, content.body[-8:])
        # An hour less what the session has been used for: it is renewed after a quarter of its life.
        assert 44 * 60 < line["expirationTimestamp"] / 1000 - time.time() <= 60 * 60
        # Signed in the recipient's own session, so the URL carries its token.
        assert {"X-Amz-Security-Token", "X-Amz-Signature"} <= set(parse_qs(urlsplit(url).query))


@pytest.mark.parametrize("capabilities", [None, "responseformat=delta"], ids=["parquet", "delta"])
def test_file_id_schemes_are_supported(table: Callable[[str], Table], capabilities: str | None) -> None:
    ids: dict[str | None, list[str]] = {}
    for scheme in ("parquet", "delta", None):
        headers = {} if scheme is None else {"fileidhash": scheme.upper()}
        reply = table("table1").with_capabilities(capabilities, **headers).query()
        assert reply.headers.get("fileidhash") == scheme
        ids[scheme] = [line["id"] for line in reply.only("file")]
    assert [len(text) for text in ids["parquet"]] == [32, 32]
    assert [len(text) for text in ids["delta"]] == [64, 64]
    assert ids[None] == ids["delta" if capabilities else "parquet"]


@pytest.mark.parametrize("scheme", ["sha512", "SHA3-256", "none", "blake2b", "md5", "sha256", "", "  ", "\t", "a\t"])
def test_unknown_file_id_schemes_are_refused(table: Callable[[str], Table], scheme: str) -> None:
    table("table1").with_capabilities(fileidhash=scheme).query().refused(
        *BAD, f"Unsupported fileidhash: '{scheme.strip()}"
    )


def test_a_limit_includes_the_file_that_reaches_it(table: Callable[[str], Table]) -> None:
    complete = table("table3").query().only("file")
    assert len(complete) == 3
    for limit, count in {0: 0, 1: 1, 2: 2, 3: 3, 4: 3, "2": 2}.items():
        files = table("table3").query(limitHint=limit).only("file")
        assert [line["id"] for line in files] == [line["id"] for line in complete[:count]]


def test_a_limit_counts_each_partition_in_delta_format(table: Callable[[str], Table]) -> None:
    """Spark sends its limit with a filter on partitions that it may not have sent, and drops the others' files."""
    shared_table = table("partition_values")
    for limit in (1, 2):
        complete = shared_table.with_capabilities("responseformat=delta").query().only("file")
        sent = shared_table.with_capabilities("responseformat=delta").query(limitHint=limit).only("file")
        values = [line["deltaSingleAction"]["add"]["partitionValues"]["c2"] for line in sent]
        assert set(values) == {line["deltaSingleAction"]["add"]["partitionValues"]["c2"] for line in complete}
        ids = [line["id"] for line in sent]
        assert ids == [line["id"] for line in complete if line["id"] in ids]
        assert len(shared_table.query(limitHint=limit).only("file")) == limit


@pytest.mark.parametrize("mode", ["name", "id"])
def test_column_mapping_returns_physical_names(table: Callable[[str], Table], server: Server, mode: str) -> None:
    log = server.shelf.logs[f"table_with_cm_{mode}"]
    adds = {file_id(action["add"]["path"], "delta"): action["add"] for action in log.commits[1]}
    lines = table(f"table_with_cm_{mode}").with_capabilities(READS_ALL).query().only("file")
    assert {line["id"] for line in lines} == set(adds)
    for line in lines:
        add, sent = adds[line["id"]], line["deltaSingleAction"]["add"]
        assert sent["partitionValues"] == add["partitionValues"]
        assert list(sent["partitionValues"]) == ["col-0f1d2c3b-name"]
        assert sent["stats"] == add["stats"]
        assert (sent["dataChange"], sent["modificationTime"]) == (True, add["modificationTime"])
        assert not {"version", "timestamp"} & set(line)
    table(f"table_with_cm_{mode}").query().refused(400, "UNSUPPORTED_OPERATION", "columnMapping")


@pytest.mark.parametrize("body", [{}, {"limitHint": 3}], ids=["all", "limit 3"])
def test_deletion_vectors_are_signed_and_counted(
    table: Callable[[str], Table], server: Server, body: Mapping[str, Any]
) -> None:
    name = "deletion_vectors_with_dvs_dv_property_on"
    log = server.shelf.logs[name]
    marked = log.commits[2][1]["add"]
    lines = table(name).with_capabilities(READS_ALL).query(body).only("file")
    assert lines[0]["id"] == file_id(marked["path"], "delta")
    # The first file has two rows left, so three rows need the second one too.
    assert len(lines) == 2
    first, second = (line["deltaSingleAction"]["add"] for line in lines)
    vector = first["deletionVector"]
    assert {key: vector[key] for key in ("storageType", "offset", "sizeInBytes", "cardinality")} == {
        "storageType": "p",
        "offset": 1,
        "sizeInBytes": 38,
        "cardinality": 3,
    }
    (key,) = [key for key in log.contents if key.endswith(".bin")]
    assert download(vector["pathOrInlineDv"], (1, 38 + 8)).body == log.contents[key][1:]
    assert len(lines[0]["deletionVectorFileId"]) == 64
    assert lines[0]["deletionVectorFileId"] not in {line["id"] for line in lines}
    assert json.loads(first["stats"])["tightBounds"] is False
    assert "deletionVector" not in second
    assert "deletionVectorFileId" not in lines[1]
    table(name).query(body).refused(400, "UNSUPPORTED_OPERATION", "deletionVectors", "responseformat=delta")


def test_every_kind_of_deletion_vector_is_returned(table: Callable[[str], Table], server: Server) -> None:
    """Inline vectors and absolute paths are a 500 and a refusal in the reference."""
    log = server.shelf.logs["deletion_vector_kinds"]
    logged_vectors = {
        file_id(action["add"]["path"], "delta"): action["add"]["deletionVector"]
        for commit in log.commits[2:]
        for action in commit
        if "add" in action
    }
    lines = table("deletion_vector_kinds").with_capabilities(READS_ALL).query().only("file")
    assert {line["id"] for line in lines} == set(logged_vectors)
    for line in lines:
        vector, sent = logged_vectors[line["id"]], line["deltaSingleAction"]["add"]["deletionVector"]
        if vector["storageType"] == "i":
            assert sent == vector
            assert "deletionVectorFileId" not in line
        else:
            assert sent["storageType"] == "p"
            end = vector["offset"] + vector["sizeInBytes"] + 7
            assert download(sent["pathOrInlineDv"], (vector["offset"], end)).status == 206


@pytest.mark.parametrize(
    "body",
    [
        {"version": 1},
        {"version": "1"},
        {"timestamp": iso(VERSION_1), "endingVersion": 2},
        {"timestamp": iso(VERSION_1 + 19_999)},
        {"timestamp": "2022-04-30T00:50:35+02:00"},
    ],
    ids=str,
)
def test_earlier_versions_can_be_read(table: Callable[[str], Table], body: Mapping[str, Any]) -> None:
    reply = table("cdf_table_cdf_enabled").query(body)
    assert reply.version == 1
    assert reply.kinds == ["protocol", "metaData", "file", "file", "file"]
    assert "version" not in reply.only("metaData")[0]
    # PROTOCOL.md, "File": both for a query with version or timestamp; the reference leaves the timestamp out.
    assert {(line["version"], line["timestamp"]) for line in reply.only("file")} == {(1, VERSION_1)}


def test_the_latest_snapshot_has_neither_version_nor_timestamp(table: Callable[[str], Table]) -> None:
    for line in table("cdf_table_cdf_enabled").query().only("file"):
        assert not {"version", "timestamp"} & set(line)


def test_every_kind_of_partition_value_is_returned(table: Callable[[str], Table], server: Server) -> None:
    log = server.shelf.logs["partition_values"]
    contents = {json.dumps(add["add"]["partitionValues"]): log.content(add) for add in log.commits[1]}
    for capabilities in (None, "responseformat=delta"):
        lines = table("partition_values").with_capabilities(capabilities).query().only("file")
        actions = [line.get("deltaSingleAction", {}).get("add", line) for line in lines]
        assert {action["partitionValues"]["c2"] for action in actions} == set(NASTY)
        for line, action in zip(lines, actions, strict=True):
            assert download(data_url(line)).body == contents[json.dumps(action["partitionValues"])]


def test_metadata_lines_equal_the_metadata_endpoint(table: Callable[[str], Table]) -> None:
    """Spark compares the schemas of both answers as texts."""
    for name in ("table1", "cdf_table_cdf_enabled", "dv_and_cm_table"):
        shared_table = table(name).with_capabilities(READS_ALL)
        assert shared_table.query().body.splitlines()[:2] == shared_table.metadata().body.splitlines()


def test_a_table_shared_by_directory_has_no_urls(table: Callable[[str], Table]) -> None:
    table("directory_only").query().refused(400, "UNSUPPORTED_OPERATION", "temporary table credentials")


@pytest.mark.parametrize("accepted", ["gzip", "gzip, deflate", "gzip,deflate", "deflate, GZIP;q=0.5"])
def test_responses_are_compressed_for_clients_that_accept_it(table: Callable[[str], Table], accepted: str) -> None:
    uncompressed = table("table1").query()
    packed = table("table1").with_capabilities(accept_encoding=accepted).query()
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in uncompressed.headers
    assert packed.lines[:2] == uncompressed.lines[:2]
    assert [line["id"] for line in packed.only("file")] == [line["id"] for line in uncompressed.only("file")]


@pytest.mark.parametrize("refused", ["identity", "gzip;q=0", "br", ""])
def test_responses_are_not_compressed_for_other_clients(table: Callable[[str], Table], refused: str) -> None:
    assert "content-encoding" not in table("table1").with_capabilities(accept_encoding=refused).query().headers


INVALID: Mapping[str, tuple[Any, str, str]] = {
    "nothing": (b"", "MALFORMED_REQUEST", "No content to map due to end-of-input"),
    "no JSON": (b"{", "MALFORMED_REQUEST", "JSON"),
    "an array": ([], "MALFORMED_REQUEST", "object"),
    "hints as object": (
        {"predicateHints": {}},
        "MALFORMED_REQUEST",
        "Expected an array for repeated field predicateHints of QueryTableRequest",
    ),
    "version x3": ({"version": "x3"}, "MALFORMED_REQUEST", "Not a numeric value: x3"),
    "startingVersion x3": ({"startingVersion": "x3"}, "MALFORMED_REQUEST", "Not a numeric value: x3"),
    "endingVersion x3": ({"startingVersion": 0, "endingVersion": "x3"}, "MALFORMED_REQUEST", "Not a numeric value: x3"),
    "endingVersion x3 alone": ({"endingVersion": "x3"}, "MALFORMED_REQUEST", "Not a numeric value: x3"),
    "maxFiles of 3e9": ({"maxFiles": 3_000_000_000}, "MALFORMED_REQUEST", "Not an int32 value"),
    "maxFiles 0": ({"maxFiles": 0}, "INVALID_PARAMETER_VALUE", "maxFiles must be positive"),
    "maxFiles -1": ({"maxFiles": -1}, "INVALID_PARAMETER_VALUE", "maxFiles must be positive"),
    "version -2": ({"version": -2}, "INVALID_PARAMETER_VALUE", "table version cannot be negative"),
    "startingVersion -2": ({"startingVersion": -2}, "INVALID_PARAMETER_VALUE", "startingVersion cannot be negative"),
}


@pytest.mark.parametrize(("body", "code", "text"), INVALID.values(), ids=INVALID)
@pytest.mark.parametrize("name", ["table1", "cdf_table_cdf_enabled"], ids=["no history", "history"])
def test_bad_bodies_are_refused(table: Callable[[str], Table], name: str, body: Any, code: str, text: str) -> None:
    table(name).query(body).refused(400, code, text)


@pytest.mark.parametrize(
    "chosen",
    [
        ("version", "timestamp"),
        ("version", "startingVersion"),
        ("timestamp", "startingVersion"),
        ("version", "timestamp", "startingVersion"),
    ],
    ids=" and ".join,
)
def test_version_timestamp_and_starting_version_exclude_each_other(
    table: Callable[[str], Table], chosen: tuple[str, ...]
) -> None:
    for value in ("3", "-3"):
        reply = table("table2").query(dict.fromkeys(chosen, value))
        reply.refused(*BAD, "Please only provide one of: version,timestamp,startingVersion")


@pytest.mark.parametrize(
    ("name", "body", "code", "text"),
    [
        (
            "table2",
            {"version": 1},
            "INVALID_PARAMETER_VALUE",
            "history sharing is not enabled on table: share2.default",
        ),
        ("table2", {"timestamp": "abc"}, "INVALID_PARAMETER_VALUE", "history sharing is not enabled on table: share2"),
        ("cdf_table_with_partition", {"version": "0"}, "INVALID_PARAMETER_VALUE", "table data since version 1"),
        (
            "cdf_table_with_partition",
            {"timestamp": "2022-05-03T21:56:19Z"},
            "INVALID_PARAMETER_VALUE",
            "You can only query table data since version 1",
        ),
        ("cdf_table_cdf_enabled", {"timestamp": "abc"}, "INVALID_PARAMETER_VALUE", "Invalid timestamp"),
        ("cdf_table_cdf_enabled", {"timestamp": "2022-04-29"}, "INVALID_PARAMETER_VALUE", "Invalid timestamp"),
        (
            "cdf_table_cdf_enabled",
            {"timestamp": "2000-01-01T00:00:00Z"},
            "MALFORMED_REQUEST",
            "is before the earliest available version 0",
        ),
        (
            "cdf_table_cdf_enabled",
            {"timestamp": "2000-01-01T00:00:00Z"},
            "MALFORMED_REQUEST",
            "greater than or equal to",
        ),
        (
            "cdf_table_cdf_enabled",
            {"timestamp": "9999-01-01T00:00:00Z"},
            "MALFORMED_REQUEST",
            "The provided timestamp ",
        ),
        ("cdf_table_cdf_enabled", {"version": 6}, "MALFORMED_REQUEST", "Cannot load table version 6"),
        ("unknown_reader_feature", {}, "UNSUPPORTED_OPERATION", "timeTravelledFromTheFuture"),
        ("table_with_no_metadata", {}, "RESOURCE_DOES_NOT_EXIST", "metaData"),
        ("table_data_loss_no_checkpoint", {}, "RESOURCE_DOES_NOT_EXIST", "00000000000000000001.json"),
        ("table_data_loss_no_checkpoint", {"version": 2}, "RESOURCE_DOES_NOT_EXIST", "00000000000000000001.json"),
    ],
    ids=str,
)
def test_unsupported_queries_of_a_table_are_refused(
    table: Callable[[str], Table], name: str, body: Mapping[str, Any], code: str, text: str
) -> None:
    table(name).query(body).refused(400, code, text)


@pytest.mark.parametrize("body", [{}, {"version": "2"}], ids=["latest", "version 2"])
def test_a_checkpoint_replaces_a_lost_commit(table: Callable[[str], Table], body: Mapping[str, Any]) -> None:
    reply = table("table_data_loss_with_checkpoint").query(body)
    assert reply.version == 2
    assert reply.kinds == ["protocol", "metaData", "file", "file"]


def test_a_higher_reader_version_without_features_is_accepted(table: Callable[[str], Table]) -> None:
    reply = table("table_reader_version_increased").query()
    assert reply.kinds == ["protocol", "metaData", "file", "file"]


def test_unknown_fields_and_snake_case_are_accepted(table: Callable[[str], Table]) -> None:
    reply = table("table3").query({"limit_hint": "2", "queryDeltaLog": True, "requested_columns": ["x"], "new": {}})
    assert len(reply.only("file")) == 2


def test_fields_are_matched_by_id(server: Server) -> None:
    """Ids are hashes of the path as logged, so two files never share one."""
    lines: list[Line] = server.table("partition_values").query().only("file")
    adds = server.shelf.logs["partition_values"].commits[1]
    assert {line["id"] for line in lines} == {file_id(add["add"]["path"], "parquet") for add in adds}
