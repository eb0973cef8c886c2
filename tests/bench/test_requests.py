"""Test the number of requests to the object store, because each costs 10 to 20 ms on S3."""

from collections.abc import Callable

import boto3
import pytest
from bench import measured_tables
from counted_requests import count_requests
from deltaic.delta.cache import SnapshotCache
from deltaic.delta.log import DeltaLog
from deltaic.delta.snapshot import Snapshot
from deltaic.storage.aws_credentials import Credentials
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.locations import TableLocations
from deltaic.storage.objects import ObjectTableStore
from deltaic_ops.local.embedded import EmbeddedAws

pytestmark = pytest.mark.slow

BUCKET = "requests-counted"
FILES = 100_000
LIVE = FILES + measured_tables.COMMITS * (measured_tables.ADDS_PER_COMMIT - measured_tables.REMOVES_PER_COMMIT)


@pytest.fixture(scope="module")
def store(
    embedded_aws: EmbeddedAws, aws_session: boto3.Session, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], ObjectTableStore]:
    """Return a function that opens a log of 100,000 files: a checkpoint, ten commits and version checksums."""
    folder = measured_tables.write(tmp_path_factory.mktemp("logs"), FILES)
    client = aws_session.client("s3", endpoint_url=embedded_aws.endpoint)
    client.create_bucket(Bucket=BUCKET)
    for path in sorted((folder / "_delta_log").iterdir(), key=lambda path: path.suffix == ".crc"):
        client.put_object(Bucket=BUCKET, Key=f"t/_delta_log/{path.name}", Body=path.read_bytes())
    environment = embedded_aws.environment
    keys = Credentials(environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"])
    storage = StorageConfig(endpoint=embedded_aws.endpoint, path_style=True)
    return lambda: ObjectTableStore(TableLocations.parse(f"s3://{BUCKET}/t"), storage, lambda: keys)


def read(snapshot: Snapshot) -> int:
    """Read a snapshot as a query does; return the number of files."""
    assert snapshot.totals().num_files == LIVE
    return sum(batch.num_rows for batch in snapshot.files())


def test_first_query_of_100k_files_needs_at_most_18_requests(store: Callable[[], ObjectTableStore]) -> None:
    objects = store()
    requests = count_requests(objects)
    assert read(DeltaLog(objects).snapshot()) == LIVE
    assert len(requests) <= 18  # nine of them for 34 MB of adds


def test_first_read_of_metadata_needs_at_most_6_requests(store: Callable[[], ObjectTableStore]) -> None:
    objects = store()
    requests = count_requests(objects)
    snapshot = DeltaLog(objects).snapshot()
    assert (snapshot.version, snapshot.totals().num_files) == (110, LIVE)
    assert snapshot.metadata.partition_columns == ["date"]
    assert len(requests) <= 6


def test_latest_version_needs_at_most_2_requests(store: Callable[[], ObjectTableStore]) -> None:
    objects = store()
    requests = count_requests(objects)
    assert DeltaLog(objects).latest_version() == 110
    assert len(requests) <= 2


def test_unchanged_version_needs_one_listing(store: Callable[[], ObjectTableStore]) -> None:
    cache = SnapshotCache(1 << 28)
    read(DeltaLog(store(), cache, "t").snapshot())
    later = store()
    requests = count_requests(later)
    assert read(DeltaLog(later, cache, "t").snapshot()) == LIVE
    assert len(requests) == 1
    assert DeltaLog(later, cache, "t").latest_version() == 110
    assert len(requests) == 2
