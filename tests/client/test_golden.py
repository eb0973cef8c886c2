"""The published client reads every table that Spark wrote as Spark reads it: versions, formats, change feeds."""

from collections.abc import Callable, Iterable
from typing import Any

import delta_sharing
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from client.compare import assert_same_rows
from client.golden_shares import (
    CHANGED,
    COLUMNS_CHANGE,
    FORMATS,
    REFUSED_AS_PARQUET,
    UNREADABLE,
    Format,
    Shared,
    commit_times,
)
from client.provider import Provider
from golden.library import names

pytestmark = [
    # The client leaves its temporary folder to the garbage collector where a table is empty or cannot be read.
    pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning"),
    # In parquet format it joins frames of which some lack a column.
    pytest.mark.filterwarnings("ignore:The behavior of DataFrame concatenation with empty or all-NA:FutureWarning"),
]

Share = Callable[[str], Shared]

EVERYWHERE = ("all_types", "checkpoint_struct_stats")
"""Tables with columns of every type: every Python's pandas and NumPy read them, and the others one Python's."""


def marked(tables: Iterable[str]) -> list[Any]:
    return [name if name in EVERYWHERE else pytest.param(name, marks=pytest.mark.slow) for name in tables]


def read(shared: Shared, version: int | None, as_format: Format | None) -> pd.DataFrame:
    asked = None if as_format is None else as_format == "delta"
    frame: pd.DataFrame = delta_sharing.load_as_pandas(shared.url, version=version, use_delta_format=asked)
    return frame


def read_changes(shared: Shared, first: int, last: int, as_format: Format) -> pd.DataFrame:
    frame: pd.DataFrame = delta_sharing.load_table_changes_as_pandas(
        shared.url, first, last, use_delta_format=as_format == "delta"
    )
    return frame


def test_what_is_known_of_golden_tables_is_known_of_tables_that_exist() -> None:
    assert {*EVERYWHERE, *REFUSED_AS_PARQUET} <= set(names())
    assert {name for name, _ in UNREADABLE} <= set(names())


@pytest.mark.parametrize("as_format", FORMATS)
@pytest.mark.parametrize("name", marked(names()))
def test_every_version_has_the_rows_that_spark_read(shared: Share, name: str, as_format: Format) -> None:
    table = shared(name)
    latest = table.golden.versions[-1]
    for version in table.golden.versions:
        # The latest is asked for as most people do: by no version, and where that gives this format by no format.
        asked = version if version < latest else None
        in_format = None if asked is None and table.found_out == as_format else as_format
        if refused := table.refused(version, as_format):
            body = {} if asked is None else {"version": asked}
            table.asked(as_format).query(body).refused(
                400, "UNSUPPORTED_OPERATION", *refused, "responseformat=delta", ",".join(map(str.lower, refused))
            )
            with pytest.raises(Exception, match=refused[0]):
                read(table, asked, as_format)
        elif error := table.unreadable(version, as_format):
            with pytest.raises(Exception, match=error):
                read(table, asked, in_format)
        else:
            told = f"{name} version {version} as {as_format}"
            assert_same_rows(read(table, asked, in_format), table.rows(version), zones=as_format == "delta", told=told)


@pytest.mark.parametrize("as_format", FORMATS)
@pytest.mark.parametrize("name", marked(CHANGED))
def test_the_change_feed_is_what_spark_read(provider: Provider, shared: Share, name: str, as_format: Format) -> None:
    table = shared(name)
    assert table.golden.change_range is not None
    first, last = table.golden.change_range
    if refused := table.refused(last, as_format):
        answer = table.asked(as_format).changes(f"?startingVersion={first}&endingVersion={last}")
        answer.refused(400, "UNSUPPORTED_OPERATION", *refused, "responseformat=delta")
        return
    if error := table.unreadable(last, as_format):
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
        # This format's frames have the milliseconds as they were sent.
        frame["_commit_timestamp"] = pd.to_datetime(frame["_commit_timestamp"], unit="ms", utc=True)
    times = commit_times(provider, table)
    known = [times[version] for version in expected["_commit_version"].to_pylist()]
    if as_format == "delta":
        known = [time // 1000 * 1000 for time in known]  # the client gives its kernel whole seconds
    at = expected.column_names.index("_commit_timestamp")
    column = pa.array(known, pa.timestamp("ms", tz="UTC")).cast(expected.schema.field(at).type)
    expected = expected.set_column(at, expected.schema.field(at), column)
    assert_same_rows(frame, expected, zones=as_format == "delta", told=f"changes of {name} as {as_format}")


@pytest.mark.slow
def test_rows_beyond_a_batch_are_read_in_batches(shared: Share) -> None:
    table = shared("twelve_thousand_rows")
    for limit in (None, 500, 3000):
        frame = delta_sharing.load_as_pandas(table.url, limit, use_delta_format=True, convert_in_batches=True)
        assert frame["id"].nunique() == len(frame) == (limit or 12_000)
        if limit is None:
            assert_same_rows(frame, table.rows(4), zones=True, told="all rows, in batches")
    feed = delta_sharing.load_table_changes_as_pandas(table.url, 0, 4, use_delta_format=True, convert_in_batches=True)
    assert feed.groupby("_commit_version").size().to_dict() == {1: 100, 2: 900, 3: 4000, 4: 7000}
    expected = table.golden.changes().drop_columns("_commit_timestamp")
    assert_same_rows(feed.drop(columns="_commit_timestamp"), expected, zones=True, told="the feed, in batches")
