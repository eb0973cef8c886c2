"""Sixteen at once: one winner where one may win, two where two may, and counts that stay true."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from deltaic.errors import AlreadyExists, Conflict, DeltaicError, NotFound, Unauthenticated
from held_lease import held_lease

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog.conftest import Catalog

pytestmark = pytest.mark.slow

RACERS = 16
LOCATION = "s3://bucket/some/table"


def race(*contestants: Callable[[], Any]) -> list[Any]:
    """Run all at the same moment; return what each returned or, of the refusals, which it met."""
    line = threading.Barrier(len(contestants))

    def run(contestant: Callable[[], Any]) -> Any:
        line.wait()
        try:
            return contestant()
        except DeltaicError as refusal:
            return refusal

    with ThreadPoolExecutor(len(contestants)) as pool:
        return list(pool.map(run, contestants))


def winners(results: list[Any], refusal: type[DeltaicError]) -> list[Any]:
    """Return what succeeded, and see that the rest failed as expected."""
    won = [result for result in results if not isinstance(result, DeltaicError)]
    lost = [result for result in results if isinstance(result, DeltaicError)]
    assert {type(result) for result in lost} <= {refusal}
    return won


def test_one_of_many_creators_of_a_share_wins(catalog: Catalog) -> None:
    results = race(*[lambda n=n: catalog.admin.shares.create("Name" if n % 2 else "nAME") for n in range(RACERS)])
    (won,) = winners(results, AlreadyExists)
    assert catalog.admin.shares.get("name") == won


def test_one_of_many_creators_of_a_table_wins_and_the_count_is_one(catalog: Catalog) -> None:
    catalog.admin.shares.create("s")
    catalog.admin.schemas.create("s", "d")
    results = race(*[lambda: catalog.admin.tables.create("s", "d", "t", LOCATION)] * RACERS)
    (won,) = winners(results, AlreadyExists)
    assert catalog.admin.tables.get("s", "d", "t") == won
    catalog.admin.tables.delete("s", "d", "t")
    catalog.admin.schemas.delete("s", "d")


def test_many_tables_made_at_once_are_all_counted(catalog: Catalog) -> None:
    catalog.admin.shares.create("s")
    catalog.admin.schemas.create("s", "d")
    results = race(*[lambda n=n: catalog.admin.tables.create("s", "d", f"t{n}", LOCATION) for n in range(RACERS)])
    assert len(winners(results, Conflict)) == RACERS
    with pytest.raises(Conflict, match=r"has 16 table\(s\)"):
        catalog.admin.schemas.delete("s", "d")
    deleted = race(*[lambda n=n: catalog.admin.tables.delete("s", "d", f"t{n}") for n in range(RACERS)])
    assert len(winners(deleted, Conflict)) == RACERS
    catalog.admin.schemas.delete("s", "d")


def test_many_tables_that_share_whole_folders_are_made_at_once(catalog: Catalog) -> None:
    catalog.admin.shares.create("s")
    catalog.admin.schemas.create("s", "d")
    create = partial(catalog.admin.tables.create, "s", "d", access_modes=["url", "dir"])
    many = 2 * RACERS  # each raises one revision that all others have read
    results = race(*[partial(create, f"t{number}", f"{LOCATION}/{number}") for number in range(many)])
    assert len(winners(results, Conflict)) == many
    assert len(list(catalog.admin.tables.list("s", "d"))) == many


def test_one_of_many_creators_of_a_recipient_and_of_a_grant_wins(catalog: Catalog) -> None:
    catalog.admin.shares.create("s")
    (alice,) = winners(race(*[lambda: catalog.admin.recipients.create("alice")] * RACERS), AlreadyExists)
    winners(race(*[lambda: catalog.admin.grants.create("alice", "s")] * RACERS), AlreadyExists)
    assert [share.name for share in catalog.reader.list_shares(alice.id, None, 9)] == ["s"]


def test_no_more_than_two_live_tokens_come_out_of_a_race(catalog: Catalog) -> None:
    alice = catalog.admin.recipients.create("alice")
    results = race(*[lambda: catalog.token_admin().create(alice)] * RACERS)
    won = winners(results, Conflict)
    assert len(won) == 2
    listed = catalog.token_admin().list(alice.id)
    assert {token.id for token in listed} == {issued.token.id for issued in won}
    for issued in won:
        assert catalog.tokens().authenticate(issued.secret).recipient_id == alice.id


def test_racing_rotations_without_overlap_leave_one_live_token(catalog: Catalog) -> None:
    alice = catalog.admin.recipients.create("alice")
    results = race(*[lambda: catalog.token_admin().create(alice, overlap=timedelta(0))] * 8)
    won = winners(results, Conflict)
    live = [token.id for token in catalog.token_admin().list(alice.id) if token.state() == "live"]
    assert len(live) == 1
    assert live[0] in {issued.token.id for issued in won}


def test_no_update_is_lost(catalog: Catalog) -> None:
    catalog.admin.shares.create("s")
    race(*[lambda n=n: catalog.admin.shares.update("s", add_properties={f"k{n}": "v"}) for n in range(8)])
    assert set(catalog.admin.shares.get("s").properties) == {f"k{n}" for n in range(8)}


@pytest.mark.parametrize("force", [False, True], ids=["unless-empty", "forced"])
def test_deleting_a_parent_against_making_a_child_leaves_no_orphan(catalog: Catalog, force: bool) -> None:
    for _ in range(5):
        catalog.admin.shares.create("s")
        catalog.admin.schemas.create("s", "d")
        race(
            lambda: catalog.admin.schemas.delete("s", "d", force=force),
            *[lambda n=n: catalog.admin.tables.create("s", "d", f"t{n}", LOCATION) for n in range(4)],
        )
        schemas = {schema.name for schema in catalog.admin.schemas.list("s")}
        tables = list(catalog.admin.tables.list("s"))
        assert schemas or not tables
        catalog.admin.shares.delete("s", force=True)
        assert catalog.items() == []


def test_deleting_a_share_against_granting_it_leaves_no_grant(catalog: Catalog) -> None:
    alice = catalog.admin.recipients.create("alice")
    for _ in range(5):
        catalog.admin.shares.create("s")
        race(*[lambda: catalog.admin.shares.delete("s"), *[lambda: catalog.admin.grants.create("alice", "s")] * 3])
        with pytest.raises(NotFound):
            catalog.admin.shares.get("s")
        assert [*catalog.admin.grants.of_recipient("alice")] == []
        assert catalog.reader.list_shares(alice.id, None, 9) == []


def test_deleting_a_recipient_against_making_tokens_leaves_none(catalog: Catalog) -> None:
    for _ in range(3):
        alice = catalog.admin.recipients.create("alice")
        results = race(
            lambda: catalog.admin.recipients.delete("alice"),
            *[lambda alice=alice: catalog.token_admin().create(alice) for _ in range(4)],
        )
        for issued in results[1:]:
            if not isinstance(issued, DeltaicError):
                with pytest.raises(Unauthenticated):
                    catalog.tokens().authenticate(issued.secret)
        assert catalog.items() == []


def test_one_of_many_writers_gets_the_lease(catalog: Catalog) -> None:
    def take(n: int) -> int:
        catalog.leases().acquire(LOCATION, f"run {n}", timedelta(minutes=1))
        return n

    (won,) = winners(race(*[lambda n=n: take(n) for n in range(RACERS)]), Conflict)
    held = held_lease(catalog.leases(), LOCATION)
    assert held is not None
    assert (held.holder, held.fence) == (f"run {won}", 1)
