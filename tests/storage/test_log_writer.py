"""Objects are written into a log once, or the writer raises the reason."""

import pytest
from deltaic.errors import TableUnreadable, UnsupportedOperation
from deltaic.storage.aws_credentials import Credentials
from deltaic.storage.locations import TableLocations
from deltaic.storage.log_writer import LogWriter
from storage.stores import Store

PATH = "_delta_log/00000000000000000009.checkpoint.parquet"


@pytest.fixture(params=["ministack", "seaweedfs"])
def store(request: pytest.FixtureRequest) -> Store:
    """Return each of the object stores."""
    object_store: Store = request.getfixturevalue(request.param)
    return object_store


def writer(store: Store, root: str) -> LogWriter:
    return LogWriter(TableLocations.parse(f"s3://{store.bucket}/{root}"), store.storage, store.reader)


def content(store: Store, key: str) -> bytes:
    body: bytes = store.client.get_object(Bucket=store.bucket, Key=key)["Body"].read()
    return body


def test_existing_object_is_not_overwritten(store: Store) -> None:
    log = writer(store, "a b%/created")
    assert log.create(PATH, b"first")
    assert not log.create(PATH, b"second")
    assert content(store, f"a b%/created/{PATH}") == b"first"


def test_a_hint_is_replaced(store: Store) -> None:
    log = writer(store, "replaced")
    for hint in (b"one", b"two"):
        log.replace("_delta_log/_last_checkpoint", hint)
        assert content(store, "replaced/_delta_log/_last_checkpoint") == hint


def test_large_object_is_written_in_one_request(store: Store) -> None:
    body = bytes(range(256)) * 65_536  # 16 MiB: by default, obstore would send several requests
    assert writer(store, "large").create(PATH, body)
    assert content(store, f"large/{PATH}") == body


def test_refused_write_raises_table_unreadable(ministack: Store) -> None:
    unknown = Credentials("AKIAIOSFODNN7EXAMPLE", "an unknown secret")
    log = LogWriter(TableLocations.parse(f"s3://{ministack.bucket}/refused"), ministack.storage, lambda: unknown)
    with pytest.raises(TableUnreadable, match="may not write to the log"):
        log.create(PATH, b"x")


def test_nothing_outside_the_table_is_written(ministack: Store) -> None:
    with pytest.raises(UnsupportedOperation, match="outside the table"):
        writer(ministack, "inside").replace(f"s3://{ministack.bucket}/elsewhere/{PATH}", b"x")
