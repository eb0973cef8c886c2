"""Submitted queries: one id for a submission, valid for its recipient and one version."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from contract.logs import TableLog
from contract.recipient import CAPABILITIES, Recipient, Reply, Table, data_url, download
from contract.server import Server
from contract.tables import NAMES, VERSION_1, iso
from deltaic.catalog import keys

pytestmark = pytest.mark.slow

PARQUET = "responseformat=parquet"
DELTA = "responseformat=delta;readerfeatures=deletionvectors,columnmapping"
BAD = (400, "INVALID_PARAMETER_VALUE")
MISMATCH = "Query parameter mismatch detected for the next page query"
EXPIRED = "The query is unknown or has expired: submit it again."
AGE_1 = json.dumps(
    {
        "op": "equal",
        "children": [
            {"op": "column", "name": "age", "valueType": "int"},
            {"op": "literal", "value": "1", "valueType": "int"},
        ],
    }
)


def submit(table: Table, capabilities: str = PARQUET, key: str = "k", **body: Any) -> Reply:
    return table.with_capabilities(f"{capabilities};asyncquery=true").query({**body, "idempotencyKey": key})


def submitted(table: Table, capabilities: str = PARQUET, key: str = "k", **body: Any) -> str:
    """Submit a query and return its id."""
    reply = submit(table, capabilities, key, **body)
    assert reply.kinds == ["queryStatus"]
    [status] = reply.only("queryStatus")
    assert status == {"queryId": status["queryId"], "status": "pending"}
    assert isinstance(status["queryId"], str)
    return status["queryId"]


def result(table: Table, query_id: str, **body: Any) -> Reply:
    return table.recipient.post(f"{table.path}/queries/{query_id}", body)


def ids(*replies: Reply) -> list[str]:
    return [line["id"] for reply in replies for line in reply.only("file", "add", "remove")]


def same(fetched: Reply, expected: Reply) -> None:
    """Assert that both answers say the same: head lines to the byte, files, version, format; signatures differ."""
    assert fetched.kinds == expected.kinds
    assert fetched.body.split(b"\n")[:2] == expected.body.split(b"\n")[:2]
    assert ids(fetched) == ids(expected)
    for header in ("delta-table-version", "content-type", CAPABILITIES):
        assert fetched.headers[header] == expected.headers[header]


@pytest.mark.parametrize("key", ["idempotencyKey", "idempotency_key"])
def test_a_submission_returns_one_line(table: Callable[[str], Table], key: str) -> None:
    reply = table("table1").with_capabilities("responseformat=parquet;asyncquery=true").query({key: "x"})
    assert reply.kinds == ["queryStatus"]
    [status] = reply.only("queryStatus")
    assert status == {"queryId": status["queryId"], "status": "pending"}
    assert reply.headers[CAPABILITIES] == "responseformat=parquet;asyncquery=true"
    assert reply.version == 2


def test_without_a_key_a_snapshot_is_refused(table: Callable[[str], Table]) -> None:
    shared_table = table("table1").with_capabilities("responseformat=parquet;asyncquery=true")
    for body in ({}, {"idempotencyKey": ""}, {"idempotency_key": None}):
        shared_table.query(body).refused(*BAD, "idempotency_key is required for async query.")


def test_an_idempotency_key_without_the_capability_submits_nothing(table: Callable[[str], Table]) -> None:
    for capabilities in (PARQUET, "responseformat=parquet;asyncquery=false"):
        assert table("table1").with_capabilities(capabilities).query(idempotencyKey="x").kinds[-1] == "file"


def test_the_test_of_the_reference_server_passes(table: Callable[[str], Table]) -> None:
    shared_table = table("table1").with_capabilities("responseformat=parquet;asyncquery=true")
    query_id = shared_table.query(idempotency_key="random key").only("queryStatus")[0]["queryId"]
    reply = result(shared_table, query_id, maxFiles=1)
    assert reply.kinds == ["protocol", "metaData", "file", "endStreamAction"]


SNAPSHOTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "all": ("table1", {}),
    "SQL hints": ("cdf_table_with_partition", {"predicateHints": ["birthday = '2020-02-02'"]}),
    "JSON hints": ("cdf_table_with_partition", {"jsonPredicateHints": AGE_1}),
    "limit": ("partition_values", {"limitHint": 3}),
    "version": ("cdf_table_cdf_enabled", {"version": 1}),
    "timestamp": ("cdf_table_cdf_enabled", {"timestamp": iso(VERSION_1)}),
    "refresh token": ("table3", {"includeRefreshToken": True}),
    "pages": ("partition_values", {"maxFiles": 4}),
    "odd hints": ("table1", {"predicateHints": ["\u2028 = '\U0001f600'"], "jsonPredicateHints": "\u00e9"}),
}


@pytest.mark.parametrize("capabilities", [PARQUET, DELTA], ids=["parquet", "delta"])
@pytest.mark.parametrize(("name", "body"), SNAPSHOTS.values(), ids=SNAPSHOTS)
def test_the_result_equals_the_query(
    table: Callable[[str], Table], name: str, body: Mapping[str, Any], capabilities: str
) -> None:
    shared_table = table(name).with_capabilities(capabilities)
    fetched = result(shared_table, submitted(shared_table, capabilities, **body))
    direct = shared_table.query(body)
    same(fetched, direct)
    assert len(ids(direct)) > 0
    if "endStreamAction" in direct.kinds:
        assert set(fetched.end) == set(direct.end)
    for line, expected in zip(fetched.only("file"), direct.only("file"), strict=True):
        assert set(line) == set(expected)
        assert download(data_url(line)).body == download(data_url(expected)).body


@pytest.mark.parametrize("name", ["table_with_cm_name", "table_with_cm_id", "dv_and_cm_table", "deletion_vector_kinds"])
def test_the_result_has_the_negotiated_format(table: Callable[[str], Table], name: str) -> None:
    """Whatever the later request says or does not say of formats."""
    both_formats = "responseformat=parquet,delta;readerfeatures=deletionvectors,columnmapping"
    reply = submit(table(name), both_formats)
    assert reply.headers[CAPABILITIES] == "responseformat=delta;asyncquery=true"
    query_id = reply.only("queryStatus")[0]["queryId"]
    direct = table(name).with_capabilities(both_formats).query()
    for shared_table in (
        table(name),
        table(name).with_capabilities(both_formats),
        table(name).with_capabilities(PARQUET),
    ):
        same(result(shared_table, query_id), direct)


RANGES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "open": ("cdf_table_cdf_enabled", {"startingVersion": 0}),
    "closed": ("streaming_table_with_optimize", {"startingVersion": 1, "endingVersion": 5}),
    "metadata": ("streaming_notnull_to_null", {"startingVersion": 0}),
    "protocol": ("protocol_evolution", {"startingVersion": 0, "includeHistoricalProtocol": True}),
    "pages": ("streaming_table_with_optimize", {"startingVersion": 1, "maxFiles": 2}),
}


@pytest.mark.parametrize("capabilities", [PARQUET, DELTA], ids=["parquet", "delta"])
@pytest.mark.parametrize(("name", "body"), RANGES.values(), ids=RANGES)
def test_the_result_of_a_range_equals_the_range(
    table: Callable[[str], Table], name: str, body: Mapping[str, Any], capabilities: str
) -> None:
    shared_table = table(name).with_capabilities(capabilities)
    assert submit(table(name), capabilities, **body).version == body["startingVersion"]
    fetched, direct = result(shared_table, submitted(shared_table, capabilities, **body)), shared_table.query(body)
    same(fetched, direct)
    assert len(ids(direct)) > 0


def test_a_range_without_a_key_is_returned_at_once(table: Callable[[str], Table]) -> None:
    """Spark sends the capability with every call, gives ranges no key, and reads files from their answer."""
    shared_table = table("cdf_table_cdf_enabled")
    reply = shared_table.with_capabilities("responseformat=parquet;asyncquery=true").query(startingVersion=0)
    same(reply, shared_table.with_capabilities(PARQUET).query(startingVersion=0))
    assert reply.headers[CAPABILITIES] == PARQUET


def test_a_repeated_submission_is_the_same_query(server: Server) -> None:
    shared_table = server.table("partition_values")
    body: dict[str, Any] = {"predicateHints": ["c1 = 1", "c1 = 2"], "limitHint": 5, "includeRefreshToken": True}
    first = submit(shared_table, key="again", **body)
    stored = queries(server)
    repeated = submit(shared_table, key="again", **dict(reversed(body.items())))
    spelled = submit(
        shared_table, key="again", predicate_hints=body["predicateHints"], limit_hint="5", includeRefreshToken=True
    )
    assert first.body == repeated.body == spelled.body
    assert queries(server) == stored


@pytest.mark.parametrize(
    "changed",
    [
        {"key": "other"},
        {"name": "table3"},
        {"capabilities": DELTA},
        {"capabilities": "responseformat=delta"},
        {"capabilities": "responseformat=parquet,delta"},
        {"headers": {"fileidhash": "delta"}},
        {"predicateHints": ["date = '2021-04-28'"]},
        {"jsonPredicateHints": AGE_1},
        {"limitHint": 1},
        {"maxFiles": 1},
        {"includeRefreshToken": True},
    ],
    ids=str,
)
def test_different_parameters_are_another_query(table: Callable[[str], Table], changed: Mapping[str, Any]) -> None:
    body = {key: value for key, value in changed.items() if key not in {"key", "name", "capabilities", "headers"}}
    shared_table = table(changed.get("name", "table1"))
    shared_table = shared_table.with_capabilities(**changed.get("headers", {}))
    capabilities, key = changed.get("capabilities", PARQUET), changed.get("key", "k")
    headers = {**(shared_table.recipient.headers or {}), CAPABILITIES: f"{capabilities};asyncquery=true"}
    content = {**body, "idempotencyKey": key}
    reply = Recipient(shared_table.recipient.endpoint, shared_table.recipient.token, headers).post(
        f"{shared_table.path}/query", content
    )
    assert reply.only("queryStatus")[0]["queryId"] != submitted(table("table1"))


def test_another_version_or_range_is_another_query(table: Callable[[str], Table]) -> None:
    shared_table = table("cdf_table_cdf_enabled")
    bodies: list[dict[str, Any]] = [
        {},
        {"version": 1},
        {"version": 2},
        {"timestamp": iso(VERSION_1)},
        {"startingVersion": 1},
        {"startingVersion": 1, "endingVersion": 2},
        {"startingVersion": 1, "includeHistoricalProtocol": True},
    ]
    assert len({submitted(shared_table, **body) for body in bodies}) == len(bodies)


@pytest.mark.parametrize("capabilities", [PARQUET, DELTA], ids=["parquet", "delta"])
@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("partition_values", {}),
        ("partition_values", {"limitHint": 5}),
        ("cdf_table_cdf_enabled", {"startingVersion": 0}),
    ],
    ids=["snapshot", "limit", "range"],
)
def test_pages_of_a_result_join_to_the_complete_result(
    table: Callable[[str], Table], name: str, body: Mapping[str, Any], capabilities: str
) -> None:
    shared_table = table(name).with_capabilities(capabilities)
    query_id = submitted(shared_table, capabilities, **body)
    complete = result(shared_table, query_id)
    pages = [result(shared_table, query_id, maxFiles=2)]
    while token := pages[-1].end.get("nextPageToken"):
        pages.append(result(shared_table, query_id, maxFiles=2, pageToken=token))
    assert len(pages) > 1
    assert ids(*pages) == ids(complete)
    assert all(len(page.only("file", "add", "remove")) == 2 for page in pages[:-1])
    assert len({tuple(page.body.split(b"\n")[:2]) for page in [complete, *pages]}) == 1
    assert {page.version for page in pages} == {complete.version}


def test_the_page_size_of_the_submission_is_the_default(table: Callable[[str], Table]) -> None:
    shared_table = table("partition_values")
    query_id = submitted(shared_table, maxFiles=4, includeRefreshToken=True)
    first = result(shared_table, query_id)
    second = result(shared_table, query_id, pageToken=first.end["nextPageToken"])
    third = result(shared_table, query_id, pageToken=second.end["nextPageToken"], maxFiles=9)
    assert [len(page.only("file")) for page in (first, second, third)] == [4, 4, 1]
    assert ids(first, second, third) == ids(shared_table.query())
    assert ["refreshToken" in page.end for page in (first, second, third)] == [True, False, False]


def test_a_page_token_is_valid_only_for_its_query(table: Callable[[str], Table], reseal: Callable[..., str]) -> None:
    shared_table = table("table1")
    first, second = submitted(shared_table), submitted(shared_table, key="other")
    token = result(shared_table, first, maxFiles=1).end["nextPageToken"]
    result(shared_table, second, maxFiles=1, pageToken=token).refused(*BAD, MISMATCH)
    shared_table.query(maxFiles=1, pageToken=token).refused(*BAD, MISMATCH)
    direct = shared_table.query(maxFiles=1).end["nextPageToken"]
    result(shared_table, first, maxFiles=1, pageToken=direct).refused(*BAD, MISMATCH)
    result(shared_table, first, pageToken="x").refused(*BAD, "Error decoding the page token: x.")
    expired = reseal("page", token, timedelta(seconds=-1))
    result(shared_table, first, pageToken=expired).refused(
        *BAD, "The page token has expired. Please restart the query."
    )


def test_pages_of_an_immediate_response_are_immediate(table: Callable[[str], Table]) -> None:
    shared_table = table("table1").with_capabilities(PARQUET)
    token = shared_table.query(maxFiles=1).end["nextPageToken"]
    assert submit(shared_table, maxFiles=1, pageToken=token).kinds == [
        "protocol",
        "metaData",
        "file",
        "endStreamAction",
    ]


@contextmanager
def growing(server: Server, name: str, **options: Any) -> Iterator[tuple[TableLog, Table]]:
    """Share a table of three files that the test may write to."""
    log = server.shelf.log(name, NAMES)
    log.create(*(log.add([{"name": str(number)}]) for number in range(3)))
    server.admin.tables.create("share1", "default", name, log.location, **options)
    try:
        yield log, Table(server.alice, "share1", "default", name)
    finally:
        server.admin.tables.delete("share1", "default", name)


def test_a_submitted_query_keeps_its_version_despite_new_commits(server: Server) -> None:
    with growing(server, "submitted_snapshot") as (log, shared_table):
        query_id = submitted(shared_table)
        before = shared_table.query()
        first = result(shared_table, query_id, maxFiles=2)
        log.commit(log.remove(log.commits[0][2]), log.add([{"name": "new"}]))
        log.checkpoint(1, [*log.commits[0][3:], log.commits[1][1]])
        same(result(shared_table, query_id), before)
        rest = result(shared_table, query_id, pageToken=first.end["nextPageToken"])
        assert ids(first, rest) == ids(before)
        assert submit(shared_table).version == before.version
        assert submitted(shared_table) == query_id
        assert (shared_table.query().version, result(shared_table, submitted(shared_table, key="new")).version) == (
            1,
            1,
        )
        assert ids(shared_table.query()) != ids(before)


def test_a_submitted_range_keeps_its_end_despite_new_commits(server: Server) -> None:
    with growing(server, "submitted_range", history=True) as (log, shared_table):
        query_id = submitted(shared_table, startingVersion=0)
        before = shared_table.query(startingVersion=0)
        first = result(shared_table, query_id, maxFiles=2)
        log.commit(log.add([{"name": "new"}]))
        same(result(shared_table, query_id), before)
        rest = result(shared_table, query_id, pageToken=first.end["nextPageToken"])
        assert ids(first, rest) == ids(before)
        assert len(ids(shared_table.query(startingVersion=0))) == len(ids(before)) + 1


def test_a_submitted_refresh_has_the_version_of_its_token(server: Server) -> None:
    """Spark refreshes URLs by another submission, with a new key."""
    with growing(server, "submitted_refresh") as (log, shared_table):
        first = result(shared_table, submitted(shared_table, includeRefreshToken=True))
        log.commit(log.add([{"name": "new"}]))
        token = first.end["refreshToken"]
        reply = submit(shared_table, key="refresh", includeRefreshToken=True, refreshToken=token)
        assert reply.version == first.version
        repeated = result(shared_table, reply.only("queryStatus")[0]["queryId"])
        same(repeated, first)
        assert ids(shared_table.query(refreshToken=repeated.end["refreshToken"])) == ids(first)
        assert (
            submitted(shared_table, key="refresh", includeRefreshToken=True) != reply.only("queryStatus")[0]["queryId"]
        )


def test_a_recreated_table_is_not_the_queried_table(server: Server) -> None:
    with growing(server, "submitted_anew", history=True) as (log, shared_table):
        snapshot, span = submitted(shared_table), submitted(shared_table, startingVersion=0)
        (log.commits, log.times) = [], []
        metadata = log.metadata()
        metadata["metaData"]["id"] = "another"
        log.commit(log.first_protocol(), metadata, log.add([{"name": "x"}]))
        for query_id in (snapshot, span):
            result(shared_table, query_id).refused(*BAD, "log has been rewritten since this query began")


def test_a_submitted_query_of_a_rewritten_version_is_refused(server: Server) -> None:
    with growing(server, "submitted_rewritten", history=True) as (log, shared_table):
        log.commit(log.add([{"name": "in the last commit"}]))
        snapshot, span = submitted(shared_table), submitted(shared_table, startingVersion=0)
        log.commits.pop()
        log.times.pop()
        log.commit(log.add([{"name": "in place of the last commit"}]))
        for query_id in (snapshot, span):
            result(shared_table, query_id).refused(*BAD, "log has been rewritten since this query began")


def test_a_deleted_version_is_refused_without_a_status(server: Server) -> None:
    """Spark asks again and again for what is answered with a status, `failed` included, until its time is over."""
    with growing(server, "submitted_lost") as (log, shared_table):
        query_id = submitted(shared_table)
        log.commit(log.add([{"name": "new"}]))
        log.checkpoint(1, [*log.commits[0][2:], *log.commits[1]])
        log.forget_commit(0)
        reply = result(shared_table, query_id)
        assert reply.status == 400
        assert reply.json["message"]


def unknown(reply: Reply) -> None:
    reply.refused(404, "RESOURCE_DOES_NOT_EXIST")
    assert reply.json["message"] == EXPIRED


@pytest.mark.parametrize(
    "query_id", ["x", "AAAAAAAAAAAAAAAAAAAAAA", "x" * 3000, "\u00e9", "a b", "..", "%00", "\ud800"], ids=ascii
)
def test_an_unknown_id_is_404(table: Callable[[str], Table], query_id: str) -> None:
    unknown(result(table("table1"), quote(query_id.encode("utf-8", "surrogatepass"), safe="")))


def test_a_query_is_valid_only_for_its_recipient_and_table(server: Server) -> None:
    mine = submitted(server.table("table2"))
    assert result(server.table("table2"), mine).status == 200
    unknown(result(server.table("table2", "bob"), mine))
    unknown(result(server.table("table1"), mine))
    result(server.table("table2", "carol"), mine).refused(404, "RESOURCE_DOES_NOT_EXIST", "Share/Schema/Table")
    assert submitted(server.table("table2", "bob")) != mine


def test_names_are_case_insensitive_and_ids_are_not(table: Callable[[str], Table]) -> None:
    shared_table = table("table1")
    query_id = submitted(shared_table)
    upper = Table(shared_table.recipient, "SHARE1", "Default", "TABLE1")
    assert submitted(upper) == query_id
    same(result(upper, query_id), shared_table.query())
    unknown(result(shared_table, query_id.swapcase()))


def queries(server: Server) -> list[dict[str, Any]]:
    """Return all stored queries; only tests can scan the table."""
    pages = server.client("dynamodb").get_paginator("scan")
    pages_ = pages.paginate(TableName=server.environment["CATALOG_TABLE"], ConsistentRead=True)
    items = (item for page in pages_ for item in page["Items"])
    return sorted((item for item in items if item["pk"]["S"].startswith("query/")), key=lambda item: item["sk"]["S"])


def test_an_expired_query_is_404_and_can_be_submitted_again(server: Server) -> None:
    with growing(server, "submitted_expired") as (log, shared_table):
        query_id = submitted(shared_table)
        entry = server.admin.tables.get("share1", "default", "submitted_expired")
        key = keys.query(server.readers["alice"].id, entry.id, query_id)
        server.client("dynamodb").update_item(
            TableName=server.environment["CATALOG_TABLE"],
            Key={"pk": {"S": key.pk}, "sk": {"S": key.sk}},
            UpdateExpression="SET expires_at = :past",
            ConditionExpression="attribute_exists(pk)",
            ExpressionAttributeValues={":past": {"N": str(int(time.time()) - 1)}},
        )
        unknown(result(shared_table, query_id))
        log.commit(log.add([{"name": "new"}]))
        assert submit(shared_table).version == 1
        assert submitted(shared_table) == query_id
        assert result(shared_table, query_id).version == 1


def test_a_recipient_who_lost_the_table_cannot_read_its_queries(server: Server) -> None:
    server.admin.shares.create("lent")
    server.admin.schemas.create("lent", "default")
    server.admin.tables.create(
        "lent", "default", "t", f"s3://{server.shelf.bucket}/cdf_table_cdf_enabled", history=True
    )
    server.admin.grants.create("carol", "lent")
    shared_table = Table(server.recipient("carol"), "lent", "default", "t")
    query_id, version_1 = submitted(shared_table), submitted(shared_table, version=1)
    assert result(shared_table, query_id).status == 200
    server.admin.grants.revoke("carol", "lent")
    result(shared_table, query_id).refused(404, "RESOURCE_DOES_NOT_EXIST", "'lent/default/t' does not exist")
    server.admin.grants.create("carol", "lent")
    assert result(shared_table, query_id).status == 200
    server.admin.tables.update("lent", "default", "t", history=False)
    result(shared_table, version_1).refused(*BAD, "history sharing is not enabled")
    server.admin.tables.update("lent", "default", "t", access_modes=("dir",))
    result(shared_table, query_id).refused(400, "UNSUPPORTED_OPERATION", "directory access only")
    server.admin.tables.delete("lent", "default", "t")
    server.admin.tables.create("lent", "default", "t", f"s3://{server.shelf.bucket}/cdf_table_cdf_enabled")
    unknown(result(shared_table, query_id))


REFUSED: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "no table": ("nope", PARQUET, {}),
    "directory only": ("directory_only", PARQUET, {}),
    "two versions": ("cdf_table_cdf_enabled", PARQUET, {"version": 1, "timestamp": "2022-01-01T00:00:00Z"}),
    "page size": ("table1", PARQUET, {"maxFiles": 0}),
    "no history": ("table1", PARQUET, {"version": 1}),
    "no history of a range": ("table1", PARQUET, {"startingVersion": 1}),
    "before the start": ("cdf_table_with_partition", PARQUET, {"version": 0}),
    "version too late": ("cdf_table_cdf_enabled", PARQUET, {"version": 99}),
    "time before the first": ("cdf_table_cdf_enabled", PARQUET, {"timestamp": "2000-01-01T00:00:00Z"}),
    "no time": ("cdf_table_cdf_enabled", PARQUET, {"timestamp": "yesterday"}),
    "range too late": ("cdf_table_cdf_enabled", PARQUET, {"startingVersion": 99}),
    "range backwards": ("cdf_table_cdf_enabled", PARQUET, {"startingVersion": 3, "endingVersion": 2}),
    "range that was lost": ("cdf_table_missing_log", PARQUET, {"startingVersion": 1}),
    "refresh token": ("table1", PARQUET, {"refreshToken": "x"}),
    "format": ("deletion_vectors_with_dvs_dv_property_on", PARQUET, {}),
    "format of a range": ("deletion_vector_kinds", PARQUET, {"startingVersion": 0}),
    "features": ("table_with_cm_name", "responseformat=delta", {}),
    "unknown format": ("table1", "responseformat=csv", {}),
    "unknown feature": ("unknown_reader_feature", DELTA, {}),
    "gap": ("table_data_loss_no_checkpoint", PARQUET, {}),
    "no metadata": ("table_with_no_metadata", PARQUET, {}),
}


@pytest.mark.parametrize(("name", "capabilities", "body"), REFUSED.values(), ids=REFUSED)
def test_a_submission_is_refused_like_the_query(
    server: Server, name: str, capabilities: str, body: Mapping[str, Any]
) -> None:
    shared_table = Table(server.alice, "share1", "default", name) if name == "nope" else server.table(name)
    stored = queries(server)
    refusal, direct = (
        submit(shared_table, capabilities, **body),
        shared_table.with_capabilities(capabilities).query(body),
    )
    assert direct.status in {400, 404}
    assert (refusal.status, refusal.json) == (direct.status, direct.json)
    assert queries(server) == stored


def test_parameters_that_are_too_large_to_store_are_refused_with_a_remedy(table: Callable[[str], Table]) -> None:
    hints = [f"date = '{number:0400d}'" for number in range(1000)]
    reply = submit(table("table1"), predicateHints=hints)
    reply.refused(*BAD, "shorten the predicate hints, or send the request without asyncquery=true")
    assert table("table1").query(predicateHints=hints).status == 200
    large = hints[:900]
    assert ids(result(table("table1"), submitted(table("table1"), predicateHints=large)))


@pytest.mark.parametrize(
    ("content", "code", "text"),
    [
        (b'{"maxFiles":0}', "INVALID_PARAMETER_VALUE", "maxFiles must be positive."),
        (b"{", "MALFORMED_REQUEST", "not valid JSON"),
        (b'{"pageToken":1}', "MALFORMED_REQUEST", "pageToken"),
    ],
    ids=["page size", "no JSON", "no text"],
)
def test_invalid_requests_for_a_result_are_refused(
    table: Callable[[str], Table], content: bytes, code: str, text: str
) -> None:
    shared_table = table("table1")
    reply = shared_table.recipient.post(f"{shared_table.path}/queries/{submitted(shared_table)}", content)
    reply.refused(400, code, text)


def test_the_body_of_a_request_for_a_result_can_be_empty(table: Callable[[str], Table]) -> None:
    shared_table = table("table1")
    same(
        shared_table.recipient.post(f"{shared_table.path}/queries/{submitted(shared_table)}", b""), shared_table.query()
    )


def test_each_response_has_its_capabilities_header(table: Callable[[str], Table]) -> None:
    """A pending response has no last line; a result has the capabilities of its own request."""
    shared_table = table("table1").with_capabilities(
        "responseformat=parquet;includeendstreamaction=true;asyncquery=true"
    )
    pending = shared_table.query(idempotencyKey="x")
    assert pending.headers[CAPABILITIES] == "responseformat=parquet;asyncquery=true"
    assert pending.kinds == ["queryStatus"]
    query_id = pending.only("queryStatus")[0]["queryId"]
    reply = result(shared_table, query_id)
    assert reply.headers[CAPABILITIES] == "responseformat=parquet;includeendstreamaction=true;asyncquery=true"
    assert reply.kinds == ["protocol", "metaData", "file", "file", "endStreamAction"]
    without_end = result(table("table1"), query_id)
    assert without_end.headers[CAPABILITIES] == "responseformat=parquet"
    assert without_end.kinds == ["protocol", "metaData", "file", "file"]


def test_the_file_ids_of_the_submission_are_the_default(table: Callable[[str], Table]) -> None:
    """Spark checks the echo of the submission and sends the header again with later pages only."""
    shared_table = table("table1")
    hashed = shared_table.with_capabilities("responseformat=parquet;asyncquery=true", fileidhash="delta")
    reply = hashed.query(idempotencyKey="hashed")
    assert reply.headers["fileidhash"] == "delta"
    query_id = reply.only("queryStatus")[0]["queryId"]
    expected = ids(shared_table.with_capabilities(fileidhash="delta").query())
    first = result(shared_table, query_id, maxFiles=1)
    rest = result(hashed, query_id, maxFiles=1, pageToken=first.end["nextPageToken"])
    assert ids(first, rest) == expected != ids(shared_table.query())
    assert ids(result(shared_table.with_capabilities(fileidhash="parquet"), query_id)) == ids(shared_table.query())
    shared_table.with_capabilities(fileidhash="md5").query().refused(*BAD, "fileidhash")
    result(shared_table.with_capabilities(fileidhash="md5"), query_id).refused(*BAD, "Unsupported fileidhash")


def test_both_responses_are_compressed_for_clients_that_accept_it(table: Callable[[str], Table]) -> None:
    shared_table = table("partition_values").with_capabilities(
        "responseformat=parquet;asyncquery=true", accept_encoding="gzip"
    )
    pending = shared_table.query(idempotencyKey="packed")
    fetched = result(shared_table, pending.only("queryStatus")[0]["queryId"])
    assert {reply.headers["content-encoding"] for reply in (pending, fetched)} == {"gzip"}
    assert ids(fetched) == ids(table("partition_values").query())
