"""Test that the connector reads the same rows as Spark: versions, formats, limits and columns."""

from collections.abc import Callable

import pytest
from client.golden_shares import FORMATS, Format, Shared
from golden.library import names

from connector.sharing import Connector, rows

pytestmark = [
    pytest.mark.connector,
    # pyspark leaves the sockets of collected rows to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

Share = Callable[[str], Shared]

VARIED = ("all_types", "partitioned_types", "deletion_vectors", "column_mapping_name", "everything", "odd_columns")
"""Tables of which limits and columns are read."""


@pytest.mark.parametrize("name", names())
def test_default_format_reads_the_latest_version(connector: Connector, shared: Share, name: str) -> None:
    table = shared(name)
    expected = rows(table.golden.rows(table.golden.versions[-1]))
    connector.wire.take()
    assert rows(connector.read(table.name)) == expected
    metadata, query = connector.requests("metadata", "query")
    assert metadata.headers["delta-sharing-capabilities"].startswith("responseformat=parquet,delta;")
    assert query.headers["delta-sharing-capabilities"].startswith(f"responseformat={table.default_format}")


@pytest.mark.parametrize("as_format", FORMATS)
@pytest.mark.parametrize("name", names())
def test_every_version_is_read(connector: Connector, shared: Share, name: str, as_format: Format) -> None:
    table = shared(name)
    versions = table.golden.versions
    # In delta format, where a read takes three times as long, read only some versions.
    for version in versions if as_format == "parquet" else {versions[0], versions[len(versions) // 2], versions[-1]}:
        if refusal := table.refused_features(version, as_format):
            with pytest.raises(Exception, match=refusal[0]):
                rows(connector.read(table.name, as_format, versionAsOf=version))
        else:
            received = rows(connector.read(table.name, as_format, versionAsOf=version))
            assert received == rows(table.golden.rows(version)), f"{name} version {version} as {as_format}"


@pytest.mark.parametrize("as_format", FORMATS)
@pytest.mark.parametrize("name", VARIED)
def test_limits_and_columns_are_read(connector: Connector, shared: Share, name: str, as_format: Format) -> None:
    table = shared(name)
    version = table.golden.versions[-1]
    if table.refused_features(version, as_format):
        return
    all_rows = table.golden.rows(version)
    expected = rows(all_rows)
    read = connector.read(table.name, as_format)
    assert read.count() == all_rows.num_rows
    for limit in (1, all_rows.num_rows - 1, all_rows.num_rows + 1):
        received = rows(read.limit(limit))
        assert received.total() == min(limit, all_rows.num_rows)
        assert received <= expected
    backwards = all_rows.column_names[::-1]
    for columns in (backwards, backwards[:1], backwards[-1:]):
        assert rows(read.select(*(f"`{column}`" for column in columns))) == rows(all_rows.select(columns)), columns
