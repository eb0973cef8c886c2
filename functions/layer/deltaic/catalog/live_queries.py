"""Decides how many submitted queries of one recipient may be live at once, and counts them so that none is missed.

The count is an item of its own in the recipient's partition, written in one transaction with each query on the
condition that nobody has written it meanwhile. It names when each live query expires and what it weighs, so that
expired ones count no more, whether or not DynamoDB has deleted them yet (decision 50).
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
"""A query lives for a day, whether or not its result was fetched: more than who works with them submits in one."""

MOST_BYTES: Final = 8 << 20
"""Of parameters; those of a query are a few hundred, and may be 384 KB."""


class LiveQueries(msgspec.Struct, frozen=True):
    """The live queries of one recipient, as one read found them."""

    expiries: list[tuple[int, int]]
    """When each expires, seconds since the epoch, and the bytes of its parameters."""
    stored: list[list[int]] | None
    """What the item held then; None where there was none."""

    @classmethod
    def read(cls, item: Mapping[str, Any] | None, now: int) -> "LiveQueries":
        """Return those that are live now."""
        stored = None if item is None else item["live"]
        return cls([(expiry, nbytes) for expiry, nbytes in stored or () if expiry > now], stored)

    def check_room(self, nbytes: int, most: int) -> None:
        """Refuse one more of so many bytes where there is no room for it; raises TooManyRequests with the remedy."""
        stored_bytes = sum(size for _, size in self.expiries)
        if len(self.expiries) < most and stored_bytes + nbytes <= MOST_BYTES:
            return
        first = datetime.fromtimestamp(min(self.expiries)[0], UTC) if self.expiries else None
        until = "" if first is None else f" The first of them expires at {first:%Y-%m-%dT%H:%M:%SZ}."
        raise TooManyRequests(
            f"You have {len(self.expiries)} submitted queries whose results can still be asked for, with "
            f"{stored_bytes} bytes of parameters; {most} and {MOST_BYTES} are allowed. "
            f"Ask without asyncquery=true, or later.{until}"
        )

    def with_one_more(self, table: str, key: Key, expiry: datetime, nbytes: int) -> Write:
        """Return the write that counts one more, and fails if the item is not as it was read."""
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
