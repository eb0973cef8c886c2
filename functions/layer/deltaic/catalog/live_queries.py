"""Limit how many unexpired submitted queries (live queries) one recipient can have.

The list of live queries is one item in the recipient's partition, with the expiry and the size of each query. A new
query and the list are written in one transaction, on the condition that the list has not changed since it was read.
Expired queries do not count, even if DynamoDB has not deleted them yet (decision 50).
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from deltaic.catalog.attributes import marshal_item
from deltaic.catalog.keys import Key
from deltaic.catalog.writes import Write
from deltaic.errors import TooManyRequests

MOST: Final = 500
"""Maximum number of live queries per recipient. Queries expire after a day, and recipients should not need more."""

MOST_BYTES: Final = 8 << 20
"""Maximum total bytes of the parameters of a recipient's live queries. A query can have 384 KB, but few do."""


class LiveQueries(msgspec.Struct, frozen=True):
    """The live (unexpired) queries of one recipient, as they were when the list was read."""

    expiries: list[tuple[int, int]]
    """Per query, its expiry in seconds since the epoch and the size of its parameters in bytes."""
    stored: list[list[int]] | None
    """The stored list, including expired queries; None if the item did not exist."""

    @classmethod
    def read(cls, item: Mapping[str, Any] | None, now: int) -> "LiveQueries":
        """Return the queries of a stored list that have not expired at `now` (seconds since the epoch)."""
        stored = None if item is None else item["live"]
        return cls([(expiry, nbytes) for expiry, nbytes in stored or () if expiry > now], stored)

    def check_room(self, nbytes: int, most: int) -> None:
        """Raise TooManyRequests if a new query with `nbytes` bytes would exceed `most` queries or `MOST_BYTES`."""
        stored_bytes = sum(size for _, size in self.expiries)
        if len(self.expiries) < most and stored_bytes + nbytes <= MOST_BYTES:
            return
        first = datetime.fromtimestamp(min(self.expiries)[0], UTC) if self.expiries else None
        until = "" if first is None else f" The first of them expires at {first:%Y-%m-%dT%H:%M:%SZ}."
        raise TooManyRequests(
            f"You have {len(self.expiries)} submitted queries whose results have not expired, with {stored_bytes} "
            f"bytes of parameters; {most} and {MOST_BYTES} are allowed. "
            f"Send the request without asyncquery=true, or later.{until}"
        )

    def add_query(self, table: str, key: Key, expiry: datetime, nbytes: int) -> Write:
        """Return the DynamoDB write that adds a query to the list, on the condition that the list is unchanged."""
        live = [*self.expiries, (int(expiry.timestamp()), nbytes)]
        last = max(live)[0]
        write: Write = {
            "TableName": table,
            "Item": marshal_item({**key._asdict(), "live": live, "expires_at": last}),
            "ConditionExpression": "attribute_not_exists(pk)",
        }
        if self.stored is not None:
            write["ConditionExpression"] = "live = :live"
            write["ExpressionAttributeValues"] = marshal_item({":live": self.stored})
        return {"Put": write}
