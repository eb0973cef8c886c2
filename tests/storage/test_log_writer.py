"""What is written into a log is written once, or says why not."""

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
    made: Store = request.getfixturevalue(request.param)
    return made


def writer(store: Store, root: str) -> LogWriter:
    return LogWriter(TableLocations.parse(f"s3://{store.bucket}/{root}"), store.storage, store.reader)


def content(store: Store, key: str) -> bytes:
    found: bytes = store.client.get_object(Bucket=store.bucket, Key=key)["Body"].read()
    return found


def test_what_is_there_is_not_written_over(store: Store) -> None:
    log = writer(store, "a b%/created")
    assert log.create(PATH, b"first")
    assert not log.create(PATH, b"second")
    assert content(store, f"a b%/created/{PATH}") == b"first"


def test_a_hint_is_replaced(store: Store) -> None:
    log = writer(store, "replaced")
    for hint in (b"one", b"two"):
        log.replace("_delta_log/_last_checkpoint", hint)
        assert content(store, "replaced/_delta_log/_last_checkpoint") == hint


def test_a_large_object_is_written_whole(store: Store) -> None:
    body = bytes(range(256)) * 65_536  # 16 MiB: more than obstore would send in one request by itself
    assert writer(store, "large").create(PATH, body)
    assert content(store, f"large/{PATH}") == body


def test_whoever_may_not_write_is_told_so(ministack: Store) -> None:
    stranger = Credentials("AKIAIOSFODNN7EXAMPLE", "a secret that is nobody's")
    log = LogWriter(TableLocations.parse(f"s3://{ministack.bucket}/refused"), ministack.storage, lambda: stranger)
    with pytest.raises(TableUnreadable, match="may not write to the log"):
        log.create(PATH, b"x")


def test_nothing_outside_the_table_is_written(ministack: Store) -> None:
    with pytest.raises(UnsupportedOperation, match="outside the table"):
        writer(ministack, "inside").replace(f"s3://{ministack.bucket}/elsewhere/{PATH}", b"x")
