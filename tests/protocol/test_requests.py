"""Test listing, version, metadata, poll and credential requests, and that no input breaks parsing."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from deltaic.errors import DeltaicError, InvalidParameter, MalformedRequest
from deltaic.protocol import sealed_tokens
from deltaic.protocol.changes_request import ChangesRequest
from deltaic.protocol.gates import TableGate
from deltaic.protocol.parameters import from_query_string
from deltaic.protocol.query_request import QueryRequest
from deltaic.protocol.requests import (
    CredentialsRequest,
    ListRequest,
    MetadataRequest,
    QueryResultRequest,
    VersionRequest,
)
from hypothesis import given
from hypothesis import strategies as st

PRIVATE = TableGate("share2.default.table2", history_shared=False, start_version=0)
SHARED = TableGate("share8.default.cdf_table_cdf_enabled", history_shared=True, start_version=0)
LATE = TableGate("share8.default.cdf_table_with_partition", history_shared=True, start_version=1)
NO_HISTORY = (
    "Reading table by version or timestamp is not supported because history sharing is not enabled on table: "
    "share2.default.table2"
)


@pytest.mark.parametrize(("text", "expected"), [(None, 500), ("0", 0), ("1", 1), ("500", 500), ("+7", 7), ("007", 7)])
def test_max_results(text: str | None, expected: int) -> None:
    query = {} if text is None else {"maxResults": text}
    assert ListRequest.parse(query) == ListRequest(expected, None)


@pytest.mark.parametrize("text", ["-1", "501", "2147483647"])
def test_max_results_out_of_range(text: str) -> None:
    with pytest.raises(InvalidParameter) as refusal:
        ListRequest.parse({"maxResults": text})
    assert refusal.value.message == "Acceptable values of 'maxResults' are 0 to 500, inclusive. (Default: 500)"


@pytest.mark.parametrize(
    "text", ["abc", "string", "", " 1", "1.0", "1e2", "0x1", "\u0661", "3000000000", "9" * 5000, "1_0"]
)
def test_max_results_must_be_a_number(text: str) -> None:
    with pytest.raises(InvalidParameter) as refusal:
        ListRequest.parse({"maxResults": text})
    assert refusal.value.message == "expected a number but the string didn't have the appropriate format"


def test_an_empty_page_token_is_the_first_page() -> None:
    assert ListRequest.parse({"pageToken": ""}).page_token is None
    assert ListRequest.parse({"pageToken": "t"}).page_token == "t"


def test_query_strings_are_decoded_and_the_last_of_repeated_parameters_counts() -> None:
    text = "maxResults=1&startingTimestamp=2022-01-01T00%3A00%3A00Z&maxResults=2&pageToken="
    assert from_query_string(text) == {
        "maxResults": "2",
        "startingTimestamp": "2022-01-01T00:00:00Z",
        "pageToken": "",
    }
    assert from_query_string(b"a=%FF") == {"a": "\ufffd"}
    with pytest.raises(MalformedRequest, match="more than 200 parameters"):
        from_query_string("&".join(["a=1"] * 201))


def test_the_latest_version_needs_no_shared_history() -> None:
    assert VersionRequest.parse({}).starting_instant(PRIVATE) is None
    VersionRequest.parse({}).check_version(LATE, 0)


def test_shared_history_is_checked_before_the_timestamp() -> None:
    request = VersionRequest.parse({"startingTimestamp": "abc"})
    with pytest.raises(InvalidParameter) as refusal:
        request.starting_instant(PRIVATE)
    assert refusal.value.message == NO_HISTORY
    with pytest.raises(InvalidParameter, match=r"^Invalid startingTimestamp: "):
        request.starting_instant(SHARED)


def test_a_version_before_the_start_version_is_refused_with_the_timestamp() -> None:
    request = VersionRequest.parse({"startingTimestamp": "2000-01-01T00:00:00Z"})
    with pytest.raises(InvalidParameter) as refusal:
        request.check_version(LATE, 0)
    assert refusal.value.message == (
        "You can only query table data since version 1.The provided timestamp(2000-01-01 00:00:00.0) corresponds to 0."
    )
    request.check_version(LATE, 1)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"version": "-1"}, "version cannot be negative."),
        ({"version": "-1", "timestamp": "abc"}, "Please only provide one of: version,timestamp"),
        ({"version": "x"}, "expected a number but the string didn't have the appropriate format"),
        ({"version": str(2**63)}, "expected a number but the string didn't have the appropriate format"),
    ],
    ids=["negative", "both", "no number", "too large"],
)
def test_invalid_metadata_parameters_are_refused(query: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidParameter) as refusal:
        MetadataRequest.parse(query)
    assert refusal.value.message == message


def test_only_versions_and_timestamps_of_metadata_need_shared_history() -> None:
    MetadataRequest.parse({}).check_gate(PRIVATE)
    for query in ({"version": "1"}, {"timestamp": "abc"}):
        with pytest.raises(InvalidParameter, match=re.escape(NO_HISTORY)):
            MetadataRequest.parse(query).check_gate(PRIVATE)
        MetadataRequest.parse(query).check_gate(SHARED)
    with pytest.raises(InvalidParameter, match=r"^Invalid timestamp: '2021-01-01'"):
        MetadataRequest.parse({"timestamp": "2021-01-01"}).instant()
    assert MetadataRequest.parse({"version": str(2**63 - 1)}).version == 2**63 - 1


def test_credentials_need_shared_history() -> None:
    with pytest.raises(InvalidParameter, match=r"^Temporary table credentials are not supported because .*table2$"):
        PRIVATE.require_credentials()
    SHARED.require_credentials()
    with pytest.raises(InvalidParameter, match=r"shared only since version 1 of table: .*_with_partition.* pre-signed"):
        LATE.require_credentials()


@pytest.mark.parametrize("content", [b"", b"  \n", b"{}", b'{"queryId":"q","other":1}'])
def test_polls_and_credentials_need_no_body(content: bytes) -> None:
    assert QueryResultRequest.parse(content) == QueryResultRequest(None, None)
    assert CredentialsRequest.parse(content) == CredentialsRequest(None)


def test_fields_of_polls_and_credentials_are_parsed() -> None:
    assert QueryResultRequest.parse(b'{"maxFiles":"5","page_token":"t"}') == QueryResultRequest(5, "t")
    assert CredentialsRequest.parse(b'{"location":"s3://b/p"}').location == "s3://b/p"
    with pytest.raises(InvalidParameter, match=r"^maxFiles must be positive\.$"):
        QueryResultRequest.parse(b'{"maxFiles":0}')
    for content in (b"{", b"[]", b'{"location":1}'):
        with pytest.raises(MalformedRequest):
            CredentialsRequest.parse(content)


FIELDS = [
    *("predicateHints", "jsonPredicateHints", "limitHint", "version", "timestamp", "startingVersion", "endingVersion"),
    *("maxFiles", "pageToken", "includeRefreshToken", "refreshToken", "idempotency_key", "includeHistoricalProtocol"),
    *("location", "max_files", "unknown"),
]
PARAMETERS = [
    *("maxResults", "pageToken", "startingTimestamp", "version", "timestamp", "startingVersion", "endingVersion"),
    *("endingTimestamp", "maxFiles", "includeHistoricalMetadata", "includeHistoricalProtocol"),
]
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.integers().map(str))
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)
TEXT = st.text(max_size=12) | st.integers().map(str) | st.just("2022-01-01T00:00:00Z")


def _refusal(parse: Callable[[Any], object], content: object) -> type[DeltaicError] | None:
    try:
        parse(content)
    except DeltaicError as refusal:
        return type(refusal)
    return None


def _check_query(content: bytes) -> None:
    request = QueryRequest.parse(content)
    sealed_tokens.checksum(request.fingerprint)
    request.check_gate(SHARED)
    request.instant()
    if request.is_range:
        start, end = request.check_range(5)
        assert 0 <= start <= end <= 5


@given(st.one_of(st.binary(), st.dictionaries(st.sampled_from(FIELDS), JSON).map(lambda v: json.dumps(v).encode())))
def test_no_body_raises_anything_outside_the_error_tree(content: bytes) -> None:
    for parse in (_check_query, QueryResultRequest.parse, CredentialsRequest.parse):
        assert _refusal(parse, content) in {None, InvalidParameter, MalformedRequest}


@given(st.dictionaries(st.sampled_from(PARAMETERS), TEXT))
def test_no_query_string_raises_anything_outside_the_error_tree(query: dict[str, str]) -> None:
    def changes(query: dict[str, str]) -> None:
        request = ChangesRequest.parse(query)
        sealed_tokens.checksum(request.fingerprint)
        request.span()

    def metadata(query: dict[str, str]) -> None:
        MetadataRequest.parse(query).instant()

    def version(query: dict[str, str]) -> None:
        VersionRequest.parse(query).starting_instant(SHARED)

    for parse in (ListRequest.parse, version, metadata, changes):
        assert _refusal(parse, query) in {None, InvalidParameter, MalformedRequest}


@given(st.text())
def test_no_raw_query_string_breaks_decoding(text: str) -> None:
    assert all(isinstance(name, str) for name in from_query_string(text))


@pytest.mark.parametrize("content", [b"[" * 100_000, b'{"a":' * 100_000, b'{"version":' + b"9" * 5000 + b"}"])
def test_hostile_json_is_refused(content: bytes) -> None:
    with pytest.raises(MalformedRequest):
        QueryRequest.parse(content)
