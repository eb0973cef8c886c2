"""Test pruning by old times whose UTC offset in statistics lacks the seconds.

Older Spark writes times of statistics in the session's zone with the pattern XXX, which omits seconds. Until 1972 zones
had local mean time: 1899-12-31T15:54:17Z is 1900-01-01T00:00:00 in Shanghai, at +08:05:43, and written as +08:05.
"""

import struct
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo, available_timezones

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltaic.iceberg import avro
from deltaic.iceberg.column_bounds import FileMetrics
from deltaic.iceberg.table_schema import iceberg_schema
from deltaic.pruning.stats_bounds import from_typed
from deltaic.pruning.values import column_type
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import tries
from pruning.test_skipper import column, is_kept, skipper, stats, table

ZONES: Final = (
    "Asia/Shanghai",
    "Africa/Monrovia",
    "Europe/Amsterdam",
    "Europe/Dublin",
    "America/New_York",
    "Asia/Kolkata",
)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
TIMESTAMP: Final = column_type("timestamp")
MAP: Final = pa.map_(pa.string(), pa.string())
SHANGHAI: Final = "1900-01-01T00:00:00.000+08:05"


def as_old_spark_writes(instant: datetime, zone: str) -> str:
    """Return a time in statistics: cut to milliseconds, with the zone's offset cut to minutes."""
    local = instant.astimezone(ZoneInfo(zone))
    offset = local.utcoffset()
    assert offset is not None
    minutes = abs(offset) // timedelta(minutes=1)
    sign = "-" if offset < timedelta() else "+"
    text = f"{sign}{minutes // 60:02}:{minutes % 60:02}" if minutes else "Z"
    return local.replace(tzinfo=None).isoformat(timespec="milliseconds") + text


def microseconds(instant: datetime) -> int:
    return (instant - EPOCH) // timedelta(microseconds=1)


def typed_statistics(low: str, high: str) -> pa.StructArray:
    """Return typed statistics of one file, as Spark converts them from its JSON."""
    kind = pa.struct([("c", pa.timestamp("us", "UTC"))])
    times = pc.cast(pa.array([low, high]), pa.timestamp("us", "UTC")).to_pylist()
    rows: list[Any] = [{"minValues": {"c": times[0]}, "maxValues": {"c": times[1]}}]
    return pa.array(rows, pa.struct([("minValues", kind), ("maxValues", kind)]))


YEARS: Final = st.sampled_from([(1, 1973), (1880, 1972)])
INSTANTS: Final = YEARS.flatmap(
    lambda years: st.datetimes(datetime(years[0], 1, 3), datetime(years[1], 1, 8), timezones=st.just(UTC))  # noqa: DTZ001
)


@settings(deadline=None, max_examples=tries(200))
@given(zone=st.sampled_from(ZONES), instants=st.lists(INSTANTS, min_size=1, max_size=3))
def test_no_file_with_an_old_time_is_dropped(zone: str, instants: list[datetime]) -> None:
    low, high = as_old_spark_writes(min(instants), zone), as_old_spark_writes(max(instants), zone)
    for instant in instants:
        text = instant.isoformat().replace("+00:00", "Z")
        for operator in ("=", "<=", ">="):
            file_filter = skipper(table(column("c", "timestamp")), f"c {operator} TIMESTAMP '{text}'")
            maps = pa.array([[]], MAP)
            assert file_filter.by_json_statistics(maps, pa.array([stats(low, high)], pa.string())).to_pylist() == [
                True
            ], operator
            assert file_filter.by_typed_statistics(maps, typed_statistics(low, high)).to_pylist() == [True], operator


@settings(deadline=None, max_examples=tries(100))
@given(zone=st.sampled_from(ZONES), instants=st.lists(INSTANTS, min_size=1, max_size=3))
def test_bounds_for_iceberg_contain_every_old_time(zone: str, instants: list[datetime]) -> None:
    low, high = as_old_spark_writes(min(instants), zone), as_old_spark_writes(max(instants), zone)
    lower, upper = iceberg_bounds(stats(low, high))
    assert lower <= microseconds(min(instants)) <= microseconds(max(instants)) <= upper


def iceberg_bounds(text: str) -> tuple[int, int]:
    """Return the bounds of the only column of an Iceberg manifest.

    In the manifest each bound follows the column's id and the length.
    """
    metadata = table(column("c", "timestamp"))
    schema = iceberg_schema(metadata)
    _, (encoded,) = FileMetrics(metadata, schema).encode(pa.array([text], pa.string()))
    _, low, high = encoded.split(avro.integer(schema.leaf_ids["c",]) + avro.integer(8))
    return struct.unpack("<q", low[:8])[0], struct.unpack("<q", high[:8])[0]


@pytest.mark.parametrize(
    ("hint", "low", "high"),
    [
        ("c = TIMESTAMP '1899-12-31T15:54:17Z'", SHANGHAI, SHANGHAI),
        ("c = TIMESTAMP '1900-01-01T00:25:21Z'", "1900-01-01T00:00:00.000-00:25", "1900-01-01T00:00:00.000-00:25"),
        ("c < TIMESTAMP '1899-12-31T15:54:18Z'", SHANGHAI, "2020-01-01T00:00:00.000Z"),
    ],
)
def test_an_offset_without_its_seconds_keeps_the_file(hint: str, low: str, high: str) -> None:
    assert is_kept("timestamp", hint, stats(low, high)) is True
    file_filter = skipper(table(column("c", "timestamp")), hint)
    assert file_filter.by_typed_statistics(pa.array([[]], MAP), typed_statistics(low, high)).to_pylist() == [True]


def test_bounds_are_widened_by_a_minute_and_only_until_1972() -> None:
    assert is_kept("timestamp", "c = TIMESTAMP '1899-12-31T15:53:58Z'", stats(SHANGHAI, SHANGHAI)) is False
    late = "1972-07-01T00:00:00.000Z"
    assert is_kept("timestamp", "c < TIMESTAMP '1972-06-30T23:59:59Z'", stats(late, late)) is False


def test_no_zone_has_seconds_in_its_offset_since_mid_1972() -> None:
    months = [datetime(year, month, 1, tzinfo=UTC) for year in range(1972, 2030) for month in (1, 7)][1:]
    for name in available_timezones():
        zone = ZoneInfo(name)
        assert not any(
            (instant.astimezone(zone).utcoffset() or timedelta()) % timedelta(minutes=1) for instant in months
        )


def test_the_minimum_timestamp_stays_a_lower_bound() -> None:
    minimum = pc.cast(pa.array([-(1 << 63)], pa.int64()), pa.timestamp("us", "UTC"))
    bounds = from_typed(minimum, TIMESTAMP, upper=False)
    assert bounds is not None
    assert bounds.to_pylist() == [-(1 << 63)]
