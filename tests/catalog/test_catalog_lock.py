"""Lock of a catalog: one holder at a time, and no writes after it is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.catalog_lock import LockedDynamo, LockLost, locked
from deltaic.errors import AlreadyExists, Conflict

if TYPE_CHECKING:
    from catalog.conftest import Catalog

NOW = 1_800_000_000.0
LATER = NOW + 3600


def admin_of(catalog: Catalog, lock: LockedDynamo) -> CatalogAdmin:
    return CatalogAdmin(catalog.catalog_table, catalog.tokens_table, lock)


def test_second_holder_is_refused_until_the_first_finishes(catalog: Catalog) -> None:
    table = (catalog.dynamo, catalog.catalog_table)
    refused = pytest.raises(Conflict, match=r"the catalog is being written by ann@host \(1\) \(its lease expires at 20")
    with locked(*table, "ann@host (1)"), refused:
        locked(*table, "bob@host (2)").__enter__()
    with locked(*table, "bob@host (2)") as lock:
        admin_of(catalog, lock).shares.create("s")
    assert [share.name for share in catalog.admin.shares.list()] == ["s"]


def test_refusals_are_the_same_with_the_lock(catalog: Catalog) -> None:
    with locked(catalog.dynamo, catalog.catalog_table, "ann") as lock:
        admin = admin_of(catalog, lock)
        admin.shares.create("s")
        admin.schemas.create("s", "d")
        with pytest.raises(AlreadyExists, match="share 's' exists already"):
            admin.shares.create("s")
        with pytest.raises(Conflict, match="share 's' has 1 schema"):
            admin.shares.delete("s")
        admin.shares.delete("s", force=True)
    assert list(catalog.admin.shares.list()) == []


def test_previous_holder_cannot_write_after_another_took_the_lock(catalog: Catalog) -> None:
    table = (catalog.dynamo, catalog.catalog_table)
    with locked(*table, "slow", lambda: NOW) as slow:
        late = admin_of(catalog, slow)
        late.shares.create("before")
        with locked(*table, "quick", lambda: LATER) as quick:
            admin_of(catalog, quick).shares.create("between")
            for act in (lambda: late.shares.create("after"), lambda: late.shares.delete("between"), slow.prolong):
                with pytest.raises(LockLost):
                    act()
            quick.prolong()
            admin_of(catalog, quick).shares.create("still")
    assert [share.name for share in catalog.admin.shares.list()] == ["before", "between", "still"]


def test_slow_holder_continues_if_the_lock_is_free(catalog: Catalog) -> None:
    with locked(catalog.dynamo, catalog.catalog_table, "slow", lambda: NOW) as lock:
        lock.prolong()
        admin_of(catalog, lock).shares.create("s")
