"""Test versions by time: by in-commit timestamps if enabled, else by increasing file times."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from delta_tables.folder_store import FolderStore
from delta_tables.handmade import HandmadeLog, add, metadata, protocol
from deltaic.delta.cache import SnapshotCache
from deltaic.delta.log import DeltaLog
from deltaic.delta.store import LogFile
from deltaic.delta.times import file_time, increasing
from deltaic.errors import MalformedRequest, TableUnreadable
from hypothesis import given, settings
from hypothesis import strategies as st

T = 1_700_000_000_000


def write_log(root: Path, *times: int) -> DeltaLog:
    log = HandmadeLog(root)
    log.commit(metadata(), protocol(), modified=T + times[0])
    for version, time in enumerate(times[1:], 1):
        log.commit(add(f"f{version}"), modified=T + time)
    return DeltaLog(FolderStore(root))


def info(timestamp: int) -> dict[str, dict[str, int]]:
    return {"commitInfo": {"inCommitTimestamp": T + timestamp, "timestamp": 1}}


@pytest.mark.parametrize(
    ("time", "before", "after"),
    [
        pytest.param(1000, 0, 0, id="exactly_the_first"),
        pytest.param(1001, 0, 1, id="just_after_the_first"),
        pytest.param(1999, 0, 1, id="just_before_the_second"),
        pytest.param(2000, 1, 1, id="exactly_the_second"),
        pytest.param(2001, 2, 2, id="file_time_that_ran_backwards_is_one_later"),
        pytest.param(2002, 2, 3, id="after_it"),
        pytest.param(5000, 3, 3, id="exactly_the_last"),
    ],
)
def test_versions_by_file_time(tmp_path: Path, time: int, before: int, after: int) -> None:
    log = write_log(tmp_path, 1000, 2000, 500, 5000)
    assert log.history.version_at_or_before(T + time) == before
    assert log.history.version_at_or_after(T + time) == after


def test_times_out_of_range_raise_the_references_messages(tmp_path: Path) -> None:
    log = write_log(tmp_path, 1000, 2000)
    with pytest.raises(
        MalformedRequest,
        match=r"The provided timestamp \(2023-11-14 22:13:20\.999\) is before the earliest version available: it is "
        r"before the earliest available version 0 "
        r".*Please use a timestamp greater than or equal to 2023-11-14 22:13:21\.0 \(2023-11-14T22:13:21\.000Z\)\.",
    ):
        log.history.version_at_or_before(T + 999)
    for find_version in (log.history.version_at_or_before, log.history.version_at_or_after):
        with pytest.raises(
            MalformedRequest,
            match=r"is after the latest available version 1 .*Please use a timestamp less than or equal to 2023-11-14 "
            r"22:13:22\.0 \(2023-11-14T22:13:22\.000Z\)\.",
        ):
            find_version(T + 2001)
    assert log.history.version_at_or_after(0) == 0


def test_deleted_commits_have_no_time(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(metadata(), protocol(), modified=T)
    for version in range(1, 6):
        log.commit(add(f"f{version}"), modified=T + version * 1000)
    log.classic(3)
    log.forget(0)
    delta = DeltaLog(FolderStore(tmp_path))
    assert delta.history.version_at_or_after(0) == 3
    with pytest.raises(MalformedRequest, match="before the earliest available version 3"):
        delta.history.version_at_or_before(T + 2000)


def in_commit_log(root: Path, configuration: dict[str, str]) -> HandmadeLog:
    """Write versions 0 and 1 with file times, 2 to 5 with in-commit timestamps."""
    log = HandmadeLog(root)
    log.commit(metadata(), protocol(1, 7, "inCommitTimestamp"), modified=T)
    log.commit(add("f1"), modified=T + 1000)
    log.commit(info(2000), metadata({"delta.enableInCommitTimestamps": "true"} | configuration), modified=T + 90_000)
    for version in (3, 4, 5):
        log.commit(info(version * 1000), add(f"f{version}"), modified=T + 100)
    return log


@pytest.mark.parametrize(
    ("time", "before", "after"),
    [
        pytest.param(0, 0, 0, id="file_time"),
        pytest.param(1500, 1, 2, id="between_the_two_kinds"),
        pytest.param(2000, 2, 2, id="enablement"),
        pytest.param(2001, 2, 3, id="after_enablement"),
        pytest.param(3000, 3, 3, id="exactly_an_in_commit_time"),
        pytest.param(4999, 4, 5, id="between_in_commit_times"),
        pytest.param(5000, 5, 5, id="last"),
    ],
)
def test_versions_by_in_commit_timestamp(tmp_path: Path, time: int, before: int, after: int) -> None:
    in_commit_log(
        tmp_path,
        {
            "delta.inCommitTimestampEnablementVersion": "2",
            "delta.inCommitTimestampEnablementTimestamp": str(T + 2000),
        },
    )
    log = DeltaLog(FolderStore(tmp_path))
    assert log.history.version_at_or_before(T + time) == before
    assert log.history.version_at_or_after(T + time) == after
    assert log.snapshot(4).timestamp == T + 4000
    assert log.snapshot(1).timestamp == T + 1000
    assert [commit.timestamp - T for commit in log.commits(0, 5)] == [0, 1000, 2000, 3000, 4000, 5000]


def test_in_commit_timestamps_since_the_first_commit_need_no_enablement_version(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    on = metadata({"delta.enableInCommitTimestamps": "true"})
    log.commit(info(10), on, protocol(1, 7, "inCommitTimestamp"), modified=T + 99)
    log.commit(info(20), add("f"), modified=T + 98)
    delta = DeltaLog(FolderStore(tmp_path))
    assert [delta.history.version_at_or_before(T + 10), delta.history.version_at_or_before(T + 20)] == [0, 1]
    with pytest.raises(MalformedRequest, match="after the latest"):
        delta.history.version_at_or_before(T + 21)


def test_the_search_reads_few_commits(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    on = metadata({"delta.enableInCommitTimestamps": "true"})
    log.commit(info(0), on, protocol(1, 7, "inCommitTimestamp"))
    for version in range(1, 200):
        log.commit(info(version * 10), add(f"f{version}"))
    log.classic(199)
    log.checksum(199, inCommitTimestampOpt=T + 1990)
    store = FolderStore(tmp_path)
    assert DeltaLog(store).history.version_at_or_before(T + 555) == 55
    assert len(store.calls) < 15


def test_all_times_of_a_request_need_one_listing(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(metadata(), protocol(), modified=T)
    for version in range(1, 50):
        log.commit(add(f"f{version}"), modified=T + version * 1000)
    store = FolderStore(tmp_path)
    delta = DeltaLog(store, SnapshotCache(1 << 24), "t")
    delta.snapshot()
    store.calls.clear()
    versions = [
        find_version(T + 20_000)
        for find_version in (delta.history.version_at_or_before, delta.history.version_at_or_after)
    ]
    assert [*versions, delta.history.version_at_or_before(T + 41_500)] == [20, 20, 41]
    assert store.calls.count("list ") == len([call for call in store.calls if call.startswith("list")]) == 2
    assert not [call for call in store.calls if call.endswith(".json")]


def test_a_missing_in_commit_timestamp_is_refused(tmp_path: Path) -> None:
    log = in_commit_log(tmp_path, {"delta.inCommitTimestampEnablementVersion": "1"})
    with pytest.raises(TableUnreadable, match=r"00000000000000000001\.json has no inCommitTimestamp"):
        DeltaLog(FolderStore(tmp_path)).history.version_at_or_before(T + 1500)
    assert json.loads((log.log / f"{1:020d}.json").read_text())


@settings(deadline=None)
@given(st.lists(st.integers(0, 1000), min_size=1))
def test_file_times_always_increase_and_never_move_back(times: list[int]) -> None:
    versions = increasing([LogFile(f"{at}", 1, time) for at, time in enumerate(times)])
    assert all(later > earlier for earlier, later in pairwise(versions))
    assert all(moved >= time for moved, time in zip(versions, times, strict=True))
    assert versions[0] == times[0]


@pytest.mark.parametrize(
    "time_of",
    [
        pytest.param(lambda _: 0, id="copied_at_once"),
        pytest.param(lambda version: (version // 3) * 1000, id="busy_seconds"),
        pytest.param(lambda version: version % 7 * 1000, id="copied_in_parallel"),
        pytest.param(lambda version: 0 if version < 620 else 90_000 + version, id="copied_then_written"),
        pytest.param(lambda version: 90_000 if version == 10 else version, id="a_clock_that_ran_ahead"),
    ],
)
def test_a_version_has_the_same_time_everywhere(tmp_path: Path, time_of: Callable[[int], int]) -> None:
    """Independent of the start of a range, and in a range, a snapshot or a lookup."""
    versions = 640
    hand = HandmadeLog(tmp_path)
    for version in range(versions):
        hand.commit(*([add(f"f{version}")] if version else [metadata(), protocol()]), modified=T + time_of(version))
    hand.classic(100)
    hand.classic(620)
    log = DeltaLog(FolderStore(tmp_path))
    times = increasing([LogFile(str(version), 1, T + time_of(version)) for version in range(versions)])
    for start in (0, 520, 639):
        by_version = {commit.version: commit.timestamp for commit in log.commits(start, versions - 1)}
        assert by_version == {version: times[version] for version in range(start, versions)}
    for version in (2, 101, 639):
        assert log.snapshot(version).timestamp == times[version]
        lookups = log.history.version_at_or_before, log.history.version_at_or_after
        assert {find_version(times[version]) for find_version in lookups} == {version}


def test_ordered_file_times_need_one_short_listing(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(metadata(), protocol(), modified=T)
    for version in range(1, 600):
        log.commit(add(f"f{version}"), modified=T + version * 1000)
    store = FolderStore(tmp_path)
    assert file_time(store, 599) == T + 599_000
    assert store.calls == [f"list {99:020d}"]
