"""Delta Sharing clients read tables that are already Iceberg tables."""

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import delta_sharing
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli.conftest import Deltaic
from contract.recipient import Recipient, Reply, Table
from deltaic_ops.local.resources import DATA_BUCKET
from filled_server import FilledServer
from iceberg_clients.tables import glue_writer
from pull.rows import rows_of_folder
from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType, StructType

SHARE: Final = "lake"
ROOT: Final = f"s3://{DATA_BUCKET}/lake"
BY_URL: Final[dict[str, Any]] = {"format": "iceberg", "access_modes": ("url",), "history": True}
COLUMNS: Final = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "country", StringType()), NestedField(3, "note", StringType())
)
BY_COUNTRY: Final = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "country"))


def _rows(first: int, count: int = 12) -> pa.Table:
    rows: pa.Table = pa.table({
        "id": pa.array(range(first, first + count), pa.int64()),
        "country": [("FI", "PL", "SE")[number % 3] for number in range(count)],
        "note": [f"order {number}" for number in range(first, first + count)],
    })  # fmt: skip
    return rows


@pytest.fixture(scope="module")
def writer(server: FilledServer) -> GlueCatalog:
    catalog = glue_writer(server)
    catalog.create_namespace("lake")
    return catalog


@pytest.fixture(scope="module")
def tables(server: FilledServer, writer: GlueCatalog) -> dict[str, Any]:
    """Write and share tables; returns them by name."""
    written = {}
    for name, specification in {"plain": PartitionSpec(), "orders": BY_COUNTRY, "renamed": BY_COUNTRY}.items():
        table = writer.create_table(f"lake.{name}", COLUMNS, f"{ROOT}/{name}", specification)
        table.append(_rows(0))
        table.append(_rows(12))
        table.delete("country = 'SE'")
        written[name] = table
    with written["renamed"].update_schema() as update:
        update.rename_column("note", "remark")
    written["empty"] = writer.create_table("lake.empty", COLUMNS, f"{ROOT}/empty")
    admin = server.admin
    admin.shares.create(SHARE)
    admin.schemas.create(SHARE, "default")
    for name in written:
        admin.tables.create(SHARE, "default", name, f"{ROOT}/{name}", metadata_location=f"glue://lake/{name}", **BY_URL)
    for name, folder in {"of_country": "orders", "of_country_renamed": "renamed"}.items():
        options = {**BY_URL, "partition_filter": "country = current_recipient('country')"}
        location = f"glue://lake/{folder}"
        admin.tables.create(SHARE, "default", name, f"{ROOT}/{folder}", metadata_location=location, **options)
    for recipient in ("alice", "bob"):
        admin.grants.create(recipient, SHARE)
    return written


@pytest.fixture(scope="module")
def shared(server: FilledServer, tables: dict[str, Any]) -> Callable[..., Table]:
    assert tables
    return lambda name, recipient="alice": Table(server.recipient(recipient), SHARE, "default", name)


def _loaded(server: FilledServer, name: str, recipient: str = "alice", **options: Any) -> pd.DataFrame:
    return delta_sharing.load_as_pandas(f"{server.profile_of(recipient)}#{SHARE}.default.{name}", **options)


def _sorted(rows: pd.DataFrame) -> list[dict[str, Any]]:
    return sorted(rows.to_dict("records"), key=lambda row: row["id"])


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("delta", [False, True])
@pytest.mark.parametrize("name", ["plain", "orders", "empty"])
def test_the_published_client_reads_every_version(
    server: FilledServer, tables: dict[str, Any], name: str, delta: bool
) -> None:
    table = tables[name]
    latest = _loaded(server, name, use_delta_format=delta)
    assert _sorted(latest) == _sorted(table.scan().to_pandas())
    assert list(latest.columns) == ["id", "country", "note"]
    for snapshot in table.metadata.snapshots:
        expected = table.scan(snapshot_id=snapshot.snapshot_id).to_pandas()
        assert _sorted(_loaded(server, name, version=snapshot.sequence_number, use_delta_format=delta)) == _sorted(
            expected
        )


def test_a_renamed_column_is_read_by_field_id_only(
    server: FilledServer, tables: dict[str, Any], shared: Callable[..., Table]
) -> None:
    assert _sorted(_loaded(server, "renamed", use_delta_format=True)) == _sorted(tables["renamed"].scan().to_pandas())
    shared("renamed").query().refused(
        400, "UNSUPPORTED_OPERATION", "columnMapping", "the column note was renamed to remark"
    )


def test_a_struct_that_lost_a_field_is_read_in_delta_format_only(
    server: FilledServer, writer: GlueCatalog, tables: dict[str, Any], shared: Callable[..., Table]
) -> None:
    """In parquet format, clients return structs as the files have them, with a dropped field."""
    assert tables
    inner = StructType(NestedField(2, "kept", LongType()), NestedField(3, "dropped", LongType()))
    table = writer.create_table("lake.structs", Schema(NestedField(1, "inner", inner)), f"{ROOT}/structs")
    table.append(pa.table({"inner": [{"kept": 1, "dropped": 2}]}))
    with table.update_schema() as update:
        update.delete_column(("inner", "dropped"))
    location = "glue://lake/structs"
    server.admin.tables.create(SHARE, "default", "structs", f"{ROOT}/structs", metadata_location=location, **BY_URL)
    shared("structs").query().refused(400, "UNSUPPORTED_OPERATION", "field inner.dropped was dropped from its struct")
    rows = _loaded(server, "structs", use_delta_format=True)
    assert rows.to_dict("records") == [{"inner": {"kept": 1}}]


def test_versions_and_times_are_those_of_the_snapshots(tables: dict[str, Any], shared: Callable[..., Table]) -> None:
    log = tables["orders"].metadata.snapshot_log
    assert shared("orders").at().version == 3
    assert shared("empty").at().version == 0
    assert shared("orders").metadata().only("metaData")[0]["id"] == str(tables["orders"].metadata.table_uuid)
    for number, entry in enumerate(log, start=1):
        moment = pd.Timestamp(entry.timestamp_ms, unit="ms", tz="UTC").isoformat(timespec="milliseconds")
        assert shared("orders").query({"timestamp": moment.replace("+00:00", "Z")}).version == number
    shared("orders").query({"version": 9}).refused(400, "MALFORMED_REQUEST", "version 9", "sequence numbers")
    shared("orders").query({"timestamp": "2001-01-01T00:00:00Z"}).refused(
        400, "MALFORMED_REQUEST", "before the earliest"
    )


def test_pages_have_every_file_once(shared: Callable[..., Table]) -> None:
    table = shared("orders")
    whole = [file["id"] for file in table.query().only("file")]
    body: dict[str, Any] = {"maxFiles": 1}
    paged: list[str] = []
    while True:
        page = table.query(body)
        paged += [file["id"] for file in page.only("file")]
        if not (token := page.end.get("nextPageToken")):
            break
        body = {"maxFiles": 1, "pageToken": token}
    assert len(whole) == 4
    assert sorted(paged) == sorted(whole)


def test_recipients_get_the_files_of_their_partitions(server: FilledServer, tables: dict[str, Any]) -> None:
    for recipient, country in {"alice": "PL", "bob": "FI"}.items():
        expected = tables["orders"].scan(row_filter=f"country = '{country}'").to_pandas()
        for delta in (False, True):
            assert _sorted(_loaded(server, "of_country", recipient, use_delta_format=delta)) == _sorted(expected)
    reply = Table(server.recipient("bob"), SHARE, "default", "of_country").query()
    assert {file["partitionValues"]["country"] for file in reply.only("file")} == {"FI"}
    assert reply.only("metaData")[0]["numFiles"] == len(reply.only("file"))


def test_hints_skip_files_by_partition_and_by_bounds(shared: Callable[..., Table]) -> None:
    assert len(shared("orders").query({"predicateHints": ["country = 'PL'"]}).only("file")) == 2
    assert len(shared("plain").query({"predicateHints": ["id >= 12"]}).only("file")) == 1
    assert not shared("plain").query({"predicateHints": ["id > 1000"]}).only("file")


@pytest.mark.parametrize("delta", [False, True])
@pytest.mark.parametrize("name", ["orders", "of_country"])
def test_the_published_client_reads_changes(
    server: FilledServer, tables: dict[str, Any], name: str, delta: bool
) -> None:
    assert tables
    visible = {"of_country": ["PL"]}.get(name, ["FI", "PL", "SE"])
    url = f"{server.profile_of('alice')}#{SHARE}.default.{name}"
    for first in (0, 1, 3):
        changes = delta_sharing.load_table_changes_as_pandas(url, starting_version=first, use_delta_format=delta)
        changes = changes[["id", "country", "_change_type", "_commit_version"]]
        expected = [
            (row["id"], row["country"], kind, version)
            for version, kind, ids in ((1, "insert", range(12)), (2, "insert", range(12, 24)), (3, "delete", range(24)))
            for row in _rows(ids.start, len(ids)).to_pylist()
            if version >= first and row["country"] in visible and (kind == "insert" or row["country"] == "SE")
        ]
        assert sorted(map(tuple, changes.to_numpy())) == sorted(expected)


def test_changes_of_a_version_that_rewrites_rows_are_refused(shared: Callable[..., Table]) -> None:
    table = shared("plain")
    assert len(table.query({"startingVersion": 1, "endingVersion": 2}).only("add", "file")) == 2
    table.query({"startingVersion": 2}).refused(400, "UNSUPPORTED_OPERATION", "version 3", "rewrites rows", "version 4")
    table.changes("?startingVersion=3").refused(400, "UNSUPPORTED_OPERATION", "version 3", "rewrites rows")


def test_streams_get_the_files_of_later_versions(shared: Callable[..., Table]) -> None:
    table, body = shared("orders"), {"startingVersion": 1, "maxFiles": 2}
    lines: list[Any] = []
    while True:
        page = table.query(body)
        lines += page.only("add", "remove", "file")
        if not (token := page.end.get("nextPageToken")):
            break
        body = {"startingVersion": 1, "maxFiles": 2, "pageToken": token}
    assert [line["version"] for line in lines] == [1] * 3 + [2] * 3 + [3] * 2


@pytest.fixture
def changing(server: FilledServer, writer: GlueCatalog, tables: dict[str, Any]) -> Any:
    """Return a shared table with two versions of two files each, which the test may change."""
    assert tables
    name = f"changing_{uuid4().hex[:8]}"
    table = writer.create_table(f"lake.{name}", COLUMNS, f"{ROOT}/{name}", BY_COUNTRY)
    table.append(_rows(0, 2))
    table.append(_rows(2, 2))
    location = f"glue://lake/{name}"
    server.admin.tables.create(SHARE, "default", name, f"{ROOT}/{name}", metadata_location=location, **BY_URL)
    return table


def _ids(*replies: Reply) -> list[str]:
    return sorted(file["id"] for reply in replies for file in reply.only("file"))


def test_commits_between_pages_change_nothing(shared: Callable[..., Table], changing: Any) -> None:
    table = shared(changing.name()[-1])
    complete, first = table.query(), table.query(maxFiles=1)
    changing.append(_rows(4, 2))
    changing.delete("country = 'FI'")
    rest = table.query(pageToken=first.end["nextPageToken"])
    assert _ids(first, rest) == _ids(complete)
    assert (rest.version, table.at().version) == (2, 4)


def test_expired_snapshots_are_refused_by_version(shared: Callable[..., Table], changing: Any) -> None:
    table = shared(changing.name()[-1])
    first, feed = table.query(maxFiles=1), table.query(maxFiles=1, startingVersion=1)
    changing.append(_rows(4, 2))
    changing.maintenance.expire_snapshots().by_ids([entry.snapshot_id for entry in changing.snapshots()[:2]]).commit()
    refused = [
        table.query(pageToken=first.end["nextPageToken"]),
        table.query(pageToken=feed.end["nextPageToken"], startingVersion=1),
        table.query(version=2),
        table.query(startingVersion=2),
        table.changes("?startingVersion=1"),
    ]
    for reply in refused:
        reply.refused(400, "MALFORMED_REQUEST", "table version", "does not exist")
    assert len(table.query(startingVersion=3).only("add", "file")) == 2


def test_a_copy_follows_a_change_of_the_partition_columns(
    server: FilledServer, writer: GlueCatalog, changing: Any, tmp_path: Path
) -> None:
    """The files remain, but the copy of a file then needs a value for the new partition column."""
    name = f"{changing.name()[-1]}_by"
    table = writer.create_table(f"lake.{name}", COLUMNS, f"{ROOT}/{name}")
    table.append(_rows(0, 2))
    with table.update_spec() as update:
        update.add_identity("country")
    table.append(_rows(2, 3))
    location = f"glue://lake/{name}"
    server.admin.tables.create(SHARE, "default", name, f"{ROOT}/{name}", metadata_location=location, **BY_URL)
    url = f"{server.profile_of('alice')}#{SHARE}.default.{name}"
    for condition in ("id < 2", "id < 3"):  # first all rows of the only file without partition values
        Deltaic({}).done(f"pull {url} {tmp_path}/copy/")
        assert _sorted(rows_of_folder(tmp_path / "copy").to_pandas()) == _sorted(table.scan().to_pandas())
        table.delete(condition)


@pytest.mark.parametrize("suffix", ["-m0.avro", ".avro", ".metadata.json"])
def test_missing_metadata_is_refused_with_its_name(
    server: FilledServer, shared: Callable[..., Table], changing: Any, suffix: str
) -> None:
    s3, table = server.client("s3"), shared(changing.name()[-1])
    listed = s3.list_objects_v2(Bucket=DATA_BUCKET, Prefix=f"lake/{changing.name()[-1]}/metadata/")["Contents"]
    for item in listed:
        if item["Key"].endswith(suffix):
            s3.delete_object(Bucket=DATA_BUCKET, Key=item["Key"])
    for reply in (table.query(), table.query(maxFiles=1), table.query(startingVersion=1)):
        reply.refused(400, "RESOURCE_DOES_NOT_EXIST", "metadata")


def test_files_outside_the_folder_are_refused_until_their_folder_is_shared(
    server: FilledServer, shared: Callable[..., Table], changing: Any
) -> None:
    name, target = changing.name()[-1], BytesIO()
    pq.write_table(_rows(100, 1), target)
    server.client("s3").put_object(Bucket=DATA_BUCKET, Key="lake/foreign/a b.parquet", Body=target.getvalue())
    changing.add_files([f"{ROOT}/foreign/a b.parquet"])
    for body in ({}, {"startingVersion": 3}):
        reply = shared(name).query(body)
        assert reply.status == 400
        assert "outside" in reply.json["message"]
    server.admin.tables.update(SHARE, "default", name, auxiliary_locations=(f"{ROOT}/foreign",))
    assert _sorted(_loaded(server, name)) == _sorted(changing.scan().to_pandas())


def test_other_doors_are_closed(shared: Callable[..., Table]) -> None:
    table = shared("orders")
    recipient: Recipient = table.recipient
    recipient.post(f"{table.path}/temporary-table-credentials", {}).refused(400, "UNSUPPORTED_OPERATION", "URLs only")
    assert recipient.get(table.path).json["format"] == "delta"
