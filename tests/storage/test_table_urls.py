"""URLs of a table's files in all its locations."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from deltaic.errors import UnsupportedOperation
from deltaic.storage.aws_credentials import Credentials
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.locations import Location, TableLocations
from deltaic.storage.signing import UrlSigner
from deltaic.storage.table_urls import TableUrls

NOW = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
HOUR = timedelta(hours=1)
KEYS = Credentials("AKID", "secret", "token")
LOCATIONS = TableLocations.parse("s3://lake/t 1", ["s3://lake/source", "s3://other/clone"])


@pytest.fixture
def urls() -> TableUrls:
    return TableUrls(LOCATIONS, StorageConfig(), KEYS, ttl=HOUR, now=NOW)


@pytest.mark.parametrize(
    ("path", "bucket", "key"),
    [
        ("d=1/x.parquet", "lake", "t 1/d=1/x.parquet"),
        ("d=a%20b/x.parquet", "lake", "t 1/d=a b/x.parquet"),
        ("s3://lake/t%201/x", "lake", "t 1/x"),
        ("s3a://lake/source/d=%2525/x", "lake", "source/d=%25/x"),
        ("s3://other/clone/x", "other", "clone/x"),
        ("../source/x", "lake", "source/x"),
    ],
)
def test_every_location_is_signed(urls: TableUrls, path: str, bucket: str, key: str) -> None:
    bucket_signer = UrlSigner(KEYS, StorageConfig(), Location(bucket, ""), ttl=HOUR, now=NOW)
    assert urls.url(path) == bucket_signer.url(key)


def test_batch_in_the_root_uses_the_signer(urls: TableUrls) -> None:
    paths = ["d=1/x.parquet", "d=a%20b/y.parquet", "s3://lake/t%201/z"]
    relative = urls.relative(pa.array(paths, pa.string()))
    assert relative is not None
    assert urls.signer.lines(b"", relative, [b"\n"] * 3).decode().split("\n")[:-1] == [urls.url(path) for path in paths]
    assert urls.relative(pa.array([*paths, "s3://other/clone/x"], pa.string())) is None


def test_all_urls_of_an_answer_expire_together(urls: TableUrls) -> None:
    assert urls.expires_at_ms == int((NOW + HOUR).timestamp() * 1000)
    for path in ("x", "s3://other/clone/x"):
        assert "X-Amz-Date=20260203T040506Z&X-Amz-Expires=3600&" in urls.url(path)


def test_files_outside_the_table_are_not_signed(urls: TableUrls) -> None:
    with pytest.raises(UnsupportedOperation, match="auxiliary locations"):
        urls.url("s3://lake/other-table/x")
