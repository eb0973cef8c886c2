"""A round writes the checkpoints that are missing, one table at a time, and takes nothing from anybody."""

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
from deltaic_checkpoint.checkpoint_run import COMMITS
from held_lease import held_lease
from pipeline.place import BUCKET

if TYPE_CHECKING:
    from maintenance.conftest import Tables


class Interrupted:
    """A log in which something happens, once, while its commits are being read."""

    def __init__(self, store: ObjectTableStore, meanwhile: Callable[[], None]) -> None:
        self._store = store
        self._meanwhile: list[Callable[[], None]] = [meanwhile]

    def list_log(self, start_after: str = "") -> Iterator[LogFile]:
        return self._store.list_log(start_after)

    def get(self, path: str) -> bytes:
        return self._store.get(path)

    def get_many(self, paths: Sequence[str]) -> list[bytes]:
        found = self._store.get_many(paths)
        while self._meanwhile:
            self._meanwhile.pop()()
        return found

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return self._store.get_ranges(path, ranges)

    def get_tail(self, path: str, length: int) -> tuple[bytes, int]:
        return self._store.get_tail(path, length)


def read(tables: "Tables", name: str) -> tuple[int, Any, Any, list[Any], int]:
    """Return what a reader who knows nothing yet is told of a table, and in how many requests."""
    store = tables.store(name)
    requests = count_requests(store)
    snapshot = DeltaLog(store).snapshot()
    told = snapshot.version, snapshot.protocol, snapshot.metadata, found_files(snapshot.files())
    return *told, len(requests)


def interrupted(
    tables: "Tables", meanwhile: Callable[[], None]
) -> Callable[[SharedLocation], tuple[Interrupted, LogWriter]]:
    def log(place: SharedLocation) -> tuple[Interrupted, LogWriter]:
        store, writer = tables.log(place)
        return Interrupted(store, meanwhile), writer

    return log


def test_a_log_without_a_checkpoint_gets_one_and_is_cheaper_to_read(tables: "Tables") -> None:
    tables.write("orders", 30, partition_by=["name"])
    tables.share("orders")
    before, objects = read(tables, "orders"), tables.objects("orders")
    assert tables.go_round() == {
        "written": 1, "not due": 0, "held": 0, "refused": 0, "failed": 0, "left": 0,
    }  # fmt: skip
    after = read(tables, "orders")
    assert after[:-1] == before[:-1]
    # The hint, a listing and each commit; then the hint, a listing, and the checkpoint in at most two.
    assert before[-1] == 32
    assert after[-1] <= 4
    # Nothing that was there has changed or gone.
    assert tables.objects("orders").items() >= objects.items()
    assert tables.objects("orders").keys() - objects.keys() == {
        f"{29:020d}.checkpoint.parquet",
        "_last_checkpoint",
    }
    assert held_lease(tables.leases, tables.location("orders")) is None


def test_the_next_one_is_due_ten_commits_later(tables: "Tables") -> None:
    tables.write("orders", COMMITS)
    tables.share("orders")
    tables.go_round()
    assert tables.came_of("orders").did == "written"
    tables.write("orders", COMMITS - 1)
    tables.go_round()
    assert (tables.came_of("orders").did, tables.came_of("orders").commits) == ("not due", COMMITS - 1)
    tables.write("orders", 1)
    tables.go_round()
    assert (tables.came_of("orders").did, tables.came_of("orders").version) == ("written", 2 * COMMITS - 1)
    assert read(tables, "orders")[0] == 2 * COMMITS - 1


def test_only_tables_that_take_part_are_touched(tables: "Tables") -> None:
    for name in ("in", "out"):
        tables.write(name, COMMITS)
        tables.share(name, checkpoint=name == "in")
    before = tables.objects("out")
    tables.go_round()
    assert [outcome.location for outcome in tables.outcomes] == [tables.location("in")]
    assert tables.objects("out") == before
    tables.admin.tables.update(tables.folder, "default", "in", checkpoint=False)
    tables.admin.tables.update(tables.folder, "default", "out", checkpoint=True)
    tables.go_round()
    assert [outcome.location for outcome in tables.outcomes] == [tables.location("out")]


def test_a_table_of_several_entries_is_looked_at_once(tables: "Tables") -> None:
    tables.write("orders", 1)
    tables.share("orders")
    tables.admin.tables.create(tables.folder, "default", "again", f"{tables.location('orders')}/", checkpoint=True)
    tables.go_round()
    assert [outcome.did for outcome in tables.outcomes] == ["not due"]


def test_a_table_that_is_being_written_is_left_to_its_writer(tables: "Tables") -> None:
    location = tables.write("orders", COMMITS)
    tables.share("orders")
    before = tables.objects("orders")
    tables.leases.acquire(location, "run 7 of ann@host", timedelta(minutes=1))
    tables.go_round()
    assert tables.came_of("orders").did == "held"
    assert "run 7 of ann@host" in tables.came_of("orders").why
    assert tables.objects("orders") == before
    tables.leases.release(location, "run 7 of ann@host")
    tables.go_round()
    assert tables.came_of("orders").did == "written"


def test_the_lease_is_held_while_a_checkpoint_is_made(tables: "Tables") -> None:
    location = tables.write("orders", COMMITS)
    tables.share("orders")
    refused: list[str] = []

    def writer_comes() -> None:
        with pytest.raises(Conflict) as other:
            tables.leases.acquire(location, "another", timedelta(minutes=1))
        refused.append(other.value.message)

    tables.go_round(log=interrupted(tables, writer_comes))
    assert tables.came_of("orders").did == "written"
    assert "the tests" in refused[0]


def test_a_round_that_has_lost_the_lease_sends_nothing(tables: "Tables") -> None:
    location = tables.write("orders", COMMITS)
    tables.share("orders")
    before = tables.objects("orders")
    later = replace(tables, clock=lambda: tables.clock() + 3600)

    def stands_still_for_an_hour() -> None:
        later.leases.acquire(location, "another", timedelta(minutes=1))

    tables.go_round(log=interrupted(tables, stands_still_for_an_hour))
    assert tables.came_of("orders").did == "held"
    assert tables.objects("orders") == before
    later.leases.release(location, "another")


@pytest.mark.parametrize(
    "name", [f"{5:020d}.json", f"{COMMITS - 1:020d}.json", f"{COMMITS - 1:020d}.checkpoint.parquet"]
)
def test_a_log_that_changes_meanwhile_is_left_for_the_next_round(tables: "Tables", name: str) -> None:
    # A writer that takes no lease and overwrites what it finds: what was compared is not what is there any more.
    tables.write("orders", COMMITS)
    tables.share("orders")
    key = f"{tables.folder}/orders/_delta_log/{name}"

    def overwrite() -> None:
        tables.s3.put_object(Bucket=BUCKET, Key=key, Body=b"{}\n")

    tables.go_round(log=interrupted(tables, overwrite))
    assert tables.came_of("orders").did == "held"
    assert tables.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() == b"{}\n"
    assert "_last_checkpoint" not in tables.objects("orders")


def test_commits_that_come_meanwhile_do_no_harm(tables: "Tables") -> None:
    tables.write("orders", COMMITS)
    tables.share("orders")

    def append() -> None:
        tables.write("orders", 2)

    tables.go_round(log=interrupted(tables, append))
    assert (tables.came_of("orders").did, tables.came_of("orders").version) == ("written", COMMITS - 1)
    assert len(read(tables, "orders")[3]) == COMMITS + 2


def test_a_newer_hint_stays(tables: "Tables") -> None:
    tables.write("orders", COMMITS)
    tables.share("orders")
    hint = b'{"version":4711,"size":1}'
    key = f"{tables.folder}/orders/{LAST_CHECKPOINT}"
    tables.s3.put_object(Bucket=BUCKET, Key=key, Body=hint)
    tables.go_round()
    assert tables.came_of("orders").did == "written"
    assert tables.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() == hint


def test_one_tables_trouble_is_its_own(tables: "Tables") -> None:
    tables.share("absent")
    tables.write("broken", COMMITS)
    tables.share("broken")
    key = f"{tables.folder}/broken/_delta_log/{3:020d}.json"
    tables.s3.delete_object(Bucket=BUCKET, Key=key)
    tables.write("future", COMMITS)
    tables.share("future")
    strange = b'{"protocol":{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["timeTravelInsurance"]}}'
    tables.s3.put_object(Bucket=BUCKET, Key=f"{tables.folder}/future/_delta_log/{COMMITS:020d}.json", Body=strange)
    tables.write("well", COMMITS)
    tables.share("well")
    assert tables.go_round() == {
        "written": 1, "not due": 0, "held": 0, "refused": 1, "failed": 2, "left": 0,
    }  # fmt: skip
    assert "no Delta log" in tables.came_of("absent").why
    assert f"{3:020d}.json" in tables.came_of("broken").why
    assert "timeTravelInsurance" in tables.came_of("future").why
    assert "deltaic pipeline maintain" in tables.came_of("future").why
    assert tables.came_of("well").did == "written"
    assert all(held_lease(tables.leases, outcome.location) is None for outcome in tables.outcomes)


def test_without_time_a_table_waits_and_comes_first_next_time(tables: "Tables") -> None:
    names = ["a", "b", "c", "d", "e"]
    for name in names:
        tables.write(name, 1)
        tables.share(name)
    seconds = iter(range(1000))
    tables.clock = lambda: 1_700_000_000.0 + next(seconds)
    looked: list[str] = []
    for _ in range(5):
        # There is time for two tables, and then there is none.
        left = iter([900.0, 900.0, 10.0])
        done = tables.go_round(remaining=lambda left=left: next(left))
        assert (len(tables.outcomes), done["left"]) == (2, 3)
        looked += [outcome.location.rpartition("/")[2] for outcome in tables.outcomes]
    assert sorted(looked[:5]) == names
    assert looked[5:] == looked[:5]


def test_a_table_at_which_a_round_dies_is_not_the_first_of_the_next(tables: "Tables") -> None:
    for name in ("a", "b"):
        tables.write(name, 1)
        tables.share(name)

    class Killed(BaseException):
        """As if the function had run out of memory."""

    def log(_: SharedLocation) -> Any:
        raise Killed

    with pytest.raises(Killed):
        tables.go_round(log=log)
    tables.go_round()
    assert [outcome.location for outcome in tables.outcomes] == [tables.location("b"), tables.location("a")]


def test_a_refusal_of_the_store_is_a_failure_that_says_what_to_do(tables: "Tables") -> None:
    tables.write("orders", COMMITS)
    tables.share("orders")

    class Failing(LogWriter):
        """A store that fails in passing."""

        def create(self, path: str, content: bytes) -> bool:
            raise Unavailable(f"{path} ({len(content)} bytes) could not be written")

    def log(place: SharedLocation) -> tuple[ObjectTableStore, LogWriter]:
        store, writer = tables.log(place)
        return store, Failing(writer._locations, writer._storage, writer._credentials)

    tables.go_round(log=log)
    assert tables.came_of("orders").did == "failed"
    assert held_lease(tables.leases, tables.location("orders")) is None
