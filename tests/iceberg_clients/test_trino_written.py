"""Delta Sharing clients read the rows of every snapshot that Trino wrote, or are refused by name."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

import delta_sharing
import pandas as pd
import pyarrow as pa
import pytest
from client.compare import assert_same_rows, rows_of_frame, rows_of_spark
from contract.recipient import Table
from deltaic_ops.local.resources import DATA_BUCKET
from filled_server import FilledServer
from iceberg_clients.tables import glue_writer
from iceberg_clients.trino import Trino, run_trino
from iceberg_clients.trino_tables import REFUSED, TABLES
from pyiceberg.table.metadata import TableMetadata
from requests import HTTPError  # type: ignore[import-untyped]

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

SHARE: Final = "by_trino"
OPTIONS: Final[dict[str, Any]] = {"format": "iceberg", "access_modes": ("url",), "history": True}
ADDING: Final = ("has other partition columns", "follows a rollback")
"""Why changes of a version that only adds rows are refused."""
NO_ROWS: Final = pd.DataFrame()


@pytest.fixture(scope="module")
def trino(server: FilledServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trino]:
    environment = server.environment
    region, endpoint = environment["AWS_REGION"], environment["AWS_ENDPOINT_URL"]
    key, secret = environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"]
    catalog = {
        "connector.name": "iceberg",
        "iceberg.catalog.type": "glue",
        "iceberg.expire-snapshots.min-retention": "0s",
        "iceberg.remove-orphan-files.min-retention": "0s",
        "hive.metastore.glue.region": region,
        "hive.metastore.glue.endpoint-url": endpoint,
        "hive.metastore.glue.aws-access-key": key,
        "hive.metastore.glue.aws-secret-key": secret,
        "fs.native-s3.enabled": "true",
        "s3.region": region,
        "s3.endpoint": endpoint,
        "s3.aws-access-key": key,
        "s3.aws-secret-key": secret,
        "s3.path-style-access": "true",
    }
    admin = server.admin
    admin.shares.create(SHARE)
    admin.schemas.create(SHARE, "default")
    admin.grants.create("alice", SHARE)
    with run_trino(tmp_path_factory.mktemp("trino"), catalog) as writer:
        writer.rows(f"CREATE SCHEMA {SHARE} WITH (location = 's3://{DATA_BUCKET}/trino')")
        yield writer


def _write(server: FilledServer, trino: Trino, name: str, steps: Sequence[str]) -> TableMetadata:
    """Write and share a table; return its metadata."""
    table = f"{SHARE}.{name}"
    for step in steps:
        sql = step.replace("{t}", table)
        if "{second}" in sql:
            snapshots = trino.rows(f'SELECT snapshot_id FROM {SHARE}."{name}$snapshots" ORDER BY committed_at')  # noqa: S608
            sql = sql.replace("{second}", str(snapshots[1][0]))
        trino.rows(sql)
    metadata = glue_writer(server).load_table(table).metadata
    location = f"glue://{SHARE}/{name}"
    server.admin.tables.create(SHARE, "default", name, metadata.location, metadata_location=location, **OPTIONS)
    return metadata


def _versions(trino: Trino, name: str, metadata: TableMetadata) -> dict[int, pa.Table]:
    """Return the rows of each version as Trino reads them; of several snapshots with one number, the newest."""
    logged = [metadata.snapshot_by_id(entry.snapshot_id) for entry in metadata.snapshot_log]
    snapshots = {snapshot.sequence_number or 0: snapshot.snapshot_id for snapshot in logged if snapshot}
    return {
        number: trino.table(
            f"SELECT * FROM {SHARE}.{name}"  # noqa: S608 -- names of this module
            + f" FOR VERSION AS OF {snapshot_id}" * (snapshot_id != metadata.current_snapshot_id)
        )
        for number, snapshot_id in sorted(snapshots.items())
    }


def _check_version(server: FilledServer, name: str, version: int, expected: pa.Table) -> None:
    """Assert that the client reads these rows in delta format, and in the format that it selects by itself."""
    url = f"{server.profile_of('alice')}#{SHARE}.default.{name}"
    frame = delta_sharing.load_as_pandas(url, version=version, use_delta_format=True)
    assert_same_rows(frame, expected, zones=True, context=(name, version))
    by_names = Table(server.recipient("alice"), SHARE, "default", name).query(version=version)
    if by_names.status == 400:
        assert b"deletionVectors" in by_names.body or b"The reason: " in by_names.body
    else:
        frame = delta_sharing.load_as_pandas(url, version=version)
        # The client reads `timestamp_ntz` in delta format only.
        zones = any(pa.types.is_timestamp(kind) and kind.tz is None for kind in expected.schema.types)
        assert_same_rows(frame, expected, zones=zones, context=(name, version, "by itself"))


def _check_changes(server: FilledServer, name: str, version: int, before: pa.Table, after: pa.Table) -> None:
    """Assert that the changes of a version lead from the rows before it to its rows, or are refused by name.

    Changes of a version that only adds rows are refused only for the reasons in ADDING.
    """
    url = f"{server.profile_of('alice')}#{SHARE}.default.{name}"
    rows, expected = (Counter(rows_of_spark(table, NO_ROWS)) for table in (before, after))
    reasons = ADDING if expected >= rows else ("rewrites rows", *ADDING)
    try:
        changes = delta_sharing.load_table_changes_as_pandas(
            url, starting_version=version, ending_version=version, use_delta_format=True
        )
    except HTTPError as refused:
        message = re.sub(r"['\s]+", " ", str(refused))
        prefix = f"changes of version {version} of this Iceberg table cannot be read: it"
        if not any(f"{prefix} {reason}" in message for reason in reasons):
            raise
        return
    for kind, sign in (("insert", 1), ("delete", -1)):
        of_kind = changes[changes["_change_type"] == kind][after.column_names]
        for row in rows_of_frame(of_kind, after.schema, zones=True):
            rows[row] += sign
    assert {row: count for row, count in rows.items() if count} == expected


@pytest.mark.parametrize("name", TABLES)
def test_clients_read_the_rows_of_trino(server: FilledServer, trino: Trino, name: str) -> None:
    metadata = _write(server, trino, name, TABLES[name])
    before: pa.Table | None = None
    for version, expected in _versions(trino, name, metadata).items():
        _check_version(server, name, version, expected)
        if before is not None and before.schema == expected.schema:
            _check_changes(server, name, version, before, expected)
        before = expected


@pytest.mark.parametrize("name", REFUSED)
def test_what_clients_would_misread_is_refused(server: FilledServer, trino: Trino, name: str) -> None:
    text, steps = REFUSED[name]
    metadata = _write(server, trino, name, steps)
    Table(server.recipient("alice"), SHARE, "default", name).query().refused(400, "UNSUPPORTED_OPERATION", text)
    if name == "orc_later":
        *earlier, _ = _versions(trino, name, metadata).items()
        for version, expected in earlier:
            _check_version(server, name, version, expected)
