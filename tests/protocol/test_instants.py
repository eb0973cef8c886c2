"""Test how timestamps are parsed, rounded and formatted."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from deltaic.errors import InvalidParameter
from deltaic.protocol import instants
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2022-01-01T00:00:00Z", 1_640_995_200_000_000_000),
        ("2022-01-01t00:00:00z", 1_640_995_200_000_000_000),
        ("2022-01-01T00:00Z", 1_640_995_200_000_000_000),
        ("2022-01-01T01:30:00+01:30", 1_640_995_200_000_000_000),
        ("2022-01-01T01:30:00+0130", 1_640_995_200_000_000_000),
        ("2021-12-31T16:00:00-08", 1_640_995_200_000_000_000),
        ("2022-01-01T00:00:00.123456789Z", 1_640_995_200_123_456_789),
        ("2022-01-01T00:00:00.5Z", 1_640_995_200_500_000_000),
        ("1969-12-31T23:59:59.999Z", -1_000_000),
        ("9999-12-31T23:59:59-18:00", 253_402_365_599_000_000_000),
    ],
)
def test_a_timestamp_with_an_offset_is_one_instant(text: str, nanoseconds: int) -> None:
    assert instants.parse_instant(text, "startingTimestamp").nanoseconds == nanoseconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "abc",
        "2021-01-01",
        "2022-04-29",
        "2023-06-10 00:00:00",
        "2023-06-10T00:00:00",
        "2023-06-10T00:00:00 Z",
        "2023-02-29T00:00:00Z",
        "2023-13-01T00:00:00Z",
        "2023-01-01T24:00:00Z",
        "2023-01-01T00:60:00Z",
        "2023-01-01T00:00:60Z",
        "2023-01-01T00:00:00+18:01",
        "2023-01-01T00:00:00+01:60",
        "2023-01-01T00:00:00.1234567890Z",
        "0000-01-01T00:00:00Z",
        "2023-01-01T00:00:00Z\n",
        "٢٠٢٣-01-01T00:00:00Z",
        "1640995200000",
    ],
    ids=ascii,
)
def test_invalid_timestamps_are_reported_with_the_parameters_name(text: str) -> None:
    for parameter in ("startingTimestamp", "timestamp", "endingTimestamp"):
        with pytest.raises(InvalidParameter, match=f"^Invalid {parameter}: "):
            instants.parse_instant(text, parameter)


def test_a_long_text_is_shortened() -> None:
    with pytest.raises(InvalidParameter) as refusal:
        instants.parse_instant("x" * 10_000, "timestamp")
    assert len(refusal.value.message) < 300


def test_an_instant_between_two_commits_is_rounded_correctly() -> None:
    between = instants.parse_instant("2022-01-01T00:00:00.123456Z", "timestamp")
    assert (between.floor_ms, between.ceil_ms) == (1_640_995_200_123, 1_640_995_200_124)
    exact = instants.parse_instant("2022-01-01T00:00:00.123Z", "timestamp")
    assert exact.floor_ms == exact.ceil_ms == 1_640_995_200_123
    early = instants.parse_instant("1969-12-31T23:59:59.9995Z", "timestamp")
    assert (early.floor_ms, early.ceil_ms) == (-1, 0)


@given(
    st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)),  # noqa: DTZ001 -- an offset follows
    st.integers(-18 * 60, 18 * 60),
)
def test_python_and_the_parser_agree_on_every_timestamp(local_time: datetime, minutes: int) -> None:
    aware = local_time.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    micros = (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    instant = instants.parse_instant(aware.isoformat(), "timestamp")
    assert instant.nanoseconds == micros * 1000
    assert instant.floor_ms * 1000 <= micros <= instant.ceil_ms * 1000
    assert instant.ceil_ms - instant.floor_ms == (1 if micros % 1000 else 0)
