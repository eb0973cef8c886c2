"""Finds out who holds a lease."""

from typing import NamedTuple

from deltaic.catalog.leases import Leases


class HeldLease(NamedTuple):
    """A lease that somebody holds now."""

    holder: str
    fence: int
    """How often the location has passed to a holder."""


def held_lease(leases: Leases, location: str) -> HeldLease | None:
    """Return the lease on a location; None where nobody holds it."""
    item = leases._dynamo.get(leases._table, leases.key(location)) or {}
    return HeldLease(item["holder"], item["fence"]) if leases._is_active(item) else None
