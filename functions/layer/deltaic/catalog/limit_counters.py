"""Counts what limited recipients ask for: requests of a minute, signed bytes of a day (UTC); others are not counted.

Each window is an item of its own, which the table forgets after it; the day's item holds the latest minute too, of who
has both limits. A count is added to, or begun on a condition, so that of any number of requests at once none is lost.
"""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from deltaic.catalog import keys
from deltaic.catalog.aws_errors import ConditionFailed
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.writes import Write, update

MINUTE: Final = 60
DAY: Final = 86_400
_KEPT: Final = timedelta(hours=1)
"""For how long a window is kept after it."""


class Usage(NamedTuple):
    """What a recipient had of one day and of its present minute."""

    bytes: int
    requests: int


class LimitCounters:
    """The counters of one catalog table: a request costs one write, by `count_request` before it or by `add` after it.

    Every method raises what `Dynamo` does.
    """

    def __init__(self, table: str, dynamo: Dynamo | None = None) -> None:
        self._table = table
        self._dynamo = (dynamo or Dynamo()).for_recipients()

    def count_request(self, recipient_id: str, most: int, now: float) -> bool:
        """Count one more request of this minute; False where there were as many as are allowed: it is not counted."""
        minute = int(now // MINUTE)
        key = keys.limit_counter("requests", recipient_id, minute)
        write = update(
            self._table, key, assign={"expires_at": _forgotten((minute + 1) * MINUTE)}, add={"requests": 1}, create=True
        )
        try:
            self._dynamo.update(_while_below(write, "requests", most))
        except ConditionFailed:
            return False
        return True

    def usage(self, recipient_id: str, now: float) -> Usage:
        """Return what `add` has counted for the recipient."""
        item = self._dynamo.get(self._table, keys.limit_counter("bytes", recipient_id, int(now // DAY))) or {}
        requests = int(item["requests"]) if item.get("minute") == int(now // MINUTE) else 0
        return Usage(int(item.get("bytes", 0)), requests)

    def add(self, recipient_id: str, size: int, now: float, *, request: bool) -> None:
        """Count bytes that were signed, and in the same write the request itself."""
        day, minute = int(now // DAY), int(now // MINUTE)
        key = keys.limit_counter("bytes", recipient_id, day)
        ends = {"expires_at": _forgotten((day + 1) * DAY)}
        if not request:
            self._dynamo.update(update(self._table, key, assign=ends, add={"bytes": size}, create=True))
            return
        more = {"bytes": size, "requests": 1}
        same = update(self._table, key, assign=ends, add=more, expect={"minute": minute}, create=True)
        begun = ends | {"minute": minute, "requests": 1}
        first = _while_below(update(self._table, key, assign=begun, add={"bytes": size}, create=True), "minute", minute)
        # Who is the first of a minute neither by the one nor by the other, was overtaken by somebody who is.
        for write in (same, first):
            with suppress(ConditionFailed):
                self._dynamo.update(write)
                return
        self._dynamo.update(update(self._table, key, assign=ends, add=more, create=True))


def _while_below(write: Write, name: str, bound: int) -> Write:
    """Return a write of an attribute that is carried out only while this is absent or less."""
    change = write["Update"]
    change["ConditionExpression"] = f"attribute_not_exists(#{name}) OR #{name} < :bound"
    change["ExpressionAttributeValues"][":bound"] = {"N": str(bound)}
    return write


def _forgotten(ends: int) -> datetime:
    return datetime.fromtimestamp(ends, UTC) + _KEPT
