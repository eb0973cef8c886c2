"""Counts what limited recipients ask for: requests of a minute, signed bytes of a day (UTC); others are not counted.

Each window is an item of its own, which the table forgets after it: nothing is ever set back, so that of any number of
requests at once none is lost.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

from deltaic.catalog import keys
from deltaic.catalog.aws_errors import ConditionFailed
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.writes import update

MINUTE: Final = 60
DAY: Final = 86_400
_KEPT: Final = timedelta(hours=1)
"""For how long a window is kept after it."""


class LimitCounters:
    """The counters of one catalog table: one write for a request, one for an answer that signed; what they cost.

    Every method raises what `Dynamo` does.
    """

    def __init__(self, table: str, dynamo: Dynamo | None = None) -> None:
        self._table = table
        self._dynamo = (dynamo or Dynamo()).for_recipients()

    def count_request(self, recipient_id: str, most: int, now: float) -> bool:
        """Count one more request of this minute; False where there were as many as are allowed: it is not counted."""
        minute = int(now // MINUTE)
        key = keys.requests_of_minute(recipient_id, minute)
        write = update(
            self._table, key, assign={"expires_at": _forgotten((minute + 1) * MINUTE)}, add={"requests": 1}, create=True
        )
        change = write["Update"]
        change["ConditionExpression"] = "attribute_not_exists(#requests) OR #requests < :most"
        change["ExpressionAttributeValues"][":most"] = {"N": str(most)}
        try:
            self._dynamo.update(write)
        except ConditionFailed:
            return False
        return True

    def signed_bytes(self, recipient_id: str, now: float) -> int:
        """Return how many bytes have been signed for the recipient today."""
        item = self._dynamo.get(self._table, keys.bytes_of_day(recipient_id, int(now // DAY)))
        return 0 if item is None else int(item["bytes"])

    def add_bytes(self, recipient_id: str, size: int, now: float) -> None:
        """Count bytes that were signed."""
        day = int(now // DAY)
        key = keys.bytes_of_day(recipient_id, day)
        assign = {"expires_at": _forgotten((day + 1) * DAY)}
        self._dynamo.update(update(self._table, key, assign=assign, add={"bytes": size}, create=True))


def _forgotten(ends: int) -> datetime:
    return datetime.fromtimestamp(ends, UTC) + _KEPT
