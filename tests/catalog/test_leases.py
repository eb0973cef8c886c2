"""Leases: one writer at a time, and the refused one learns whom it waits for."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from deltaic.errors import Conflict, InvalidParameter
from held_lease import held_lease

if TYPE_CHECKING:
    from catalog.conftest import Catalog

LOCATION = "s3://bucket/some/table"
MINUTE = timedelta(minutes=1)


def test_the_second_writer_is_refused_by_name(catalog: Catalog) -> None:
    leases = catalog.leases()
    leases.acquire(LOCATION, "run 1 of ann@host", MINUTE)
    held = held_lease(leases, LOCATION)
    assert held is not None
    assert (held.holder, held.fence) == ("run 1 of ann@host", 1)
    with pytest.raises(Conflict, match=r"written by run 1 of ann@host \(its lease ends 20"):
        leases.acquire(LOCATION, "run 2", MINUTE)


@pytest.mark.parametrize("spelling", ["s3a://bucket/some/table", "s3n://bucket/some/table/"])
def test_every_spelling_of_a_location_is_one_location(catalog: Catalog, spelling: str) -> None:
    catalog.leases().acquire(LOCATION, "one", MINUTE)
    with pytest.raises(Conflict):
        catalog.leases().acquire(spelling, "two", MINUTE)


def test_other_locations_are_free(catalog: Catalog) -> None:
    catalog.leases().acquire(LOCATION, "one", MINUTE)
    for other in (f"{LOCATION}2", f"{LOCATION}/below", "s3://bucket/some", "s3://bucket/some/TABLE"):
        catalog.leases().acquire(other, "two", MINUTE)


def test_a_lease_given_back_is_free_and_the_fence_rises(catalog: Catalog) -> None:
    leases = catalog.leases()
    leases.acquire(LOCATION, "one", MINUTE)
    leases.release(LOCATION, "two")
    with pytest.raises(Conflict):
        leases.acquire(LOCATION, "two", MINUTE)
    leases.release(LOCATION, "one")
    assert held_lease(leases, LOCATION) is None
    leases.acquire(LOCATION, "two", MINUTE)
    held = held_lease(leases, LOCATION)
    assert held is not None
    assert (held.holder, held.fence) == ("two", 2)


def test_an_expired_lease_passes_on_and_cannot_be_renewed(catalog: Catalog) -> None:
    leases = catalog.leases()
    later = catalog.leases(lambda: time.time() + 61)
    leases.acquire(LOCATION, "one", MINUTE)
    assert held_lease(later, LOCATION) is None
    later.acquire(LOCATION, "two", MINUTE)
    with pytest.raises(Conflict, match="written by two"):
        leases.renew(LOCATION, "one", MINUTE)
    leases.release(LOCATION, "one")
    held = held_lease(later, LOCATION)
    assert held is not None
    assert (held.holder, held.fence) == ("two", 2)


def test_renewing_prolongs_and_keeps_the_fence(catalog: Catalog) -> None:
    catalog.leases().acquire(LOCATION, "one", MINUTE)
    later = catalog.leases(lambda: time.time() + 50)
    later.renew(LOCATION, "one", MINUTE)
    later.acquire(LOCATION, "one", MINUTE)
    with pytest.raises(Conflict, match="written by one"):
        catalog.leases(lambda: time.time() + 100).acquire(LOCATION, "two", MINUTE)
    held = held_lease(later, LOCATION)
    assert held is not None
    assert held.fence == 1


def test_an_expired_lease_that_nobody_took_is_prolonged(catalog: Catalog) -> None:
    catalog.leases().acquire(LOCATION, "one", MINUTE)
    later = catalog.leases(lambda: time.time() + 61)
    later.renew(LOCATION, "one", MINUTE)
    with pytest.raises(Conflict):
        later.acquire(LOCATION, "two", MINUTE)


def test_a_lease_given_back_cannot_be_renewed(catalog: Catalog) -> None:
    leases = catalog.leases()
    leases.acquire(LOCATION, "one", MINUTE)
    leases.release(LOCATION, "one")
    with pytest.raises(Conflict, match="take it again"):
        leases.renew(LOCATION, "one", MINUTE)
    with pytest.raises(Conflict, match="take it again"):
        leases.renew("s3://bucket/never", "one", MINUTE)


@pytest.mark.parametrize(
    ("location", "holder", "ttl"),
    [
        pytest.param("/tmp/table", "one", MINUTE, id="location"),
        pytest.param(LOCATION, "", MINUTE, id="nobody"),
        pytest.param(LOCATION, "one", timedelta(0), id="no-time"),
    ],
)
def test_what_is_no_lease_is_refused(catalog: Catalog, location: str, holder: str, ttl: timedelta) -> None:
    with pytest.raises(InvalidParameter):
        catalog.leases().acquire(location, holder, ttl)
