"""Test the parsing of query bodies, and the errors and their order."""

import json
from typing import Any

import pytest
from deltaic.errors import DeltaicError, InvalidParameter, MalformedRequest
from deltaic.protocol import sealed_tokens
from deltaic.protocol.gates import TableGate
from deltaic.protocol.query_request import QueryRequest

ONE_OF = "Please only provide one of: version,timestamp,startingVersion"
PRIVATE = TableGate("share2.default.table2", history_shared=False, start_version=0)
SHARED = TableGate("share8.default.cdf_table_cdf_enabled", history_shared=True, start_version=0)
LATE = TableGate("share8.default.cdf_table_with_partition", history_shared=True, start_version=1)


def parse(**fields: Any) -> QueryRequest:
    return QueryRequest.parse(json.dumps(fields).encode())


def test_an_empty_object_requests_the_latest_snapshot() -> None:
    request = QueryRequest.parse(b"{}")
    assert not request.time_travels
    assert not request.is_range
    assert not request.opts_into_end_stream
    assert request.predicate_hints == ()


def test_all_fields_are_parsed() -> None:
    request = parse(
        predicateHints=["a = 1", "b > 2"],
        jsonPredicateHints='{"op":"column"}',
        limitHint=10,
        startingVersion=2,
        endingVersion=5,
        includeHistoricalProtocol=True,
        maxFiles=7,
        idempotencyKey="k",
        queryDeltaLog=True,
        somethingNew={"a": [1]},
    )
    assert request == QueryRequest(
        predicate_hints=("a = 1", "b > 2"),
        json_predicate_hints='{"op":"column"}',
        limit_hint=10,
        version=None,
        timestamp=None,
        starting_version=2,
        ending_version=5,
        include_historical_protocol=True,
        max_files=7,
        page_token=None,
        include_refresh_token=False,
        names_refresh_token=False,
        refresh_token=None,
        idempotency_key="k",
    )
    assert request.is_range


@pytest.mark.parametrize("name", ["limitHint", "limit_hint"])
@pytest.mark.parametrize("value", [123, "123", 123.0, "+123"])
def test_numbers_can_be_strings_and_names_snake_case(name: str, value: object) -> None:
    assert parse(**{name: value}).limit_hint == 123


@pytest.mark.parametrize("value", [True, "true", "True", "TRUE"])
@pytest.mark.parametrize("name", ["includeRefreshToken", "include_refresh_token"])
def test_booleans_ignore_case(name: str, value: object) -> None:
    assert parse(**{name: value}).include_refresh_token
    assert not parse(**{name: "False"}).include_refresh_token


@pytest.mark.parametrize("name", ["idempotencyKey", "idempotency_key"])
def test_the_idempotency_key_has_two_spellings(name: str) -> None:
    content = json.dumps({name: "x"}).encode()
    assert QueryRequest.parse(content, async_query=True).idempotency_key == "x"


def test_null_fields_count_as_absent() -> None:
    fields = ("predicateHints", "limitHint", "version", "timestamp", "includeRefreshToken", "maxFiles", "pageToken")
    assert parse(**dict.fromkeys(fields)) == QueryRequest.parse(b"{}")


def test_useless_hints_are_ignored() -> None:
    assert parse(limitHint=-1).limit_hint is None
    assert parse(limitHint=0).limit_hint == 0
    assert parse(jsonPredicateHints="").json_predicate_hints is None
    assert parse(jsonPredicateHints="{nonsense").json_predicate_hints == "{nonsense"


def test_ending_version_without_a_start_is_ignored() -> None:
    assert parse(timestamp="2022-04-29T22:50:35Z", endingVersion=2).ending_version is None
    with pytest.raises(MalformedRequest, match="Not a numeric value: x3"):
        parse(endingVersion="x3")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "No content to map due to end-of-input"),
        (b" \r\n", "No content to map due to end-of-input"),
        (b'{"predicateHints":{}}', "Expected an array for repeated field predicateHints of QueryTableRequest"),
        (b'{"predicateHints":"a=1"}', "Expected an array for repeated field predicateHints of QueryTableRequest"),
        (b'{"predicateHints":[1]}', "Expected strings in repeated field predicateHints of QueryTableRequest"),
        (b'{"version":"x3"}', "Not a numeric value: x3 for field version of QueryTableRequest"),
        (b'{"startingVersion":"x3"}', "Not a numeric value: x3 for field startingVersion of QueryTableRequest"),
        (b'{"version":[]}', "Not a numeric value: field version of QueryTableRequest"),
        (b'{"version":true}', "Not a numeric value: field version of QueryTableRequest"),
        (b'{"version":1.5}', "Not an int64 value: field version of QueryTableRequest"),
        (b'{"version":9223372036854775808}', "Not an int64 value: field version of QueryTableRequest"),
        (b'{"version":"9223372036854775808"}', "Not an int64 value: field version of QueryTableRequest"),
        (b'{"maxFiles":3000000000}', "Not an int32 value: field maxFiles of QueryTableRequest"),
        (b'{"maxFiles":"3000000000"}', "Not an int32 value: field maxFiles of QueryTableRequest"),
        (b'{"maxFiles":"ten"}', "Not a numeric value: ten for field maxFiles of QueryTableRequest"),
        (b'{"limitHint":"ten"}', "Not a numeric value: ten for field limitHint of QueryTableRequest"),
        (b'{"timestamp":5}', "Expected a string for field timestamp of QueryTableRequest"),
        (b'{"includeRefreshToken":1}', "Expected true or false for field includeRefreshToken of QueryTableRequest"),
        (b"[]", "Expected an object for QueryTableRequest, such as {}"),
        (b"null", "Expected an object for QueryTableRequest, such as {}"),
    ],
)
def test_fields_of_the_wrong_type_are_refused(content: bytes, message: str) -> None:
    with pytest.raises(MalformedRequest) as refusal:
        QueryRequest.parse(content)
    assert refusal.value.message == message


@pytest.mark.parametrize("content", [b"{", b"{]", b"abc", b'{"a":NaN}', b"\xff", b'{"a":"\xff"}', b'{"a":"\\ud800"}'])
def test_bodies_that_are_not_json_are_refused(content: bytes) -> None:
    with pytest.raises(MalformedRequest, match=r"^The request body is not valid JSON: ") as refusal:
        QueryRequest.parse(content)
    assert refusal.value.code == "MALFORMED_REQUEST"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"version": 1, "timestamp": "abc"}, ONE_OF),
        ({"version": "3", "startingVersion": "3"}, ONE_OF),
        ({"timestamp": "abc", "startingVersion": -2}, ONE_OF),
        ({"version": -2, "timestamp": "abc", "startingVersion": -2}, ONE_OF),
        ({"version": -2, "maxFiles": 0}, "table version cannot be negative."),
        ({"startingVersion": -2, "maxFiles": 0}, "startingVersion cannot be negative."),
        ({"maxFiles": 0}, "maxFiles must be positive."),
        ({"maxFiles": -1, "version": 1, "includeRefreshToken": True}, "maxFiles must be positive."),
        (
            {"version": 1, "includeRefreshToken": True, "pageToken": "t"},
            "includeRefreshToken cannot be used when querying a specific version.",
        ),
        (
            {"startingVersion": 1, "includeRefreshToken": True},
            "includeRefreshToken cannot be used when querying a specific version.",
        ),
        (
            {"pageToken": "t", "includeRefreshToken": True, "refreshToken": "r"},
            "includeRefreshToken must be used in the first page request.",
        ),
        (
            {"startingVersion": 1, "refreshToken": "r", "pageToken": "t"},
            "refreshToken cannot be used when querying a specific version.",
        ),
        ({"pageToken": "t", "refreshToken": "r"}, "refreshToken must be used in the first page request."),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_fields_that_exclude_each_other_are_refused_in_the_order_of_the_reference(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidParameter) as refusal:
        parse(**fields)
    assert refusal.value.message == message
    assert refusal.value.code == "INVALID_PARAMETER_VALUE"


def test_the_key_of_an_asynchronous_query_is_checked_last() -> None:
    with pytest.raises(InvalidParameter, match=r"^idempotency_key is required for async query\.$"):
        QueryRequest.parse(b"{}", async_query=True)
    with pytest.raises(InvalidParameter, match=r"^maxFiles must be positive\.$"):
        QueryRequest.parse(b'{"maxFiles":0}', async_query=True)
    assert QueryRequest.parse(b'{"startingVersion":0}', async_query=True).idempotency_key is None


@pytest.mark.parametrize("fields", [{"version": 1}, {"timestamp": "abc"}, {"startingVersion": 1}])
def test_time_travel_requires_shared_history_first(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter) as refusal:
        parse(**fields).check_gate(PRIVATE)
    assert refusal.value.message == (
        "Reading table by version or timestamp is not supported because history sharing is not enabled on table: "
        "share2.default.table2"
    )
    parse().check_gate(PRIVATE)


def test_versions_before_the_start_version_are_refused_before_the_range() -> None:
    for fields in ({"version": "0"}, {"startingVersion": "0"}, {"startingVersion": 0, "endingVersion": -1}):
        with pytest.raises(InvalidParameter, match=r"^You can only query table data since version 1\.$"):
            parse(**fields).check_gate(LATE)
    with pytest.raises(InvalidParameter, match=r"^You can only query table data since version 1\.$"):
        LATE.check_version(0)
    LATE.check_version(1)


def test_a_range_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(InvalidParameter) as refusal:
        parse(startingVersion=3, endingVersion=2).check_gate(SHARED)
    assert refusal.value.message == "startingVersion(3) must be smaller than or equal to endingVersion(2)."
    parse(startingVersion=2, endingVersion=2).check_gate(SHARED)


def test_a_range_ends_at_the_latest_version_by_default() -> None:
    assert parse(startingVersion=2).check_range(5) == (2, 5)
    assert parse(startingVersion=0, endingVersion=3).check_range(5) == (0, 3)
    assert parse(startingVersion=5).check_range(5) == (5, 5)


def test_a_range_beyond_the_latest_version_is_refused() -> None:
    with pytest.raises(InvalidParameter) as refusal:
        parse(startingVersion=2, endingVersion=10).check_range(5)
    assert refusal.value.message == (
        "Provided end version(10) is invalid. End version cannot be greater than the latest version of the table(5)."
    )
    with pytest.raises(InvalidParameter) as refusal:
        parse(startingVersion=6).check_range(5)
    assert refusal.value.message == (
        "Provided Start version(6) for reading change data is invalid. Start version cannot be greater than the "
        "latest version of the table(5)."
    )


def test_the_timestamp_is_parsed_on_demand() -> None:
    request = parse(timestamp="2022-04-29T22:50:35Z").instant()
    assert request is not None
    assert request.floor_ms == 1_651_272_635_000
    assert parse().instant() is None
    with pytest.raises(DeltaicError, match=r"^Invalid timestamp: "):
        parse(timestamp="").instant()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, False),
        ({"includeRefreshToken": False}, False),
        ({"refreshToken": "r"}, False),
        ({"maxFiles": 1}, True),
        ({"pageToken": "t"}, True),
        ({"includeRefreshToken": True}, True),
    ],
    ids=str,
)
def test_only_some_fields_request_an_end_stream_action(fields: dict[str, Any], expected: bool) -> None:
    assert parse(**fields).opts_into_end_stream is expected


def test_pages_can_differ_only_in_size_and_tokens() -> None:
    def digest(**fields: Any) -> str:
        return sealed_tokens.checksum(parse(**fields).fingerprint)

    first = digest(predicateHints=["a = 1"], limitHint=5, maxFiles=1, includeRefreshToken=True, idempotencyKey="k")
    assert first == digest(limit_hint="5", predicate_hints=["a = 1"], pageToken="t", maxFiles=9)
    assert first != digest(predicateHints=["a = 1"])
    different: list[dict[str, Any]] = [
        {"predicateHints": ["b"]},
        {"jsonPredicateHints": "{}"},
        {"limitHint": 1},
        {"version": 1},
        {"timestamp": "1"},
        {"startingVersion": 1},
        {"startingVersion": 1, "endingVersion": 1},
        {"includeHistoricalProtocol": True},
    ]
    assert len({digest(**fields) for fields in different} | {digest()}) == len(different) + 1
