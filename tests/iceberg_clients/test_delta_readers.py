"""Delta Sharing clients read the rows of Iceberg tables that Spark wrote on S3, or are refused with the column."""

import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import delta_sharing
import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from cli.conftest import Deltaic
from client.compare import assert_same_rows
from contract.recipient import Table
from deltaic_ops.local.resources import DATA_BUCKET
from deltaic_pipeline.spark.storage_access import S3Access
from filled_server import FilledServer
from golden.workbench import as_arrow
from iceberg.spark_with_iceberg import AWS, RUNTIME, spark_with
from iceberg_source.spark_tables import TABLES, write_table
from pull.rows import difference, rows_of, rows_of_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Sockets that pyspark leaves open.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

SHARE: Final = "written"
BRIEF: Final = ("vectors_partitioned", "position_deletes_by_partition")
"""Tables of both kinds of deletes; iceberg_source/test_spark_written.py reads the others."""
NAMES: Final = [pytest.param(name, marks=() if name in BRIEF else pytest.mark.long) for name in TABLES]
DELTA: Final = "responseformat=delta;readerfeatures=deletionvectors"
OPTIONS: Final[dict[str, Any]] = {"format": "iceberg", "access_modes": ("url",), "history": True}


@pytest.fixture(scope="module")
def spark(server: FilledServer) -> Iterator["SparkSession"]:
    admin = server.admin
    admin.shares.create(SHARE)
    admin.schemas.create(SHARE, "default")
    admin.grants.create("alice", SHARE)
    with spark_with(RUNTIME, AWS) as session:
        hadoop = session.sparkContext._jsc.hadoopConfiguration()
        for name, value in S3Access.from_environment(server.environment).hadoop().items():
            hadoop.set(name, value)
        session.conf.set("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
        session.conf.set("spark.sql.catalog.lake.type", "hadoop")
        session.conf.set("spark.sql.catalog.lake.warehouse", f"s3a://{DATA_BUCKET}/spark")
        yield session


def write(spark: "SparkSession", server: FilledServer, name: str, share: str = SHARE) -> Sequence[tuple[int, pa.Table]]:
    """Write and share a table; return the rows of each version as Spark reads them with Iceberg."""
    if not spark.catalog.tableExists(f"lake.main.{name}"):
        write_table(spark, f"lake.main.{name}", TABLES[name])
    server.admin.tables.create(share, "default", name, f"s3://{DATA_BUCKET}/spark/main/{name}", **OPTIONS)
    jvm: Any = spark._jvm
    java: Any = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, f"lake.main.{name}")
    logged = {entry.snapshotId() for entry in java.history()}
    numbers = {entry.sequenceNumber(): entry.snapshotId() for entry in java.snapshots() if entry.snapshotId() in logged}
    readers = {number: spark.read.option("versionAsOf", snapshot_id) for number, snapshot_id in numbers.items()}
    latest = java.currentSnapshot()
    readers[latest.sequenceNumber() if latest else 0] = spark.read
    return [(number, as_arrow(reader.table(f"lake.main.{name}"))) for number, reader in readers.items()]


def read_with_duckdb(reply: Any, folder: Path, schema: pa.Schema) -> pa.Table:
    """Download the files of a response in parquet format, and read them with DuckDB."""
    paths = []
    for number, file in enumerate(reply.only("file")):
        path = folder / f"{number}.parquet"
        with urllib.request.urlopen(file["url"]) as answer:  # noqa: S310 -- a signed URL of the test's own server
            path.write_bytes(answer.read())
        paths.append(str(path))
    if not paths:
        return pa.Table.from_pylist([], schema)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        # Rewritten files of v3 tables also have the columns of row lineage.
        rows: pa.Table = connection.read_parquet(paths, union_by_name=True).arrow().read_all().select(schema.names)
        return rows


def named(arrow: pa.Table) -> list[str]:
    return sorted(repr(row) for row in arrow.to_pylist())


@pytest.mark.parametrize("name", NAMES)
def test_clients_read_the_rows_of_spark(
    spark: "SparkSession", server: FilledServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    versions = write(spark, server, name)
    url, table = (
        f"{server.profile_of('alice')}#{SHARE}.default.{name}",
        Table(server.recipient("alice"), SHARE, "default", name),
    )
    for version, expected in versions:
        frame = delta_sharing.load_as_pandas(url, version=version, use_delta_format=True)
        assert_same_rows(frame, expected, zones=True, context=(name, version))
        by_names = table.query(version=version)
        if by_names.status == 400:
            assert b"deletionVectors" in by_names.body or b"The reason: " in by_names.body
        else:
            frame = delta_sharing.load_as_pandas(url, version=version)
            assert_same_rows(frame, expected, zones=False, context=(name, version, "parquet"))
            (folder := tmp_path / f"files{version}").mkdir()
            assert named(read_with_duckdb(by_names, folder, expected.schema)) == named(expected)
        for target in ("out.parquet", "copy/"):
            Deltaic({}).done(f"pull {url} {target} --version {version}")
            pulled = pq.read_table("out.parquet") if target == "out.parquet" else rows_of_folder(tmp_path / "copy")
            actual, rows = rows_of(pulled, expected.schema), rows_of(expected, expected.schema)
            assert actual == rows, difference(actual, rows)


@pytest.mark.parametrize("kind", ["position_deletes_partitioned", "vectors_partitioned"])
def test_a_filtered_recipient_gets_no_delete_file(spark: "SparkSession", server: FilledServer, kind: str) -> None:
    """Both kinds of delete files name rows of other partitions, so that only inline vectors are sent."""
    share = f"{SHARE}_{kind}"
    server.admin.shares.create(share)
    server.admin.schemas.create(share, "default")
    server.admin.grants.create("alice", share, partition_filter="name = '1'")
    _, expected = write(spark, server, kind, share)[-1]
    recipient = server.recipient("alice").with_headers(delta_sharing_capabilities=DELTA)
    reply = Table(recipient, share, "default", kind).query()
    vectors = [file["deltaSingleAction"]["add"].get("deletionVector") for file in reply.only("file")]
    assert {vector["storageType"] for vector in vectors if vector} == {"i"}
    assert b"-deletes" not in reply.body
    assert b".puffin" not in reply.body
    url = f"{server.profile_of('alice')}#{share}.default.{kind}"
    frame = delta_sharing.load_as_pandas(url, use_delta_format=True)
    assert_same_rows(frame, expected.filter(pc.equal(expected["name"], "1")), zones=True, context=kind)
