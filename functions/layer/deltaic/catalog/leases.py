"""Decides who may write to a table location: one holder at a time, until it lets go or its time is over.

Object stores that take any PUT let two writers of one Delta log overwrite each other's commits, so writers agree here.
An expiry is compared with the clock of whoever asks: the time to live must be large against the skew of their clocks.
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
"""In the place of a location: the catalog itself, for whoever changes all of it."""


class Leases:
    """The leases of one catalog. `holder` is unique to one job and says to people who it is."""

    def __init__(self, table: str, dynamo: Dynamo | None = None, clock: Callable[[], float] = time.time) -> None:
        self._table = table
        self._dynamo = dynamo or Dynamo()
        self._clock = clock

    def acquire(self, location: str, holder: str, ttl: timedelta) -> None:
        """Take the lease of a free or expired location, or prolong one's own.

        Raises Conflict, which names the other holder and until when it holds.
        """
        if not holder or ttl <= timedelta(0):
            raise InvalidParameter("a lease needs the name of its holder and a time to live")
        for _ in range(_RACES):
            item = self._dynamo.get(self._table, self.key(location)) or {}
            own = item.get("holder") == holder
            if self._is_held(item) and not own:
                raise _held(location, item)
            try:
                self._dynamo.transact([
                    update(
                        self._table,
                        self.key(location),
                        assign={"holder": holder, "expires": self._now() + _milliseconds(ttl), "location": location},
                        add={"fence": 0 if own else 1},
                        expect={name: item.get(name, ABSENT) for name in ("holder", "expires", "fence")},
                        create=True,
                    )
                ])  # fmt: skip
            except ConditionFailed:
                continue
            return
        raise Conflict(f"others keep taking the lease of {location}: try again in a moment")

    def renew(self, location: str, holder: str, ttl: timedelta) -> None:
        """Prolong the lease to `ttl` from now; raises Conflict if it has passed to somebody else or was given back.

        An expired lease that nobody took is prolonged: nobody can have written meanwhile.
        """
        assign = {"expires": self._now() + _milliseconds(ttl)}
        try:
            self._dynamo.transact([update(self._table, self.key(location), assign=assign, expect={"holder": holder})])
        except ConditionFailed as failed:
            raise _held(location, failed.item or {}) from None

    def release(self, location: str, holder: str) -> None:
        """Give the lease back; nothing happens if somebody else has it."""
        assign = {"holder": None, "expires": None}
        with suppress(ConditionFailed):
            self._dynamo.transact([update(self._table, self.key(location), assign=assign, expect={"holder": holder})])

    def require_free(self, location: str) -> None:
        """Raise Conflict, which names the holder, where somebody holds the lease now."""
        item = self._dynamo.get(self._table, self.key(location)) or {}
        if self._is_held(item):
            raise _held(location, item)

    @staticmethod
    def key(location: str) -> keys.Key:
        """Return where the lease of a location lies."""
        # s3, s3a and s3n name the same place, with or without a slash at the end; keys are case-sensitive there.
        return keys.lease(location if location == CATALOG else Location.parse(location).uri)

    def _is_held(self, item: Attributes) -> bool:
        return "holder" in item and item["expires"] > self._now()

    def _now(self) -> int:
        return int(self._clock() * 1000)


def _milliseconds(ttl: timedelta) -> int:
    return max(1, int(ttl.total_seconds() * 1000))


def _held(location: str, item: Attributes) -> Conflict:
    if "holder" not in item:
        return Conflict(f"the lease of {location} is not held any more: take it again before writing")
    until = datetime.fromtimestamp(item["expires"] / 1000, UTC).isoformat(timespec="seconds")
    return Conflict(
        f"{location} is being written by {item['holder']} (its lease ends {until}): "
        "wait until it is done, or for that time if it is dead"
    )
