"""Limit the submitted queries of one recipient that can be live at the same time.

The list of live queries is one item in the recipient's partition. Each query is written in one transaction with this
item, on the condition that the item has not changed since it was read. It has the expiry and the size of each live
query, so that expired queries do not count, even before DynamoDB deletes them (decision 50).
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
"""Live queries per recipient. A query lives for a day, and no recipient is expected to submit more in a day."""

MOST_BYTES: Final = 8 << 20
"""Total bytes of their parameters. Most queries have a few hundred bytes; the limit for one is 384 KB."""


class LiveQueries(msgspec.Struct, frozen=True):
    """The live queries of one recipient, from one read."""

    expiries: list[tuple[int, int]]
    """Expiry of each query in seconds since the epoch, and the bytes of its parameters."""
    stored: list[list[int]] | None
    """The content of the item; None if it did not exist."""

    @classmethod
    def read(cls, item: Mapping[str, Any] | None, now: int) -> "LiveQueries":
        """Return the queries of a stored item that are live now."""
        stored = None if item is None else item["live"]
        return cls([(expiry, nbytes) for expiry, nbytes in stored or () if expiry > now], stored)

    def check_room(self, nbytes: int, most: int) -> None:
        """Raise TooManyRequests if a new query with so many bytes would exceed a limit."""
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
        """Return the write that adds a query, if the item is unchanged."""
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
