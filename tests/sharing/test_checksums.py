"""Version checksums (`N.crc`) are used only if they match the log."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from delta_tables.folder_store import FolderStore
from delta_tables.handmade import HandmadeLog, add, metadata, protocol, remove, vector
from deltaic.delta.cache import SnapshotCache
from deltaic.delta.log import DeltaLog
from deltaic.errors import UnsupportedOperation
from sharing.means import Feed

VECTORS = protocol(3, 7, "deletionVectors")
WIDER = json.dumps(
    {"type": "struct", "fields": [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in "py"]}
)


def long_log(root: Path, head: Any = None) -> HandmadeLog:
    """Write a table with a checkpoint and two commits after it, so that a checksum is read."""
    log = HandmadeLog(root)
    log.commit(head or protocol(), metadata())
    for version in range(1, 5):
        log.commit(add(f"f{version}", 10))
    log.classic(2)
    return log


def replace_commit(log: HandmadeLog) -> None:
    """Keep the checksum of a commit, and replace the commit by one of another table."""
    log.checksum(4)
    for version in (3, 4):
        log.forget(version)
    del log.commits[3:]
    log.commit(metadata({"note": "new"}, WIDER), add("g3", 7))
    log.commit(add("g4", 8), remove("f1"))
    set_times(log, commit=10**18, checksum=10**18 - 10**9)


def set_times(log: HandmadeLog, *, commit: int, checksum: int) -> None:
    for kind, time in (("json", commit), ("crc", checksum)):
        os.utime(log.log / f"{4:020d}.{kind}", ns=(time, time))


def write_older_checksum(log: HandmadeLog) -> None:
    log.checksum(4, metadata=metadata({"note": "old"})["metaData"], numFiles=100)
    set_times(log, commit=10**18, checksum=10**18 - 10**9)


def write_same_time(log: HandmadeLog) -> None:
    """Give commit and checksum the same time, as within one second in S3."""
    replace_commit(log)
    set_times(log, commit=10**18, checksum=10**18)


def write_other_schema(log: HandmadeLog) -> None:
    log.commits[4].append(metadata({"note": "newest"}, WIDER))
    (log.log / f"{4:020d}.json").write_text("".join(json.dumps(action) + "\n" for action in log.commits[4]))
    log.checksum(4, metadata=metadata()["metaData"])


def write_too_few_files(log: HandmadeLog) -> None:
    log.checksum(4, numFiles=1)


def remove_checkpoint(log: HandmadeLog) -> None:
    log.clear_checkpoints()
    log.checksum(4, numFiles=5)


CHANGES = [
    *(replace_commit, write_older_checksum, write_same_time),
    *(write_other_schema, write_too_few_files, remove_checkpoint),
]


@pytest.mark.parametrize("arrange", CHANGES, ids=lambda arrange: arrange.__name__)
def test_query_follows_the_log(tmp_path: Path, arrange: Callable[[HandmadeLog], None]) -> None:
    log = long_log(tmp_path)
    arrange(log)
    feed, expected = Feed(tmp_path), log.state()
    assert expected.metadata is not None
    for _ in range(2):  # the second time from the cache
        _, head, *files = [json.loads(line) for line in b"".join(feed.query().chunks).splitlines()]
        assert head["metaData"]["schemaString"] == expected.metadata["schemaString"]
        assert head["metaData"]["numFiles"] == len(expected.files) == len(files)
        assert head["metaData"]["size"] == sum(action["size"] for action in expected.files.values())
    # Metadata requests read the same snapshot.
    assert feed.log.snapshot().metadata.configuration == expected.metadata["configuration"]


@pytest.mark.parametrize("arrange", [replace_commit, write_older_checksum], ids=lambda arrange: arrange.__name__)
def test_a_checksum_older_than_its_commit_is_not_read(tmp_path: Path, arrange: Callable[[HandmadeLog], None]) -> None:
    log = long_log(tmp_path)
    arrange(log)
    store = FolderStore(tmp_path)
    snapshot = DeltaLog(store, SnapshotCache(1 << 20), "t").snapshot()
    assert snapshot.metadata.configuration == log.state().metadata["configuration"]  # type: ignore[index]
    assert not any(call.endswith(".crc") for call in store.calls)


def test_checksum_that_matches_the_commits_is_used(tmp_path: Path) -> None:
    log = long_log(tmp_path)
    log.checksum(4)
    snapshot = DeltaLog(FolderStore(tmp_path)).snapshot()
    assert snapshot.load_commits() is snapshot


def test_the_time_in_a_checksum_counts_only_with_in_commit_timestamps(tmp_path: Path) -> None:
    log = long_log(tmp_path)
    without = DeltaLog(FolderStore(tmp_path)).snapshot().timestamp
    log.checksum(4, inCommitTimestampOpt=12345)
    assert DeltaLog(FolderStore(tmp_path)).snapshot().timestamp == without


def test_vectors_that_a_checksum_denies_refuse_the_parquet_format(tmp_path: Path) -> None:
    log = long_log(tmp_path, VECTORS)
    log.commit(remove("f4"), add("f4", 10, vector=vector("ab^-aqEH.-t@S}K{vb[*k^")))
    log.checksum(5, numDeletionVectorsOpt=0)
    with pytest.raises(UnsupportedOperation, match="deletionVectors"):
        Feed(tmp_path).query()


def test_a_vector_that_the_protocol_does_not_allow_refuses_the_parquet_format(tmp_path: Path) -> None:
    log = long_log(tmp_path)
    log.commit(remove("f4"), add("f4", 10, vector=vector("ab^-aqEH.-t@S}K{vb[*k^")))
    with pytest.raises(UnsupportedOperation, match="deletion vector"):
        Feed(tmp_path).query()
