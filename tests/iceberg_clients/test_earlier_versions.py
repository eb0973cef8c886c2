"""Earlier versions for which a client would wait too long: listed meanwhile, and their files signed from then on."""

from collections.abc import Callable

import pytest
from deltaic.catalog.limit_counters import LimitCounters
from deltaic.catalog.reader import CatalogReader
from deltaic.errors import DeltaicError, PermissionDenied, Unavailable
from deltaic.sharing.caller import Caller, TableName
from deltaic.sharing.context import SharedTable, Sharing
from deltaic.sharing.iceberg_clients.made_metadata import Bounds, MadeMetadata, made_metadata
from deltaic.sharing.iceberg_clients.remote_signing import SigningRequest, sign_request
from deltaic.sharing.iceberg_clients.signed_set import SignedSet, seal_set
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.own_bucket import OwnBucket
from deltaic.storage.sessions import SigningSessions
from deltaic_ops.local.resources import DATA_BUCKET
from deltalake import DeltaTable
from filled_server import FilledServer, dynamo_of
from iceberg_clients.tables import ORDERS, SHARE, options, write
from sharing.means import sharing

NAME = TableName(SHARE, "default", "long_ago")
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
        iceberg_bucket=lambda: OwnBucket(known["ICEBERG_BUCKET"], home),
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

    def sign(made: MadeMetadata) -> bytes:
        token = seal_set(one, table(), SignedSet(made.folder, made.version, made.listed))
        uri = f"{server.environment['AWS_ENDPOINT_URL']}/{first.removeprefix('s3://')}"
        return sign_request(one, caller, NAME, token, SigningRequest("GET", uri))

    latest = made_metadata(one, table(), NO_TIME, beyond)
    assert (latest.version, latest.listed, begun) == (2, 1, [2])
    with pytest.raises(PermissionDenied):
        sign(latest)
    assert made_metadata(other, table(), NO_TIME, beyond).listed == 1
    assert made_metadata(one, table(), TIME).listed == 3  # in the background
    assert made_metadata(other, table(), NO_TIME, beyond).listed == 1  # for a minute
    now += 61
    found = made_metadata(other, table(), NO_TIME, beyond)
    assert (found.version, found.listed, begun) == (2, 3, [2, 2])
    assert b"authorization" in sign(found)
