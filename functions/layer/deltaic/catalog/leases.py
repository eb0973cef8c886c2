"""Decides who may write to a table location: one holder at a time, until it lets go or its time is over.

Object stores that take any PUT let two writers of one Delta log overwrite each other's commits, so writers agree here.
An expiry is compared with the clock of whoever asks: the time to live must be large against the skew of their clocks.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from deltaic.catalog import keys
from deltaic.catalog.aws_errors import ConditionFailed
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.writes import ABSENT, update
from deltaic.errors import Conflict, InvalidParameter
from deltaic.storage.locations import Location

_RACES: Final = 50


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease on a location as it stands."""

    location: str
    holder: str
    expires_at: datetime
    fence: int
    """How often the location has passed to a holder: a later holder always has a greater number."""


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
            found = self._dynamo.get(self._table, _key(location))
            now = self._now()
            if found is not None and "holder" in found and found["expires"] > now and found["holder"] != holder:
                raise _held(location, found)
            own = found is not None and found.get("holder") == holder
            seen = {} if found is None else found
            try:
                self._dynamo.transact([
                    update(
                        self._table,
                        _key(location),
                        assign={"holder": holder, "expires": now + _milliseconds(ttl), "location": location},
                        add={"fence": 0 if own else 1},
                        expect={name: seen.get(name, ABSENT) for name in ("holder", "expires", "fence")},
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
            self._dynamo.transact([update(self._table, _key(location), assign=assign, expect={"holder": holder})])
        except ConditionFailed as failed:
            raise _held(location, failed.found or {}) from None

    def release(self, location: str, holder: str) -> None:
        """Give the lease back; nothing happens if somebody else has it."""
        assign = {"holder": None, "expires": None}
        try:
            self._dynamo.transact([update(self._table, _key(location), assign=assign, expect={"holder": holder})])
        except ConditionFailed:
            return

    def find(self, location: str) -> Lease | None:
        """Return the lease that somebody holds now, or None."""
        found = self._dynamo.get(self._table, _key(location))
        if found is None or "holder" not in found or found["expires"] <= self._now():
            return None
        return Lease(found["location"], found["holder"], _moment(found["expires"]), found["fence"])

    def _now(self) -> int:
        return int(self._clock() * 1000)


def _key(location: str) -> keys.Key:
    # s3, s3a and s3n name the same place, with or without a slash at the end; keys are case-sensitive there.
    return keys.lease(Location.parse(location).uri)


def _milliseconds(ttl: timedelta) -> int:
    return max(1, int(ttl.total_seconds() * 1000))


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _held(location: str, found: dict[str, Any]) -> Conflict:
    if "holder" not in found:
        return Conflict(f"the lease of {location} is not held any more: take it again before writing")
    until = _moment(found["expires"]).isoformat(timespec="seconds")
    return Conflict(
        f"{location} is being written by {found['holder']} (its lease ends {until}): "
        "wait until it is done, or for that time if it is dead"
    )
