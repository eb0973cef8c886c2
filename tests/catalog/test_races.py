"""Concurrent changes by sixteen threads: the right number of winners, and correct counts."""

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
    """Run all at the same time; return each result or error."""
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
    """Return the successful results, and check that all others are the expected error."""
    won = [result for result in results if not isinstance(result, DeltaicError)]
    lost = [result for result in results if isinstance(result, DeltaicError)]
    assert {type(result) for result in lost} <= {refusal}
    return won


def test_concurrent_creates_of_a_share_have_one_winner(catalog: Catalog) -> None:
    results = race(
        *[
            lambda number=number: catalog.admin.shares.create("Name" if number % 2 else "nAME")
            for number in range(RACERS)
        ]
    )
    (won,) = winners(results, AlreadyExists)
    assert catalog.admin.shares.get("name") == won


def test_concurrent_creates_of_a_table_count_it_once(catalog: Catalog) -> None:
    catalog.admin.shares.create("s")
    catalog.admin.schemas.create("s", "d")
    results = race(*[lambda: catalog.admin.tables.create("s", "d", "t", LOCATION)] * RACERS)
    (won,) = winners(results, AlreadyExists)
    assert catalog.admin.tables.get("s", "d", "t") == won
    catalog.admin.tables.delete("s", "d", "t")
    catalog.admin.schemas.delete("s", "d")


def test_concurrent_creates_of_tables_are_all_counted(catalog: Catalog) -> None:
    catalog.admin.shares.create("s")
    catalog.admin.schemas.create("s", "d")
    results = race(
        *[
            lambda number=number: catalog.admin.tables.create("s", "d", f"t{number}", LOCATION)
            for number in range(RACERS)
        ]
    )
    assert len(winners(results, Conflict)) == RACERS
    with pytest.raises(Conflict, match=r"has 16 table\(s\)"):
        catalog.admin.schemas.delete("s", "d")
    deleted = race(
        *[lambda number=number: catalog.admin.tables.delete("s", "d", f"t{number}") for number in range(RACERS)]
    )
    assert len(winners(deleted, Conflict)) == RACERS
    catalog.admin.schemas.delete("s", "d")


def test_unfiltered_folders_are_created_concurrently(catalog: Catalog) -> None:
    catalog.admin.shares.create("s")
    catalog.admin.schemas.create("s", "d")
    create = partial(catalog.admin.tables.create, "s", "d", access_modes=["url", "dir"])
    many = 2 * RACERS  # each increments a revision that all others have read
    results = race(*[partial(create, f"t{number}", f"{LOCATION}/{number}") for number in range(many)])
    assert len(winners(results, Conflict)) == many
    assert len(list(catalog.admin.tables.list("s", "d"))) == many


def test_concurrent_creates_of_a_recipient_and_a_grant_have_one_winner(catalog: Catalog) -> None:
    catalog.admin.shares.create("s")
    (alice,) = winners(race(*[lambda: catalog.admin.recipients.create("alice")] * RACERS), AlreadyExists)
    winners(race(*[lambda: catalog.admin.grants.create("alice", "s")] * RACERS), AlreadyExists)
    assert [share.name for share in catalog.reader.list_shares(alice.id, None, 9)] == ["s"]


def test_concurrent_creates_of_tokens_leave_two_live_ones(catalog: Catalog) -> None:
    alice = catalog.admin.recipients.create("alice")
    results = race(*[lambda: catalog.token_admin().create(alice)] * RACERS)
    won = winners(results, Conflict)
    assert len(won) == 2
    tokens = catalog.token_admin().list(alice.id)
    assert {token.id for token in tokens} == {issued.token.id for issued in won}
    for issued in won:
        assert catalog.tokens().authenticate(issued.secret).recipient_id == alice.id


def test_concurrent_rotations_without_overlap_leave_one_live_token(catalog: Catalog) -> None:
    alice = catalog.admin.recipients.create("alice")
    results = race(*[lambda: catalog.token_admin().create(alice, overlap=timedelta(0))] * 8)
    won = winners(results, Conflict)
    live = [token.id for token in catalog.token_admin().list(alice.id) if token.state() == "live"]
    assert len(live) == 1
    assert live[0] in {issued.token.id for issued in won}


def test_concurrent_updates_are_all_stored(catalog: Catalog) -> None:
    catalog.admin.shares.create("s")
    race(
        *[
            lambda number=number: catalog.admin.shares.update("s", add_properties={f"k{number}": "v"})
            for number in range(8)
        ]
    )
    assert set(catalog.admin.shares.get("s").properties) == {f"k{number}" for number in range(8)}


@pytest.mark.parametrize("force", [False, True], ids=["unless-empty", "forced"])
def test_concurrent_delete_and_create_leave_no_orphan(catalog: Catalog, force: bool) -> None:
    for _ in range(5):
        catalog.admin.shares.create("s")
        catalog.admin.schemas.create("s", "d")
        race(
            lambda: catalog.admin.schemas.delete("s", "d", force=force),
            *[
                lambda number=number: catalog.admin.tables.create("s", "d", f"t{number}", LOCATION)
                for number in range(4)
            ],
        )
        schemas = {schema.name for schema in catalog.admin.schemas.list("s")}
        tables = list(catalog.admin.tables.list("s"))
        assert schemas or not tables
        catalog.admin.shares.delete("s", force=True)
        assert catalog.items() == []


def test_concurrent_delete_and_grant_leave_no_grant(catalog: Catalog) -> None:
    alice = catalog.admin.recipients.create("alice")
    for _ in range(5):
        catalog.admin.shares.create("s")
        race(*[lambda: catalog.admin.shares.delete("s"), *[lambda: catalog.admin.grants.create("alice", "s")] * 3])
        with pytest.raises(NotFound):
            catalog.admin.shares.get("s")
        assert [*catalog.admin.grants.of_recipient("alice")] == []
        assert catalog.reader.list_shares(alice.id, None, 9) == []


def test_concurrent_delete_of_a_recipient_leaves_no_tokens(catalog: Catalog) -> None:
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


def test_one_of_concurrent_writers_gets_the_lease(catalog: Catalog) -> None:
    def acquire(number: int) -> int:
        catalog.leases().acquire(LOCATION, f"run {number}", timedelta(minutes=1))
        return number

    (won,) = winners(race(*[lambda number=number: acquire(number) for number in range(RACERS)]), Conflict)
    lease = held_lease(catalog.leases(), LOCATION)
    assert lease is not None
    assert (lease.holder, lease.fence) == (f"run {won}", 1)
