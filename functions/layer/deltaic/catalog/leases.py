"""Leases on table locations: one writer at a time, until release or expiry.

On object stores without conditional writes, two writers of one Delta log can overwrite each other's commits. Leases
prevent that. Each writer compares the expiry with its own clock, so the time to live must exceed the clock skew by far.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from deltaic.catalog import keys
from deltaic.catalog.aws_errors import ConditionFailed
from deltaic.catalog.dynamo import Attributes, Dynamo
from deltaic.catalog.writes import ABSENT, update
from deltaic.errors import Conflict, InvalidParameter
from deltaic.storage.locations import Location

_RACES: Final = 50
CATALOG: Final = "the catalog"
"""Used instead of a location for the lease on the catalog itself."""


class Leases:
    """Leases of one catalog. `holder` is unique to one job and appears in messages."""

    def __init__(self, table: str, dynamo: Dynamo | None = None, clock: Callable[[], float] = time.time) -> None:
        self._table = table
        self._dynamo = dynamo or Dynamo()
        self._clock = clock

    def acquire(self, location: str, holder: str, ttl: timedelta) -> None:
        """Take the lease of a free or expired location, or renew the holder's own lease.

        Raises Conflict, which names the other holder and the end of its lease.
        """
        if not holder or ttl <= timedelta(0):
            raise InvalidParameter("the lease has no holder or no time to live: give a name and a positive time")
        for _ in range(_RACES):
            item = self._dynamo.get(self._table, self.key(location)) or {}
            is_renewal = item.get("holder") == holder
            if self._is_active(item) and not is_renewal:
                raise _conflict(location, item)
            try:
                self._dynamo.transact([
                    update(
                        self._table,
                        self.key(location),
                        assign={"holder": holder, "expires": self._now() + _milliseconds(ttl), "location": location},
                        add={"fence": 0 if is_renewal else 1},
                        expect={name: item.get(name, ABSENT) for name in ("holder", "expires", "fence")},
                        create=True,
                    )
                ])  # fmt: skip
            except ConditionFailed:
                continue
            return
        raise Conflict(f"other writers keep taking the lease of {location}: try again later")

    def renew(self, location: str, holder: str, ttl: timedelta) -> None:
        """Extend the lease to `ttl` from now; raises Conflict if it was taken or released.

        An expired lease is extended if no other writer took it, because none can have written since.
        """
        assign = {"expires": self._now() + _milliseconds(ttl)}
        try:
            self._dynamo.transact([update(self._table, self.key(location), assign=assign, expect={"holder": holder})])
        except ConditionFailed as failed:
            raise _conflict(location, failed.item or {}) from None

    def release(self, location: str, holder: str) -> None:
        """Release the lease; does nothing if another writer has it."""
        assign = {"holder": None, "expires": None}
        with suppress(ConditionFailed):
            self._dynamo.transact([update(self._table, self.key(location), assign=assign, expect={"holder": holder})])

    def require_free(self, location: str) -> None:
        """Raise Conflict, which names the holder, if any writer has the lease."""
        item = self._dynamo.get(self._table, self.key(location)) or {}
        if self._is_active(item):
            raise _conflict(location, item)

    @staticmethod
    def key(location: str) -> keys.Key:
        """Return the key of the lease of a location, for any S3 scheme."""
        return keys.lease(location if location == CATALOG else Location.parse(location).uri)

    def _is_active(self, item: Attributes) -> bool:
        return "holder" in item and item["expires"] > self._now()

    def _now(self) -> int:
        return int(self._clock() * 1000)


def _milliseconds(ttl: timedelta) -> int:
    return max(1, int(ttl.total_seconds() * 1000))


def _conflict(location: str, item: Attributes) -> Conflict:
    if "holder" not in item:
        return Conflict(f"the lease of {location} has ended: take it again before you write")
    until = datetime.fromtimestamp(item["expires"] / 1000, UTC).isoformat(timespec="seconds")
    return Conflict(
        f"{location} is being written by {item['holder']} (its lease ends {until}): "
        "wait until it finishes, or until the lease ends if it has crashed"
    )
