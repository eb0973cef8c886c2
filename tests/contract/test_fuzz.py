"""Random requests cause no server error, and every refusal has the protocol's format."""

import json
from typing import Any
from urllib.parse import quote

import pytest
from contract.recipient import JSON, NDJSON, Recipient, Reply
from contract.tables import ENTRIES
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from laws import tries

pytestmark = pytest.mark.slow

TEXTS = st.one_of(
    st.sampled_from(["", "0", "1", "-1", "5", "99999999999999999999", "1e3", "NaN", "null", "true", "True", "false"]),
    st.sampled_from(["abc", "2022-04-29T22:50:35Z", "9999-12-31T23:59:59-18:00", "0000-00-00T00:00:00Z", "\x00", "%"]),
    st.text(max_size=12),
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        TEXTS, st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.sampled_from([0, 1, 2, 3])
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=2)),
    max_leaves=5,
)
FIELDS = [
    "predicateHints",
    "jsonPredicateHints",
    "limitHint",
    "version",
    "timestamp",
    "startingVersion",
    "endingVersion",
    "includeHistoricalProtocol",
    "includeHistoricalMetadata",
    "maxFiles",
    "pageToken",
    "includeRefreshToken",
    "refreshToken",
    "idempotency_key",
    "startingTimestamp",
    "endingTimestamp",
    "maxResults",
]
NAMES = st.one_of(
    st.sampled_from(sorted({name for entry in ENTRIES for name in (entry.share, entry.schema, entry.table)})),
    st.sampled_from(["..", ".", "%2e%2e", "%00", "%2F", "a%20b", "%ff", "%", "%zz", "x" * 300]),
    st.text(min_size=1, max_size=6).map(lambda text: quote(text, safe="")),
)
TABLE = st.sampled_from(
    [f"/shares/{entry.share}/schemas/{entry.schema}/tables/{entry.table}" for entry in ENTRIES],
) | st.tuples(NAMES, NAMES, NAMES).map(lambda names: "/shares/{}/schemas/{}/tables/{}".format(*names))
LISTING = st.sampled_from(["/shares", "/shares/share8/schemas", "/shares/share8/all-tables"]) | st.one_of(
    NAMES.map("/shares/{}".format),
    NAMES.map("/shares/{}/schemas".format),
    NAMES.map("/shares/{}/all-tables".format),
    st.tuples(NAMES, NAMES).map(lambda names: "/shares/{}/schemas/{}/tables".format(*names)),
)
QUOTED = TEXTS.map(lambda text: quote(text.encode("utf-8", "surrogatepass"), safe=""))
QUERY = st.lists(st.tuples(st.sampled_from(FIELDS), QUOTED).map("=".join), max_size=4).map("&".join).map("?{}".format)
VISIBLE = st.characters(codec="ascii", min_codepoint=33, max_codepoint=126, exclude_characters="#")
RAW_QUERY = st.text(VISIBLE, max_size=20).map("?{}".format)
SIMPLE = st.fixed_dictionaries({}, optional={name: st.integers(0, 6) for name in ("version", "startingVersion")})
BODY = st.one_of(
    st.dictionaries(st.sampled_from(FIELDS) | TEXTS, VALUES, max_size=4).map(json.dumps).map(str.encode),
    SIMPLE.map(json.dumps).map(str.encode),
    VALUES.map(json.dumps).map(str.encode),
    st.binary(max_size=30),
    st.just(b"[" * 5000),
)
QUERY_FIELDS = st.dictionaries(
    st.sampled_from([name for name in FIELDS if not name.startswith("idem")]), VALUES, max_size=3
)
QUERY_FIELDS |= SIMPLE
PRINTED = st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f")
LATIN = st.text(PRINTED, max_size=20).map(str.strip)
READS_ALL = "responseformat=parquet,delta;readerfeatures=deletionvectors,columnmapping"
SUBMITS = f"{READS_ALL};asyncquery=true"
CAPABILITY = st.one_of(
    st.sampled_from([READS_ALL, "responseformat=delta", "includeendstreamaction=true", "asyncquery=true"]),
    st.sampled_from(["responseformat=", "=;=", "responseformat=delta="]),
    LATIN,
)
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "delta-sharing-capabilities": CAPABILITY,
        "fileidhash": st.sampled_from(["parquet", "delta", ""]) | LATIN,
        "accept-encoding": st.sampled_from(["gzip", "gzip;q=", ";;,", "*"]) | LATIN,
        "content-type": st.sampled_from(["application/json", "text/plain"]) | LATIN,
        "user-agent": LATIN,
        "x-forwarded-for": LATIN,
    },
)
QUICK = settings(
    max_examples=tries(120),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def check(reply: Reply, method: str) -> None:
    """Assert that a response is complete, or a refusal in the protocol's format."""
    assert reply.status < 500, reply
    if reply.status == 200:
        if reply.headers.get("content-type") == NDJSON:
            assert reply.kinds[:2] in (["protocol", "metaData"], ["queryStatus"])
        elif reply.body:
            assert reply.json
    elif method == "HEAD":
        assert reply.body == b""
    else:
        assert reply.headers["content-type"] == JSON
        assert set(reply.json) == {"errorCode", "message"}
        assert reply.json["errorCode"]
        assert reply.json["message"]
        assert len(reply.body) < 2000


@QUICK
@given(path=LISTING, query=QUERY | RAW_QUERY, headers=HEADERS)
@example(path="/shares", query="?pageToken=%00&maxResults=%00", headers={})
@example(path="/shares", query="?" + "&".join(f"a{number}=1" for number in range(300)), headers={})
def test_random_listing_requests_cause_no_server_error(
    alice: Recipient, path: str, query: str, headers: dict[str, str]
) -> None:
    check(ask(alice, "GET", path + query, None, headers), "GET")


@QUICK
@given(
    table=TABLE,
    call=st.sampled_from([("GET", "/version"), ("GET", "/metadata"), ("GET", "/changes"), ("HEAD", "")]),
    query=QUERY | RAW_QUERY,
    headers=HEADERS,
)
@example(
    table="/shares/share8/schemas/default/tables/cdf_table_cdf_enabled",
    call=("GET", "/changes"),
    query="?startingTimestamp=9999-12-31T23:59:59-18:00",
    headers={},
)
@example(
    table="/shares/share8/schemas/default/tables/cdf_table_cdf_enabled",
    call=("GET", "/changes"),
    query="?startingVersion=9223372036854775807&endingVersion=9223372036854775807",
    headers={},
)
def test_random_read_requests_cause_no_server_error(
    alice: Recipient, table: str, call: tuple[str, str], query: str, headers: dict[str, str]
) -> None:
    method, suffix = call
    check(ask(alice, method, table + suffix + query, None, headers), method)


@QUICK
@given(table=TABLE, body=BODY, headers=HEADERS)
@example(
    table="/shares/share8/schemas/default/tables/cdf_table_cdf_enabled",
    body=b'{"version":9223372036854775807}',
    headers={},
)
@example(table="/shares/share1/schemas/default/tables/table1", body=b'{"predicateHints":["\\ud800 = 1"]}', headers={})
@example(
    table="/shares/share1/schemas/default/tables/table1",
    body=b'{"maxFiles":1,"jsonPredicateHints":"\\ud800","pageToken":"\\ud800"}',
    headers={},
)
def test_random_queries_cause_no_server_error(
    alice: Recipient, table: str, body: bytes, headers: dict[str, str]
) -> None:
    check(ask(alice, "POST", f"{table}/query", body, headers), "POST")


@QUICK
@given(table=TABLE, query=QUERY_FIELDS, body=BODY, headers=HEADERS)
def test_random_submitted_queries_cause_no_server_error(
    alice: Recipient, table: str, query: dict[str, Any], body: bytes, headers: dict[str, str]
) -> None:
    content = json.dumps({**query, "idempotencyKey": "fuzz"}).encode()
    reply = ask(alice, "POST", f"{table}/query", content, {**headers, "delta-sharing-capabilities": SUBMITS})
    check(reply, "POST")
    if reply.status == 200 and reply.kinds == ["queryStatus"]:
        query_id = reply.lines[0]["queryStatus"]["queryId"]
        check(ask(alice, "POST", f"{table}/queries/{query_id}", body, headers), "POST")
        check(ask(alice, "POST", f"{table}/queries/{query_id}", None, {}), "POST")


@QUICK
@given(table=TABLE, query_id=NAMES, body=BODY, headers=HEADERS)
def test_random_requests_for_results_cause_no_server_error(
    alice: Recipient, table: str, query_id: str, body: bytes, headers: dict[str, str]
) -> None:
    check(ask(alice, "POST", f"{table}/queries/{query_id}", body, headers), "POST")


def ask(recipient: Recipient, method: str, target: str, body: bytes | None, headers: dict[str, str]) -> Reply:
    return recipient.ask(method, target, body, **headers)
