"""A table that replaces another at its location is read again, even with the same version, size and time."""

from pathlib import Path
from typing import Any

import boto3
import pytest
from delta_tables.handmade import HandmadeLog, add, metadata, protocol
from deltaic.delta.cache import SnapshotCache
from deltaic.delta.log import DeltaLog
from deltaic.storage.aws_credentials import Credentials
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.locations import TableLocations
from deltaic.storage.objects import ObjectTableStore
from deltaic_ops.local.embedded import EmbeddedAws

BUCKET = "overwritten"


@pytest.mark.parametrize("checkpoint", [False, True], ids=["commits", "checkpoint"])
def test_replaced_table_is_served_without_old_files(
    embedded_aws: EmbeddedAws, aws_session: boto3.Session, tmp_path: Path, checkpoint: bool
) -> None:
    client: Any = aws_session.client("s3", endpoint_url=embedded_aws.endpoint)
    client.create_bucket(Bucket=BUCKET)
    environment = embedded_aws.environment
    keys = Credentials(environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"])
    store = ObjectTableStore(
        TableLocations.parse(f"s3://{BUCKET}/t{checkpoint}"),
        StorageConfig(endpoint=embedded_aws.endpoint, path_style=True),
        lambda: keys,
    )
    cache = SnapshotCache(1 << 24)

    def write(name: str) -> None:
        hand = HandmadeLog(tmp_path / name)
        hand.commit(protocol(), metadata(), *(add(f"p=a/{name}{n}", n + 1) for n in range(5)))
        hand.commit(add(f"p=b/{name}", 9, "b"))
        if checkpoint:
            hand.classic(0)
            hand.hint(0)
        for path in sorted((tmp_path / name / "_delta_log").iterdir()):
            client.put_object(Bucket=BUCKET, Key=f"t{checkpoint}/_delta_log/{path.name}", Body=path.read_bytes())

    def paths() -> list[str]:
        snapshot = DeltaLog(store, cache, "t").snapshot()
        return sorted(path for batch in snapshot.files() for path in batch["path"].to_pylist())

    for name in ("one", "two", "one"):
        write(name)
        expected = sorted([*(f"p=a/{name}{n}" for n in range(5)), f"p=b/{name}"])
        assert paths() == expected
        assert paths() == expected
