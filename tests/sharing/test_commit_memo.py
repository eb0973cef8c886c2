"""The commit memo reads commits once while an answer is planned, up to a limit, and drops them afterwards."""

from pathlib import Path

import pytest
from delta_tables.folder_store import FolderStore
from delta_tables.handmade import HandmadeLog, add, metadata, protocol
from deltaic.delta.log import DeltaLog
from deltaic.sharing.change_feed.commit_memo import CommitMemo

COMMITS = 120


@pytest.fixture
def hand_log(tmp_path: Path) -> HandmadeLog:
    log = HandmadeLog(tmp_path)
    log.commit(protocol(), metadata())
    for version in range(1, COMMITS + 1):
        log.commit(add(f"f{version}"))
    return log


def read_commits(store: FolderStore) -> list[str]:
    """Return the commits that were read since the last call."""
    commits = [call for call in store.calls if call.startswith("get ") and call.endswith(".json")]
    store.calls.clear()
    return commits


def test_the_head_and_the_range_share_their_commits(hand_log: HandmadeLog) -> None:
    folder = FolderStore(hand_log.root)
    with CommitMemo(folder) as store:
        log = DeltaLog(store)
        assert log.snapshot().totals().num_files == COMMITS
        assert log.snapshot(60).totals().num_files == 60
        versions = [commit.version for commit in log.commits(0, COMMITS)]
        assert versions == list(range(COMMITS + 1))
        assert len(read_commits(folder)) == COMMITS + 1
    assert [commit.version for commit in log.commits(0, 1)] == [0, 1]
    assert len(read_commits(folder)) == 2


def test_large_commits_are_not_kept(hand_log: HandmadeLog) -> None:
    hand_log.commit(add("large", tags={"x": "x" * (9 << 20)}))
    folder = FolderStore(hand_log.root)
    with CommitMemo(folder) as store:
        paths = [f"_delta_log/{version:020d}.json" for version in (COMMITS, COMMITS + 1)]
        first = store.get_many(paths)
        assert store.get_many(paths) == first
        assert read_commits(folder) == [f"get {paths[0]}", f"get {paths[1]}", f"get {paths[1]}"]


def test_other_and_missing_objects_are_read_each_time(hand_log: HandmadeLog) -> None:
    hand_log.hint(0)
    folder = FolderStore(hand_log.root)
    with CommitMemo(folder) as store:
        for _ in range(2):
            assert store.get("_delta_log/_last_checkpoint")
            with pytest.raises(FileNotFoundError):
                store.get_many([f"_delta_log/{COMMITS + 7:020d}.json"])
            assert len(folder.calls) == 2
            folder.calls.clear()
