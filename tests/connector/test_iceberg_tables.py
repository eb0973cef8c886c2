"""Test that the connector reads Iceberg tables that Spark wrote: every version in both formats, and changes."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pytest
from client.golden_shares import FORMATS
from client.provider import SHARE
from deltaic_ops.local.resources import DATA_BUCKET
from golden.workbench import as_arrow
from iceberg_clients.test_delta_readers import write

from connector.sharing import Connector, rows

pytestmark = [
    pytest.mark.connector,
    # pyspark leaves the sockets of collected rows to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

NAMES: Final = ("partition_renamed_v2", "vectors_partitioned", "expired_v2", "empty_string")
DROPPED: Final = "dropped_files_with_deletes_v3"


@pytest.fixture(scope="module")
def iceberg(connector: Connector) -> Connector:
    """Add a catalog of Iceberg tables in the bucket to the session."""
    connector.spark.conf.set("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
    connector.spark.conf.set("spark.sql.catalog.lake.type", "hadoop")
    connector.spark.conf.set("spark.sql.catalog.lake.warehouse", f"s3a://{DATA_BUCKET}/spark")
    connector.provider.admin.schemas.create(SHARE, "default")
    return connector


def _url(iceberg: Connector, name: str) -> str:
    return f"{iceberg.provider.profile}#{SHARE}.default.{name}"


@pytest.mark.parametrize("name", NAMES)
def test_every_version_has_the_rows_of_iceberg(iceberg: Connector, name: str) -> None:
    for version, expected in write(iceberg.spark, iceberg.provider, name, SHARE):
        for as_format in FORMATS:
            reader = iceberg.reader(as_format, versionAsOf=version)
            try:
                received = rows(reader.load(_url(iceberg, name)))
            except Exception as refused:  # noqa: BLE001 -- Spark wraps the refusal
                assert as_format == "parquet"
                assert "deletionVectors" in str(refused) or "The reason: " in str(refused)  # noqa: PT017
                continue
            assert received == rows(expected), (name, version, as_format)


def test_changes_are_the_differences_of_the_versions(iceberg: Connector) -> None:
    """A dropped file had deleted rows, which its removal does not delete again."""
    versions: Mapping[int, pa.Table] = dict(write(iceberg.spark, iceberg.provider, DROPPED, SHARE))
    reader = iceberg.reader("delta", readChangeFeed="true", startingVersion=3)
    feed = as_arrow(reader.load(_url(iceberg, DROPPED)).select("id", "_change_type", "_commit_version"))
    expected: Counter[tuple[int, str, int]] = Counter()
    for version in (3, 4):
        before, after = (Counter(versions[number]["id"].to_pylist()) for number in (version - 1, version))
        expected.update({(key, "delete", version): count for key, count in (before - after).items()})
        expected.update({(key, "insert", version): count for key, count in (after - before).items()})
    assert Counter(tuple(row.values()) for row in feed.to_pylist()) == expected
