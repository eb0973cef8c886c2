"""The lock of a catalog: who has it changes the catalog alone, and who has lost it writes nothing more."""

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


def admin_of(catalog: Catalog, held: LockedDynamo) -> CatalogAdmin:
    return CatalogAdmin(catalog.catalog_table, catalog.tokens_table, held)


def test_of_two_the_second_is_refused_by_name_until_the_first_is_done(catalog: Catalog) -> None:
    where = (catalog.dynamo, catalog.catalog_table)
    refused = pytest.raises(Conflict, match=r"the catalog is being written by ann@host \(1\) \(its lease ends 20")
    with locked(*where, "ann@host (1)"), refused:
        locked(*where, "bob@host (2)").__enter__()
    with locked(*where, "bob@host (2)") as held:
        admin_of(catalog, held).shares.create("s")
    assert [share.name for share in catalog.admin.shares.list()] == ["s"]


def test_what_the_catalog_refuses_is_told_as_without_the_lock(catalog: Catalog) -> None:
    with locked(catalog.dynamo, catalog.catalog_table, "ann") as held:
        admin = admin_of(catalog, held)
        admin.shares.create("s")
        admin.schemas.create("s", "d")
        with pytest.raises(AlreadyExists, match="there is a share 's' already"):
            admin.shares.create("s")
        with pytest.raises(Conflict, match="share 's' has 1 schema"):
            admin.shares.delete("s")
        admin.shares.delete("s", force=True)
    assert list(catalog.admin.shares.list()) == []


def test_who_was_thought_dead_writes_nothing_more_once_another_has_the_lock(catalog: Catalog) -> None:
    where = (catalog.dynamo, catalog.catalog_table)
    with locked(*where, "slow", lambda: NOW) as slow:
        late = admin_of(catalog, slow)
        late.shares.create("before")
        with locked(*where, "quick", lambda: LATER) as quick:
            admin_of(catalog, quick).shares.create("between")
            for act in (lambda: late.shares.create("after"), lambda: late.shares.delete("between"), slow.prolong):
                with pytest.raises(LockLost):
                    act()
            quick.prolong()
            admin_of(catalog, quick).shares.create("still")
    assert [share.name for share in catalog.admin.shares.list()] == ["before", "between", "still"]


def test_who_is_slow_and_meets_nobody_goes_on(catalog: Catalog) -> None:
    with locked(catalog.dynamo, catalog.catalog_table, "slow", lambda: NOW) as held:
        held.prolong()
        admin_of(catalog, held).shares.create("s")
