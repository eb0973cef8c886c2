"""Count requests per minute, and bytes of files with signed URLs per day (UTC), of recipients with limits.

Each minute or day has its own item, which expires later. For recipients with both limits, the day's item also counts
the requests of the latest minute. Conditional writes count every request, even if many arrive at the same time.
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
_RETENTION: Final = timedelta(hours=1)
"""How long an item is kept after the end of its minute or day."""


class Usage(NamedTuple):
    """Bytes of files for which a recipient got signed URLs today, and its requests in the current minute."""

    bytes: int
    requests: int


class LimitCounters:
    """Counters in the Catalog table. Each request calls either `count_request` or `add`, which write once.

    Every method raises the errors of `Dynamo`.
    """

    def __init__(self, table: str, dynamo: Dynamo | None = None) -> None:
        self._table = table
        self._dynamo = (dynamo or Dynamo()).for_recipients()

    def count_request(self, recipient_id: str, most: int, now: float) -> bool:
        """Count a request in the current minute; return False if `most` requests were counted already."""
        minute = int(now // MINUTE)
        key = keys.limit_counter("requests", recipient_id, minute)
        write = update(
            self._table, key, assign={"expires_at": _expiry((minute + 1) * MINUTE)}, add={"requests": 1}, create=True
        )
        try:
            self._dynamo.update(_only_below(write, "requests", most))
        except ConditionFailed:
            return False
        return True

    def usage(self, recipient_id: str, now: float) -> Usage:
        """Return what `add` has counted for the recipient today and in the current minute."""
        item = self._dynamo.get(self._table, keys.limit_counter("bytes", recipient_id, int(now // DAY))) or {}
        requests = int(item["requests"]) if item.get("minute") == int(now // MINUTE) else 0
        return Usage(int(item.get("bytes", 0)), requests)

    def add(self, recipient_id: str, size: int, now: float, *, request: bool) -> None:
        """Add `size` bytes to the recipient's count of today; with `request`, also count a request, in one write."""
        day, minute = int(now // DAY), int(now // MINUTE)
        key = keys.limit_counter("bytes", recipient_id, day)
        expiry = {"expires_at": _expiry((day + 1) * DAY)}
        if not request:
            self._dynamo.update(update(self._table, key, assign=expiry, add={"bytes": size}, create=True))
            return
        counts = {"bytes": size, "requests": 1}
        same_minute = update(self._table, key, assign=expiry, add=counts, expect={"minute": minute}, create=True)
        reset = update(
            self._table, key, assign={**expiry, "minute": minute, "requests": 1}, add={"bytes": size}, create=True
        )
        for write in (same_minute, _only_below(reset, "minute", minute)):
            with suppress(ConditionFailed):
                self._dynamo.update(write)
                return
        # Both conditions fail if another request has started this minute since, or a later one.
        self._dynamo.update(update(self._table, key, assign=expiry, add=counts, create=True))


def _only_below(write: Write, name: str, bound: int) -> Write:
    """Add the condition to a write that the attribute `name` is absent or less than `bound`."""
    change = write["Update"]
    change["ConditionExpression"] = f"attribute_not_exists(#{name}) OR #{name} < :bound"
    change["ExpressionAttributeValues"][":bound"] = {"N": str(bound)}
    return write


def _expiry(end: int) -> datetime:
    return datetime.fromtimestamp(end, UTC) + _RETENTION
