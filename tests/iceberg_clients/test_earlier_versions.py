"""Earlier versions for which a client would wait too long: listed meanwhile, and their files signed from then on."""

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
    """Return what makes the means of a process, which remembers for itself, at a time."""
    known = server.environment
    for name, value in known.items():
        monkeypatch.setenv(name, value)
    region, endpoint = known["AWS_REGION"], known["AWS_ENDPOINT_URL"]
    home, table, dynamo = StorageConfig(region, endpoint, path_style=True), known["CATALOG_TABLE"], dynamo_of(known)
    return lambda clock: sharing(
        catalog=CatalogReader(table, dynamo),
        counters=LimitCounters(table, dynamo),
        sessions=SigningSessions(region=region, endpoint=endpoint),
        home=home,
        iceberg_bucket=lambda: ServerBucket(known["ICEBERG_BUCKET"], home),
        clock=clock,
    )


def test_what_is_missing_is_listed_meanwhile(server: FilledServer, process: Callable[..., Sharing]) -> None:
    place = f"s3://{DATA_BUCKET}/{NAME.table}"
    server.admin.tables.create(SHARE, "default", NAME.table, place, iceberg="signed", history=True)
    write(server, NAME.table, ORDERS)
    [first] = DeltaTable(place, storage_options=options(server)).file_uris()
    write(server, NAME.table, ORDERS)
    DeltaTable(place, storage_options=options(server)).optimize.compact()
    caller = Caller(server.readers["alice"].id, "token", "alice", "127.0.0.1")
    now, begun = 1_800_000_000.0, list[int]()
    one, other = process(lambda: now), process(lambda: now)

    def beyond(folder: str, version: int) -> DeltaicError:
        assert folder
        begun.append(version)
        return Unavailable("it is being made")

    def table() -> SharedTable:
        return one.table(caller, NAME)

    def sign(made: GeneratedMetadata) -> bytes:
        token = seal_set(one, table(), SignedSet(made.folder, made.version, made.index_key, made.listed))
        uri = f"{server.environment['AWS_ENDPOINT_URL']}/{first.removeprefix('s3://')}"
        return sign_request(one, caller, NAME, token, SigningRequest("GET", uri))

    latest = generate_metadata(one, table(), NO_TIME, beyond)
    assert (latest.version, latest.listed, begun) == (2, 1, [2])
    with pytest.raises(PermissionDenied):
        sign(latest)
    assert generate_metadata(other, table(), NO_TIME, beyond).listed == 1
    assert generate_metadata(one, table(), TIME).listed == 3  # in the background
    assert generate_metadata(other, table(), NO_TIME, beyond).listed == 1  # for a minute
    now += 61
    found = generate_metadata(other, table(), NO_TIME, beyond)
    assert (found.version, found.listed, begun) == (2, 3, [2, 2])
    assert b"authorization" in sign(found)


def test_what_has_come_since_the_first_version_that_is_left_stands_apart(
    server: FilledServer, process: Callable[..., Sharing]
) -> None:
    """Of a table of many files, whose log begins with a checkpoint."""
    name = RequestedTable(SHARE, "default", "wide")
    place = f"s3://{DATA_BUCKET}/{name.table}"
    server.admin.tables.create(SHARE, "default", name.table, place, iceberg="signed", history=True)
    few = ORDERS.slice(0, 1)
    many = list(range(FILES_A_MANIFEST))
    parts = pa.table({"id": many, "country": [str(at) for at in many], "note": ["n" for _ in many]})
    write(server, name.table, parts.cast(ORDERS.schema), partition_by=["country"])
    write(server, name.table, few)
    DeltaTable(place, storage_options=options(server)).create_checkpoint()
    write(server, name.table, few)
    server.client("s3").delete_object(Bucket=DATA_BUCKET, Key=f"{name.table}/_delta_log/{0:020d}.json")
    one = process(time.time)
    table = one.table(Caller(server.readers["alice"].id, "token", "alice", "127.0.0.1"), name)
    made = generate_metadata(one, table, Bounds(files=10_000, earlier_seconds=60.0))
    index = read_index(one.iceberg_bucket(), made.index_key)
    assert index is not None
    assert index.versions == (1, 2)
    assert [manifest.files for manifest in index.manifests] == [FILES_A_MANIFEST, 1, 1]


def test_versions_that_no_answer_can_hold_are_left_out(server: FilledServer, catalog: Callable[..., Catalog]) -> None:
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
        found = catalog().load("many_columns").metadata
    finally:
        server.admin.tables.delete(SHARE, "default", "many_columns")
    numbers = [one["snapshot-id"] - 10**12 for one in found["snapshots"]]
    assert numbers == list(range(4))[-len(numbers) :]
    assert 1 <= len(numbers) < 4
    assert len(found["schemas"][-1]["fields"]) == columns + 3
