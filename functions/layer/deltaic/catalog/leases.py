"""Leases on table locations: only the holder of a lease may write to the location, until release or expiry.

On object stores without conditional writes, two writers of one Delta log can overwrite each other's commits. Leases
prevent that. Each writer compares the expiry with its own clock, so leases must last much longer than the clock skew.
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
"""Name of the lease that locks the whole catalog, used in place of a table location."""


class Leases:
    """Acquire, renew and release leases. `holder` is a string that is unique to one job and appears in messages."""

    def __init__(self, table: str, dynamo: Dynamo | None = None, clock: Callable[[], float] = time.time) -> None:
        self._table = table
        self._dynamo = dynamo or Dynamo()
        self._clock = clock

    def acquire(self, location: str, holder: str, ttl: timedelta) -> None:
        """Acquire the lease on a location for the duration `ttl`, or renew the holder's own lease.

        Raises Conflict if another holder has an unexpired lease; the message names the holder and the expiry.
        """
        if not holder or ttl <= timedelta(0):
            raise InvalidParameter("the lease has no holder or no duration: give a name and a positive duration")
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
        raise Conflict(f"other writers keep acquiring the lease on {location}: try again later")

    def renew(self, location: str, holder: str, ttl: timedelta) -> None:
        """Extend the holder's lease to `ttl` from now; raises Conflict if it was released or another holder has it.

        An expired lease is extended if no other holder has acquired it, because then nobody else has written.
        """
        assign = {"expires": self._now() + _milliseconds(ttl)}
        try:
            self._dynamo.transact([update(self._table, self.key(location), assign=assign, expect={"holder": holder})])
        except ConditionFailed as failed:
            raise _conflict(location, failed.item or {}) from None

    def release(self, location: str, holder: str) -> None:
        """Release the lease on a location; does nothing if another holder has it."""
        assign = {"holder": None, "expires": None}
        with suppress(ConditionFailed):
            self._dynamo.transact([update(self._table, self.key(location), assign=assign, expect={"holder": holder})])

    def require_free(self, location: str) -> None:
        """Raise Conflict, which names the holder, if anybody holds the lease on a location."""
        item = self._dynamo.get(self._table, self.key(location)) or {}
        if self._is_active(item):
            raise _conflict(location, item)

    @staticmethod
    def key(location: str) -> keys.Key:
        """Return the DynamoDB key of the lease on a location, the same for s3://, s3a:// and s3n://."""
        return keys.lease(location if location == CATALOG else Location.parse(location).uri)

    def _is_active(self, item: Attributes) -> bool:
        return "holder" in item and item["expires"] > self._now()

    def _now(self) -> int:
        return int(self._clock() * 1000)


def _milliseconds(ttl: timedelta) -> int:
    return max(1, int(ttl.total_seconds() * 1000))


def _conflict(location: str, item: Attributes) -> Conflict:
    if "holder" not in item:
        return Conflict(f"the lease on {location} is not held any more: acquire it again before you write")
    until = datetime.fromtimestamp(item["expires"] / 1000, UTC).isoformat(timespec="seconds")
    return Conflict(
        f"{location} is being written by {item['holder']} (its lease expires at {until}): "
        "wait until it finishes, or until the lease expires if it has crashed"
    )
