"""Test the range of a change feed request, and its errors and their order."""

import pytest
from deltaic.errors import InvalidParameter
from deltaic.protocol import sealed_tokens
from deltaic.protocol.changes_request import ChangesRequest, Span
from deltaic.protocol.gates import TableGate
from deltaic.protocol.instants import Instant

PRIVATE = TableGate("share2.default.table2", history_shared=False, start_version=0)
SHARED = TableGate("share8.default.cdf_table_cdf_enabled", history_shared=True, start_version=0)
LATE = TableGate("share8.default.cdf_table_with_partition", history_shared=True, start_version=1)


def test_all_parameters_are_parsed_and_flags_ignore_case() -> None:
    request = ChangesRequest.parse(
        {
            "startingVersion": "0",
            "endingTimestamp": "2022-01-01T00:00:00Z",
            "includeHistoricalMetadata": "True",
            "includeHistoricalProtocol": "TRUE",
            "maxFiles": "2",
            "pageToken": "t",
            "readChangeFeed": "true",
        }
    )
    assert request == ChangesRequest("0", None, None, "2022-01-01T00:00:00Z", True, True, 2, "t")  # noqa: FBT003
    assert request.span() == Span(0, Instant(1_640_995_200_000_000_000))
    assert request.opts_into_end_stream


@pytest.mark.parametrize("value", ["False", "no", "", "1"])
def test_flags_other_than_true_are_false(value: str) -> None:
    assert not ChangesRequest.parse({"includeHistoricalMetadata": value}).include_historical_metadata


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("-1", "maxFiles must be positive."),
        ("0", "maxFiles must be positive."),
        ("string", "expected a number but the string didn't have the appropriate format"),
        ("3000000000", "expected a number but the string didn't have the appropriate format"),
    ],
)
def test_page_sizes_are_checked_first(value: str, message: str) -> None:
    with pytest.raises(InvalidParameter) as refusal:
        ChangesRequest.parse({"maxFiles": value})
    assert refusal.value.message == message


def test_the_feed_needs_shared_history() -> None:
    with pytest.raises(InvalidParameter, match=r"^cdf is not enabled on table share2\.default\.table2$"):
        PRIVATE.require_changes()
    SHARED.require_changes()


MULTIPLE = "arguments provided for CDF read. Please provide one of either"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({}, "No startingVersion or startingTimestamp provided for CDF read."),
        ({"endingVersion": "3"}, "No startingVersion or startingTimestamp provided for CDF read."),
        (
            {"startingVersion": "x", "startingTimestamp": "y"},
            f"Multiple starting {MULTIPLE} startingTimestamp or startingVersion.",
        ),
        (
            {"endingVersion": "x", "endingTimestamp": "y"},
            f"Multiple ending {MULTIPLE} endingTimestamp or endingVersion.",
        ),
        ({"startingVersion": "abc"}, "startingVersion is not a valid number."),
        ({"startingVersion": ""}, "startingVersion is not a valid number."),
        ({"startingVersion": "9223372036854775808"}, "startingVersion is not a valid number."),
        ({"startingVersion": "0", "endingVersion": "x"}, "endingVersion is not a valid number."),
        ({"startingVersion": "-1"}, "startingVersion cannot be negative."),
        ({"startingVersion": "0", "endingVersion": "-1"}, "endingVersion cannot be negative."),
    ],
    ids=str,
)
def test_invalid_spans_are_refused(query: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidParameter) as refusal:
        ChangesRequest.parse(query).span()
    assert refusal.value.message == message


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ({"startingTimestamp": "2022-04-29"}, "startingTimestamp"),
        ({"startingVersion": "0", "endingTimestamp": "2022-04-29"}, "endingTimestamp"),
    ],
)
def test_invalid_timestamps_are_reported_by_parameter(query: dict[str, str], name: str) -> None:
    with pytest.raises(InvalidParameter, match=f"^Invalid {name}: "):
        ChangesRequest.parse(query).span()


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(0, 3, (0, 3)), (0, None, (0, 5)), (5, None, (5, 5)), (3, 100, (3, 5)), (2, 2, (2, 2))],
)
def test_a_range_is_inclusive_and_clipped_at_the_latest_version(
    start: int, end: int | None, expected: tuple[int, int]
) -> None:
    assert ChangesRequest.check_range(SHARED, start, end, 5) == expected


@pytest.mark.parametrize(
    ("gate", "start", "end", "message"),
    [
        (
            SHARED,
            6,
            None,
            (
                "Provided Start version(6) for reading change data is invalid. Start version cannot be greater than "
                "the latest version of the table(5)."
            ),
        ),
        (SHARED, 2, 1, "CDF range from start 2 to end 1 was invalid. End cannot be before start."),
        (LATE, 0, 3, "You can only query table changes since version 1."),
    ],
    ids=["after latest", "reversed", "before start version"],
)
def test_invalid_ranges_are_refused(gate: TableGate, start: int, end: int | None, message: str) -> None:
    with pytest.raises(InvalidParameter) as refusal:
        ChangesRequest.check_range(gate, start, end, 5)
    assert refusal.value.message == message


def test_pages_can_differ_only_in_size_and_token() -> None:
    def digest(**query: str) -> str:
        return sealed_tokens.checksum(ChangesRequest.parse(query).fingerprint)

    assert digest(startingVersion="0", maxFiles="1") == digest(startingVersion="0", maxFiles="2", pageToken="t")
    assert digest(startingVersion="0", includeHistoricalMetadata="false") == digest(startingVersion="0")
    different = [
        {"startingVersion": "0"},
        {"startingTimestamp": "0"},
        {"endingVersion": "0"},
        {"endingTimestamp": "0"},
        {"includeHistoricalMetadata": "true"},
        {"includeHistoricalProtocol": "true"},
    ]
    assert len({digest(**query) for query in different}) == len(different)
