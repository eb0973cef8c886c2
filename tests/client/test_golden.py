"""Test that the published client reads every golden table as Spark does: versions, formats, change feeds."""

from collections.abc import Callable, Iterable
from typing import Any

import delta_sharing
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from client.compare import assert_same_rows
from client.golden_shares import (
    CHANGE_FEEDS,
    CLIENT_ERRORS,
    COLUMNS_CHANGE,
    FORMATS,
    REFUSED_AS_PARQUET,
    Format,
    Shared,
    commit_times,
)
from client.provider import Provider
from golden.library import names

pytestmark = [
    # The garbage collector removes the client's temporary folder if a table is empty or unreadable.
    pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning"),
    # In parquet format the client concatenates frames with different columns.
    pytest.mark.filterwarnings("ignore:The behavior of DataFrame concatenation with empty or all-NA:FutureWarning"),
]

Share = Callable[[str], Shared]

QUICK = ("all_types", "checkpoint_struct_stats")
"""Tables with columns of every type, which the quick part reads too."""


def mark_slow(tables: Iterable[str]) -> list[Any]:
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in tables]


def read_table(shared: Shared, version: int | None, as_format: Format | None) -> pd.DataFrame:
    requested = None if as_format is None else as_format == "delta"
    frame: pd.DataFrame = delta_sharing.load_as_pandas(shared.url, version=version, use_delta_format=requested)
    return frame


def read_changes(shared: Shared, first: int, last: int, as_format: Format) -> pd.DataFrame:
    frame: pd.DataFrame = delta_sharing.load_table_changes_as_pandas(
        shared.url, first, last, use_delta_format=as_format == "delta"
    )
    return frame


def test_lists_of_golden_tables_contain_only_existing_tables() -> None:
    assert {*QUICK, *REFUSED_AS_PARQUET} <= set(names())
    assert {name for name, _ in CLIENT_ERRORS} <= set(names())


@pytest.mark.parametrize("as_format", FORMATS)
@pytest.mark.parametrize("name", mark_slow(names()))
def test_every_version_has_the_rows_that_spark_read(shared: Share, name: str, as_format: Format) -> None:
    table = shared(name)
    latest = table.golden.versions[-1]
    for version in table.golden.versions:
        # Request the latest version like most clients: without a version, and without the default format.
        requested = version if version < latest else None
        in_format = None if requested is None and table.default_format == as_format else as_format
        if refused_features := table.refused_features(version, as_format):
            body = {} if requested is None else {"version": requested}
            table.requested(as_format).query(body).refused(
                400,
                "UNSUPPORTED_OPERATION",
                *refused_features,
                "responseformat=delta",
                ",".join(map(str.lower, refused_features)),
            )
            with pytest.raises(Exception, match=refused_features[0]):
                read_table(table, requested, as_format)
        elif error := table.expected_error(version, as_format):
            with pytest.raises(Exception, match=error):
                read_table(table, requested, in_format)
        else:
            context = f"{name} version {version} as {as_format}"
            assert_same_rows(
                read_table(table, requested, in_format),
                table.rows(version),
                zones=as_format == "delta",
                context=context,
            )


@pytest.mark.parametrize("as_format", FORMATS)
@pytest.mark.parametrize("name", mark_slow(CHANGE_FEEDS))
def test_the_change_feed_equals_sparks(provider: Provider, shared: Share, name: str, as_format: Format) -> None:
    table = shared(name)
    assert table.golden.change_range is not None
    first, last = table.golden.change_range
    if refused_features := table.refused_features(last, as_format):
        answer = table.requested(as_format).changes(f"?startingVersion={first}&endingVersion={last}")
        answer.refused(400, "UNSUPPORTED_OPERATION", *refused_features, "responseformat=delta")
        return
    if error := table.expected_error(last, as_format):
        with pytest.raises(Exception, match=error):
            read_changes(table, first, last, as_format)
        return
    if as_format == "delta" and name in COLUMNS_CHANGE:
        with pytest.raises(Exception, match="Start and end version schemas are different"):
            read_changes(table, first, last, as_format)
        first = COLUMNS_CHANGE[name]
    expected = table.golden.changes()
    expected = expected.filter(pc.greater_equal(expected["_commit_version"], first))
    frame = read_changes(table, first, last, as_format)
    if as_format == "parquet":
        # Frames of this format contain milliseconds.
        frame["_commit_timestamp"] = pd.to_datetime(frame["_commit_timestamp"], unit="ms", utc=True)
    times = commit_times(provider, table)
    times_in_range = [times[version] for version in expected["_commit_version"].to_pylist()]
    if as_format == "delta":
        times_in_range = [
            time // 1000 * 1000 for time in times_in_range
        ]  # the client passes whole seconds to its kernel
    index = expected.column_names.index("_commit_timestamp")
    column = pa.array(times_in_range, pa.timestamp("ms", tz="UTC")).cast(expected.schema.field(index).type)
    expected = expected.set_column(index, expected.schema.field(index), column)
    assert_same_rows(frame, expected, zones=as_format == "delta", context=f"changes of {name} as {as_format}")


@pytest.mark.slow
def test_many_rows_are_read_in_batches(shared: Share) -> None:
    table = shared("twelve_thousand_rows")
    for limit in (None, 500, 3000):
        frame = delta_sharing.load_as_pandas(table.url, limit, use_delta_format=True, convert_in_batches=True)
        assert frame["id"].nunique() == len(frame) == (limit or 12_000)
        if limit is None:
            assert_same_rows(frame, table.rows(4), zones=True, context="all rows, in batches")
    feed = delta_sharing.load_table_changes_as_pandas(table.url, 0, 4, use_delta_format=True, convert_in_batches=True)
    assert feed.groupby("_commit_version").size().to_dict() == {1: 100, 2: 900, 3: 4000, 4: 7000}
    expected = table.golden.changes().drop_columns("_commit_timestamp")
    assert_same_rows(feed.drop(columns="_commit_timestamp"), expected, zones=True, context="the feed, in batches")
