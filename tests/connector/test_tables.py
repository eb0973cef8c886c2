"""The connector reads every table that Spark wrote as Spark reads it: versions, formats, limits, columns, joins."""

from collections.abc import Callable

import pytest
from client.golden_shares import FORMATS, Format, Shared
from golden.library import names

from connector.sharing import Connector, rows

pytestmark = [
    pytest.mark.connector,
    # pyspark leaves the socket over which rows are collected to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

Share = Callable[[str], Shared]

VARIED = ("all_types", "partitioned_types", "deletion_vectors", "column_mapping_name", "everything", "odd_columns")
"""Tables on which parts of rows are read."""


@pytest.mark.parametrize("name", names())
def test_without_a_format_it_reads_the_latest_version(connector: Connector, shared: Share, name: str) -> None:
    table = shared(name)
    expected = rows(table.golden.rows(table.golden.versions[-1]))
    connector.wire.take()
    assert rows(connector.read(table.name)) == expected
    asked, answered = connector.asked("metadata", "query")
    assert asked.asked["delta-sharing-capabilities"].startswith("responseformat=parquet,delta;")
    assert answered.asked["delta-sharing-capabilities"].startswith(f"responseformat={table.default_format}")


@pytest.mark.parametrize("as_format", FORMATS)
@pytest.mark.parametrize("name", names())
def test_it_reads_every_version(connector: Connector, shared: Share, name: str, as_format: Format) -> None:
    table = shared(name)
    known = table.golden.versions
    # In delta format, where a read costs three times as much, only some of them.
    for version in known if as_format == "parquet" else {known[0], known[len(known) // 2], known[-1]}:
        if refused := table.refused_features(version, as_format):
            with pytest.raises(Exception, match=refused[0]):
                rows(connector.read(table.name, as_format, versionAsOf=version))
        else:
            found = rows(connector.read(table.name, as_format, versionAsOf=version))
            assert found == rows(table.golden.rows(version)), f"{name} version {version} as {as_format}"


@pytest.mark.parametrize("as_format", FORMATS)
@pytest.mark.parametrize("name", VARIED)
def test_it_reads_parts(connector: Connector, shared: Share, name: str, as_format: Format) -> None:
    table = shared(name)
    version = table.golden.versions[-1]
    if table.refused_features(version, as_format):
        return
    whole = table.golden.rows(version)
    expected = rows(whole)
    read = connector.read(table.name, as_format)
    assert read.count() == whole.num_rows
    for limit in (1, whole.num_rows - 1, whole.num_rows + 1):
        found = rows(read.limit(limit))
        assert found.total() == min(limit, whole.num_rows)
        assert found <= expected
    backwards = whole.column_names[::-1]
    for columns in (backwards, backwards[:1], backwards[-1:]):
        assert rows(read.select(*(f"`{column}`" for column in columns))) == rows(whole.select(columns)), columns
