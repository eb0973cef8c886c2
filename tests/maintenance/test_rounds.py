"""Test checkpoint runs: they write due checkpoints, and never overwrite what a writer has changed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from counted_requests import count_requests
from delta_tables.handmade import found_files
from deltaic.catalog.admin.table_locations import SharedLocation
from deltaic.delta.log import DeltaLog
from deltaic.delta.paths import LAST_CHECKPOINT
from deltaic.delta.store import LogFile
from deltaic.errors import Conflict, Unavailable
from deltaic.storage.log_writer import LogWriter
from deltaic.storage.objects import ObjectTableStore
from deltaic_checkpoint.checkpoint_run import MIN_COMMITS
from held_lease import held_lease
from pipeline.place import BUCKET

if TYPE_CHECKING:
    from maintenance.conftest import Tables

pytestmark = pytest.mark.slow


class InterruptedLog:
    """A log that calls a function once while its commits are read."""

    def __init__(self, store: ObjectTableStore, meanwhile: Callable[[], None]) -> None:
        self._store = store
        self._meanwhile: list[Callable[[], None]] = [meanwhile]

    def list_log(self, start_after: str = "") -> Iterator[LogFile]:
        return self._store.list_log(start_after)

    def get(self, path: str) -> bytes:
        return self._store.get(path)

    def get_many(self, paths: Sequence[str]) -> list[bytes]:
        contents = self._store.get_many(paths)
        while self._meanwhile:
            self._meanwhile.pop()()
        return contents

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return self._store.get_ranges(path, ranges)

    def get_tail(self, path: str, length: int) -> tuple[bytes, int]:
        return self._store.get_tail(path, length)


def read(tables: "Tables", name: str) -> tuple[int, Any, Any, list[Any], int]:
    """Return a table's state, read without cache, and the number of requests."""
    store = tables.store(name)
    requests = count_requests(store)
    snapshot = DeltaLog(store).snapshot()
    state = snapshot.version, snapshot.protocol, snapshot.metadata, found_files(snapshot.files())
    return *state, len(requests)


def interrupt(
    tables: "Tables", meanwhile: Callable[[], None]
) -> Callable[[SharedLocation], tuple[InterruptedLog, LogWriter]]:
    def log(table: SharedLocation) -> tuple[InterruptedLog, LogWriter]:
        store, writer = tables.log(table)
        return InterruptedLog(store, meanwhile), writer

    return log


def test_log_without_checkpoint_gets_one_and_needs_fewer_requests(tables: "Tables") -> None:
    tables.write("orders", 30, partition_by=["name"])
    tables.share("orders")
    before, objects = read(tables, "orders"), tables.objects("orders")
    assert tables.run_checkpoints() == {
        "written": 1, "not due": 0, "held": 0, "refused": 0, "failed": 0, "left": 0,
    }  # fmt: skip
    after = read(tables, "orders")
    assert after[:-1] == before[:-1]
    # Before: the hint, a listing and each commit. After: the hint, a listing, and at most two for the checkpoint.
    assert before[-1] == 32
    assert after[-1] <= 4
    # The existing objects are unchanged.
    assert tables.objects("orders").items() >= objects.items()
    assert tables.objects("orders").keys() - objects.keys() == {
        f"{29:020d}.checkpoint.parquet",
        "_last_checkpoint",
    }
    assert held_lease(tables.leases, tables.location("orders")) is None


def test_next_checkpoint_is_due_after_ten_commits(tables: "Tables") -> None:
    tables.write("orders", MIN_COMMITS)
    tables.share("orders")
    tables.run_checkpoints()
    assert tables.result_for("orders").status == "written"
    tables.write("orders", MIN_COMMITS - 1)
    tables.run_checkpoints()
    assert (tables.result_for("orders").status, tables.result_for("orders").commits) == ("not due", MIN_COMMITS - 1)
    tables.write("orders", 1)
    tables.run_checkpoints()
    assert (tables.result_for("orders").status, tables.result_for("orders").version) == ("written", 2 * MIN_COMMITS - 1)
    assert read(tables, "orders")[0] == 2 * MIN_COMMITS - 1


def test_only_tables_with_checkpoints_enabled_are_changed(tables: "Tables") -> None:
    for name in ("in", "out"):
        tables.write(name, MIN_COMMITS)
        tables.share(name, checkpoint=name == "in")
    before = tables.objects("out")
    tables.run_checkpoints()
    assert [result.location for result in tables.results] == [tables.location("in")]
    assert tables.objects("out") == before
    tables.admin.tables.update(tables.folder, "default", "in", checkpoint=False)
    tables.admin.tables.update(tables.folder, "default", "out", checkpoint=True)
    tables.run_checkpoints()
    assert [result.location for result in tables.results] == [tables.location("out")]


def test_table_with_several_entries_is_checked_once(tables: "Tables") -> None:
    tables.write("orders", 1)
    tables.share("orders")
    tables.admin.tables.create(tables.folder, "default", "again", f"{tables.location('orders')}/", checkpoint=True)
    tables.run_checkpoints()
    assert [result.status for result in tables.results] == ["not due"]


def test_table_with_a_lease_is_left_to_its_writer(tables: "Tables") -> None:
    location = tables.write("orders", MIN_COMMITS)
    tables.share("orders")
    before = tables.objects("orders")
    tables.leases.acquire(location, "run 7 of ann@host", timedelta(minutes=1))
    tables.run_checkpoints()
    assert tables.result_for("orders").status == "held"
    assert "run 7 of ann@host" in tables.result_for("orders").reason
    assert tables.objects("orders") == before
    tables.leases.release(location, "run 7 of ann@host")
    tables.run_checkpoints()
    assert tables.result_for("orders").status == "written"


def test_lease_is_held_while_a_checkpoint_is_created(tables: "Tables") -> None:
    location = tables.write("orders", MIN_COMMITS)
    tables.share("orders")
    refused: list[str] = []

    def writer_comes() -> None:
        with pytest.raises(Conflict) as conflict:
            tables.leases.acquire(location, "another", timedelta(minutes=1))
        refused.append(conflict.value.message)

    tables.run_checkpoints(log=interrupt(tables, writer_comes))
    assert tables.result_for("orders").status == "written"
    assert "the tests" in refused[0]


def test_run_that_lost_its_lease_writes_nothing(tables: "Tables") -> None:
    location = tables.write("orders", MIN_COMMITS)
    tables.share("orders")
    before = tables.objects("orders")
    later = replace(tables, clock=lambda: tables.clock() + 3600)

    def stands_still_for_an_hour() -> None:
        later.leases.acquire(location, "another", timedelta(minutes=1))

    tables.run_checkpoints(log=interrupt(tables, stands_still_for_an_hour))
    assert tables.result_for("orders").status == "held"
    assert tables.objects("orders") == before
    later.leases.release(location, "another")


@pytest.mark.parametrize(
    "name", [f"{5:020d}.json", f"{MIN_COMMITS - 1:020d}.json", f"{MIN_COMMITS - 1:020d}.checkpoint.parquet"]
)
def test_log_that_is_changed_meanwhile_is_left_for_the_next_run(tables: "Tables", name: str) -> None:
    # A writer without lease overwrites files, so that the compared log is no longer the current one.
    tables.write("orders", MIN_COMMITS)
    tables.share("orders")
    key = f"{tables.folder}/orders/_delta_log/{name}"

    def overwrite() -> None:
        tables.s3.put_object(Bucket=BUCKET, Key=key, Body=b"{}\n")

    tables.run_checkpoints(log=interrupt(tables, overwrite))
    assert tables.result_for("orders").status == "held"
    assert tables.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() == b"{}\n"
    assert "_last_checkpoint" not in tables.objects("orders")


def test_commits_added_meanwhile_are_kept(tables: "Tables") -> None:
    tables.write("orders", MIN_COMMITS)
    tables.share("orders")

    def append() -> None:
        tables.write("orders", 2)

    tables.run_checkpoints(log=interrupt(tables, append))
    assert (tables.result_for("orders").status, tables.result_for("orders").version) == ("written", MIN_COMMITS - 1)
    assert len(read(tables, "orders")[3]) == MIN_COMMITS + 2


def test_newer_hint_is_kept(tables: "Tables") -> None:
    tables.write("orders", MIN_COMMITS)
    tables.share("orders")
    hint = b'{"version":4711,"size":1}'
    key = f"{tables.folder}/orders/{LAST_CHECKPOINT}"
    tables.s3.put_object(Bucket=BUCKET, Key=key, Body=hint)
    tables.run_checkpoints()
    assert tables.result_for("orders").status == "written"
    assert tables.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() == hint


def test_failure_of_one_table_does_not_affect_others(tables: "Tables") -> None:
    tables.share("absent")
    tables.write("broken", MIN_COMMITS)
    tables.share("broken")
    key = f"{tables.folder}/broken/_delta_log/{3:020d}.json"
    tables.s3.delete_object(Bucket=BUCKET, Key=key)
    tables.write("future", MIN_COMMITS)
    tables.share("future")
    unknown_feature = (
        b'{"protocol":{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["timeTravelInsurance"]}}'
    )
    tables.s3.put_object(
        Bucket=BUCKET, Key=f"{tables.folder}/future/_delta_log/{MIN_COMMITS:020d}.json", Body=unknown_feature
    )
    tables.write("well", MIN_COMMITS)
    tables.share("well")
    assert tables.run_checkpoints() == {
        "written": 1, "not due": 0, "held": 0, "refused": 1, "failed": 2, "left": 0,
    }  # fmt: skip
    assert "no Delta log" in tables.result_for("absent").reason
    assert f"{3:020d}.json" in tables.result_for("broken").reason
    assert "timeTravelInsurance" in tables.result_for("future").reason
    assert "deltaic pipeline maintain" in tables.result_for("future").reason
    assert tables.result_for("well").status == "written"
    assert all(held_lease(tables.leases, result.location) is None for result in tables.results)


def test_table_without_time_comes_first_in_the_next_run(tables: "Tables") -> None:
    names = ["a", "b", "c", "d", "e"]
    for name in names:
        tables.write(name, 1)
        tables.share(name)
    seconds = iter(range(1000))
    tables.clock = lambda: 1_700_000_000.0 + next(seconds)
    checked: list[str] = []
    for _ in range(5):
        # The time is enough for two tables.
        remaining = iter([900.0, 900.0, 10.0])
        counts = tables.run_checkpoints(remaining=lambda remaining=remaining: next(remaining))
        assert (len(tables.results), counts["left"]) == (2, 3)
        checked += [result.location.rpartition("/")[2] for result in tables.results]
    assert sorted(checked[:5]) == names
    assert checked[5:] == checked[:5]


def test_table_that_kills_a_run_is_not_first_in_the_next(tables: "Tables") -> None:
    for name in ("a", "b"):
        tables.write(name, 1)
        tables.share(name)

    class Killed(BaseException):
        """Termination of a function that runs out of memory."""

    def log(_: SharedLocation) -> Any:
        raise Killed

    with pytest.raises(Killed):
        tables.run_checkpoints(log=log)
    tables.run_checkpoints()
    assert [result.location for result in tables.results] == [tables.location("b"), tables.location("a")]


def test_store_failure_is_reported_and_releases_the_lease(tables: "Tables") -> None:
    tables.write("orders", MIN_COMMITS)
    tables.share("orders")

    class Failing(LogWriter, frozen=True):
        """A store with a transient error."""

        def create(self, path: str, content: bytes) -> bool:
            raise Unavailable(f"{path} ({len(content)} bytes) could not be written")

    def log(table: SharedLocation) -> tuple[ObjectTableStore, LogWriter]:
        store, writer = tables.log(table)
        return store, Failing(writer.locations, writer.storage, writer.credentials)

    tables.run_checkpoints(log=log)
    assert tables.result_for("orders").status == "failed"
    assert held_lease(tables.leases, tables.location("orders")) is None
