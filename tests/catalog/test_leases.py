"""Leases: one writer at a time, and a refusal that names the holder."""

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


def test_second_writer_is_refused_with_the_holders_name(catalog: Catalog) -> None:
    leases = catalog.leases()
    leases.acquire(LOCATION, "run 1 of ann@host", MINUTE)
    lease = held_lease(leases, LOCATION)
    assert lease is not None
    assert (lease.holder, lease.fence) == ("run 1 of ann@host", 1)
    with pytest.raises(Conflict, match=r"written by run 1 of ann@host \(its lease expires at 20"):
        leases.acquire(LOCATION, "run 2", MINUTE)


@pytest.mark.parametrize("spelling", ["s3a://bucket/some/table", "s3n://bucket/some/table/"])
def test_every_spelling_of_a_location_has_one_lease(catalog: Catalog, spelling: str) -> None:
    catalog.leases().acquire(LOCATION, "one", MINUTE)
    with pytest.raises(Conflict):
        catalog.leases().acquire(spelling, "two", MINUTE)


def test_other_locations_stay_free(catalog: Catalog) -> None:
    catalog.leases().acquire(LOCATION, "one", MINUTE)
    for location in (f"{LOCATION}2", f"{LOCATION}/below", "s3://bucket/some", "s3://bucket/some/TABLE"):
        catalog.leases().acquire(location, "two", MINUTE)


def test_released_lease_is_free_and_increments_the_fence(catalog: Catalog) -> None:
    leases = catalog.leases()
    leases.acquire(LOCATION, "one", MINUTE)
    leases.release(LOCATION, "two")
    with pytest.raises(Conflict):
        leases.acquire(LOCATION, "two", MINUTE)
    leases.release(LOCATION, "one")
    assert held_lease(leases, LOCATION) is None
    leases.acquire(LOCATION, "two", MINUTE)
    lease = held_lease(leases, LOCATION)
    assert lease is not None
    assert (lease.holder, lease.fence) == ("two", 2)


def test_expired_lease_can_be_taken_and_not_renewed(catalog: Catalog) -> None:
    leases = catalog.leases()
    later = catalog.leases(lambda: time.time() + 61)
    leases.acquire(LOCATION, "one", MINUTE)
    assert held_lease(later, LOCATION) is None
    later.acquire(LOCATION, "two", MINUTE)
    with pytest.raises(Conflict, match="written by two"):
        leases.renew(LOCATION, "one", MINUTE)
    leases.release(LOCATION, "one")
    lease = held_lease(later, LOCATION)
    assert lease is not None
    assert (lease.holder, lease.fence) == ("two", 2)


def test_renewal_extends_the_lease_and_keeps_the_fence(catalog: Catalog) -> None:
    catalog.leases().acquire(LOCATION, "one", MINUTE)
    later = catalog.leases(lambda: time.time() + 50)
    later.renew(LOCATION, "one", MINUTE)
    later.acquire(LOCATION, "one", MINUTE)
    with pytest.raises(Conflict, match="written by one"):
        catalog.leases(lambda: time.time() + 100).acquire(LOCATION, "two", MINUTE)
    lease = held_lease(later, LOCATION)
    assert lease is not None
    assert lease.fence == 1


def test_expired_lease_without_a_new_holder_can_be_renewed(catalog: Catalog) -> None:
    catalog.leases().acquire(LOCATION, "one", MINUTE)
    later = catalog.leases(lambda: time.time() + 61)
    later.renew(LOCATION, "one", MINUTE)
    with pytest.raises(Conflict):
        later.acquire(LOCATION, "two", MINUTE)


def test_released_lease_cannot_be_renewed(catalog: Catalog) -> None:
    leases = catalog.leases()
    leases.acquire(LOCATION, "one", MINUTE)
    leases.release(LOCATION, "one")
    with pytest.raises(Conflict, match="acquire it again"):
        leases.renew(LOCATION, "one", MINUTE)
    with pytest.raises(Conflict, match="acquire it again"):
        leases.renew("s3://bucket/never", "one", MINUTE)


@pytest.mark.parametrize(
    ("location", "holder", "ttl"),
    [
        pytest.param("/tmp/table", "one", MINUTE, id="location"),
        pytest.param(LOCATION, "", MINUTE, id="nobody"),
        pytest.param(LOCATION, "one", timedelta(0), id="no-time"),
    ],
)
def test_invalid_lease_is_refused(catalog: Catalog, location: str, holder: str, ttl: timedelta) -> None:
    with pytest.raises(InvalidParameter):
        catalog.leases().acquire(location, holder, ttl)
