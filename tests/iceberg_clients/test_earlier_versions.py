"""Earlier versions are added in the background, and their files are signed afterwards."""

import json
import time
from collections.abc import Callable

import pyarrow as pa
import pytest
from delta_tables.handmade import lines, metadata, protocol
from deltaic.catalog.limit_counters import LimitCounters
from deltaic.catalog.reader import CatalogReader
from deltaic.errors import DeltaicError, PermissionDenied, Unavailable
from deltaic.iceberg.generation import FILES_A_MANIFEST
from deltaic.sharing.caller import Caller, RequestedTable
from deltaic.sharing.context import SharedTable, Sharing
from deltaic.sharing.iceberg_clients.metadata_folder import read_index
from deltaic.sharing.iceberg_clients.recipient_metadata import Bounds, GeneratedMetadata, generate_metadata
from deltaic.sharing.iceberg_clients.remote_signing import SigningRequest, sign_request
from deltaic.sharing.iceberg_clients.signed_set import SignedSet, seal_set
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.server_bucket import ServerBucket
from deltaic.storage.sessions import SigningSessions
from deltaic_ops.local.resources import DATA_BUCKET
from deltalake import DeltaTable
from filled_server import FilledServer, dynamo_of
from iceberg_clients.catalog import Catalog
from iceberg_clients.tables import ORDERS, SHARE, options, write
from sharing.means import sharing

NAME = RequestedTable(SHARE, "default", "long_ago")
NO_TIME, TIME = Bounds(files=10, earlier_seconds=0.0), Bounds(files=10, earlier_seconds=60.0)


@pytest.fixture
def process(server: FilledServer, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Sharing]:
    """Return a function that creates the context of a process with its own caches and clock."""
    environment = server.environment
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    region, endpoint = environment["AWS_REGION"], environment["AWS_ENDPOINT_URL"]
    home, table, dynamo = (
        StorageConfig(region, endpoint, path_style=True),
        environment["CATALOG_TABLE"],
        dynamo_of(environment),
    )
    return lambda clock: sharing(
        catalog=CatalogReader(table, dynamo),
        counters=LimitCounters(table, dynamo),
        sessions=SigningSessions(region=region, endpoint=endpoint),
        home=home,
        iceberg_bucket=lambda: ServerBucket(environment["ICEBERG_BUCKET"], home),
        clock=clock,
    )


def test_missing_versions_are_added_in_the_background(server: FilledServer, process: Callable[..., Sharing]) -> None:
    location = f"s3://{DATA_BUCKET}/{NAME.table}"
    server.admin.tables.create(SHARE, "default", NAME.table, location, iceberg="signed", history=True)
    write(server, NAME.table, ORDERS)
    [first] = DeltaTable(location, storage_options=options(server)).file_uris()
    write(server, NAME.table, ORDERS)
    DeltaTable(location, storage_options=options(server)).optimize.compact()
    caller = Caller(server.readers["alice"].id, "token", "alice", "127.0.0.1")
    now, started = 1_800_000_000.0, list[int]()
    first_process, second_process = process(lambda: now), process(lambda: now)

    def postpone(folder: str, version: int) -> DeltaicError:
        assert folder
        started.append(version)
        return Unavailable("the metadata is not ready")

    def table() -> SharedTable:
        return first_process.table(caller, NAME)

    def sign(generated: GeneratedMetadata) -> bytes:
        token = seal_set(
            first_process,
            table(),
            SignedSet(generated.folder, generated.version, generated.index_key, generated.listed),
        )
        uri = f"{server.environment['AWS_ENDPOINT_URL']}/{first.removeprefix('s3://')}"
        return sign_request(first_process, caller, NAME, token, SigningRequest("GET", uri))

    latest = generate_metadata(first_process, table(), NO_TIME, postpone)
    assert (latest.version, latest.listed, started) == (2, 1, [2])
    with pytest.raises(PermissionDenied):
        sign(latest)
    assert generate_metadata(second_process, table(), NO_TIME, postpone).listed == 1
    assert generate_metadata(first_process, table(), TIME).listed == 3  # in the background
    assert generate_metadata(second_process, table(), NO_TIME, postpone).listed == 1  # for a minute
    now += 61
    metadata = generate_metadata(second_process, table(), NO_TIME, postpone)
    assert (metadata.version, metadata.listed, started) == (2, 3, [2, 2])
    assert b"authorization" in sign(metadata)


def test_files_after_the_first_readable_version_get_separate_manifests(
    server: FilledServer, process: Callable[..., Sharing]
) -> None:
    """The table has many files, and its log starts with a checkpoint."""
    name = RequestedTable(SHARE, "default", "wide")
    location = f"s3://{DATA_BUCKET}/{name.table}"
    server.admin.tables.create(SHARE, "default", name.table, location, iceberg="signed", history=True)
    one_row = ORDERS.slice(0, 1)
    many = list(range(FILES_A_MANIFEST))
    parts = pa.table({"id": many, "country": [str(number) for number in many], "note": ["n" for _ in many]})
    write(server, name.table, parts.cast(ORDERS.schema), partition_by=["country"])
    write(server, name.table, one_row)
    DeltaTable(location, storage_options=options(server)).create_checkpoint()
    write(server, name.table, one_row)
    server.client("s3").delete_object(Bucket=DATA_BUCKET, Key=f"{name.table}/_delta_log/{0:020d}.json")
    context = process(time.time)
    table = context.table(Caller(server.readers["alice"].id, "token", "alice", "127.0.0.1"), name)
    generated = generate_metadata(context, table, Bounds(files=10_000, earlier_seconds=60.0))
    index = read_index(context.iceberg_bucket(), generated.index_key)
    assert index is not None
    assert index.versions == (1, 2)
    assert [manifest.files for manifest in index.manifests] == [FILES_A_MANIFEST, 1, 1]


def test_versions_that_exceed_an_answer_are_omitted(server: FilledServer, catalog: Callable[..., Catalog]) -> None:
    s3, columns = server.client("s3"), 12_000
    for version in range(4):
        names = [f"c{number}" for number in range(columns + version)]
        fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in names]
        schema = json.dumps({"type": "struct", "fields": fields})
        actions = [*([] if version else [protocol()]), metadata(schema=schema, partitions=())]
        s3.put_object(Bucket=DATA_BUCKET, Key=f"many_columns/_delta_log/{version:020d}.json", Body=lines(actions))
    server.admin.tables.create(
        SHARE, "default", "many_columns", f"s3://{DATA_BUCKET}/many_columns", iceberg="signed", history=True
    )
    try:
        loaded = catalog().load("many_columns").metadata
    finally:
        server.admin.tables.delete(SHARE, "default", "many_columns")
    numbers = [snapshot["snapshot-id"] - 10**12 for snapshot in loaded["snapshots"]]
    assert numbers == list(range(4))[-len(numbers) :]
    assert 1 <= len(numbers) < 4
    assert len(loaded["schemas"][-1]["fields"]) == columns + 3
