"""Cached lines are shared by all recipients, signatures are not."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from delta_tables.folder_store import FolderStore
from delta_tables.handmade import HandmadeLog, add, metadata, protocol, vector
from deltaic.delta.cache import SnapshotCache
from deltaic.delta.log import DeltaLog
from deltaic.protocol.capabilities import ResponseFormat
from deltaic.sharing.audit_record import ResponseMetrics
from deltaic.sharing.lines.line_cache import LineCache
from deltaic.sharing.lines.rendering import FileStyle, render
from deltaic.storage.aws_credentials import Credentials
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.locations import TableLocations
from deltaic.storage.table_urls import TableUrls

FILES = 1500
NAMES = [f"reader{number}" for number in range(8)]
SIGNER = re.compile(rb"X-Amz-Credential=AKIA([a-z0-9]+)%2F")
SESSION = re.compile(rb"X-Amz-Security-Token=of-([a-z0-9]+)&")


def urls(name: str) -> TableUrls:
    """Return the signer for one recipient."""
    return TableUrls(
        TableLocations.parse("s3://lake/t"),
        StorageConfig(endpoint="http://127.0.0.1:9000", path_style=True),
        Credentials(f"AKIA{name}", f"secret of {name}", f"of-{name}"),
        ttl=timedelta(hours=1),
        now=datetime(2026, 1, 2, tzinfo=UTC),
    )


@pytest.mark.parametrize("response_format", ["parquet", "delta"])
def test_parallel_recipients_get_their_own_urls(tmp_path: Path, response_format: ResponseFormat) -> None:
    hand = HandmadeLog(tmp_path)
    hand.commit(protocol(3, 7, "deletionVectors"), metadata())
    marked = vector("dv000000000000000001") if response_format == "delta" else None
    hand.commit(*(add(f"p=a/f{n:04d}", n + 1, vector=marked if n % 9 == 0 else None) for n in range(FILES)))
    hand.classic(1, row_group=700)
    hand.commit(add("p=a/late", 7))
    cache, line_cache = SnapshotCache(1 << 24), LineCache(1 << 24)

    def query(name: str) -> bytes:
        snapshot = DeltaLog(FolderStore(tmp_path), cache, "t").snapshot()
        lines = line_cache.for_snapshot(("t", response_format), snapshot)
        assert lines is not None
        style = FileStyle(response_format, response_format)
        return b"".join(
            chunk for batch in snapshot.scan() for chunk in render(batch, urls(name), style, ResponseMetrics(), lines)
        )

    expected = {name: query(name) for name in NAMES}
    with ThreadPoolExecutor(len(NAMES)) as pool:
        answers = list(pool.map(query, NAMES * 3))
    for name, answer in zip(NAMES * 3, answers, strict=True):
        assert answer == expected[name]
        assert answer.count(b"\n") == FILES + 1
        assert set(SIGNER.findall(answer)) == set(SESSION.findall(answer)) == {name.encode()}
