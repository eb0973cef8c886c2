"""Store submitted (asynchronous) queries by recipient, table and query id until they expire."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from deltaic.catalog import keys
from deltaic.catalog.attributes import marshal, marshal_item
from deltaic.catalog.aws_errors import ConditionFailed
from deltaic.catalog.dynamo import Dynamo, pauses
from deltaic.catalog.items import Item
from deltaic.catalog.live_queries import MOST, LiveQueries
from deltaic.errors import Conflict, InvalidParameter, NotFound, TooManyRequests, Unavailable

LIFE: Final = timedelta(days=1)
"""Time during which clients can request a query's result, and an identical submission returns the same query."""

PARAMETERS_BYTES: Final = 384 << 10
"""Maximum bytes of a query's parameters. A DynamoDB item can have 400 KB, and other attributes need a few KB."""

_ATTEMPTS: Final = 16
"""Maximum attempts to store a query: enough for 16 concurrent ones, because one is stored in each attempt."""

_CROWDED: Final = "You submit too many queries at the same time: try again later."


class Query(Item, frozen=True, kw_only=True):
    """A query that the server has accepted and that it runs when the client requests the result."""

    id: str
    recipient_id: str
    table_id: str
    parameters: str
    """The request body of the query, as ASCII JSON."""

    version: int
    """Table version of the snapshot, or first version of a range of changes, at the time of submission."""

    end_version: int | None = None
    """The last version of the range, inclusive; None for a snapshot."""

    latest_version: int
    """The table's latest version at the time of submission."""

    response_format: Literal["parquet", "delta"]
    log_id: str
    """Identifies the table's log and the newest commit to read, as in `PageClaims`."""

    file_id_hash: Literal["parquet", "delta"] | None = None
    """Value of the request header for the hash of file ids; None if the header is absent."""

    rights: str = ""
    """Identifies the filters that applied to the recipient at the time of submission; empty: none."""

    expires_at: datetime


class QueryStore:
    """Read submitted queries with GetItem, and write them with PutItem.

    Every look-up needs the recipient and the table, so that queries of other recipients look as if they did not exist.
    """

    def __init__(
        self,
        table: str,
        dynamo: Dynamo | None = None,
        clock: Callable[[], float] = time.time,
        most: int = MOST,
    ) -> None:
        """Create a store that allows `most` unexpired queries per recipient."""
        self._table = table
        self._dynamo = (dynamo or Dynamo()).for_recipients()
        self._clock = clock
        self._most = most

    def expiry(self) -> datetime:
        """Return the expiry of a query that is submitted now."""
        return datetime.fromtimestamp(self._now(), UTC) + LIFE

    def submit(self, query: Query) -> Query:
        """Store a query and return it, or return the stored, unexpired query with the same id.

        Raises InvalidParameter if the parameters are too large. Raises TooManyRequests if the recipient has too many
        unexpired queries or submits too many at the same time, but not for a query that is stored already.
        """
        if len(query.parameters) > PARAMETERS_BYTES:
            raise InvalidParameter(
                f"The parameters of the query have {len(query.parameters)} bytes, but an asynchronous query allows "
                f"{PARAMETERS_BYTES}: shorten the predicate hints, or send the request without asyncquery=true."
            )
        for pause in pauses(_ATTEMPTS):
            if (recorded := self._try_submit(query)) is not None:
                return recorded
            time.sleep(pause)
        raise TooManyRequests(_CROWDED)

    def _try_submit(self, query: Query) -> Query | None:
        """Store a query; return None if another query of the same recipient was stored at the same time."""
        live_key, now = keys.live_queries(query.recipient_id), self._now()
        live = LiveQueries.read(self._dynamo.get(self._table, live_key), now)
        try:
            live.check_room(len(query.parameters), self._most)
        except TooManyRequests:
            if existing := self.find(query.recipient_id, query.table_id, query.id):
                return existing
            raise
        write = {
            "TableName": self._table,
            "Item": marshal_item({
                **keys.query(query.recipient_id, query.table_id, query.id)._asdict(),
                **query.attributes(),
            }),
            "ConditionExpression": "attribute_not_exists(pk) OR expires_at <= :now",
            "ExpressionAttributeValues": {":now": marshal(now)},
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }  # fmt: skip
        live_write = live.add_query(self._table, live_key, query.expires_at, len(query.parameters))
        try:
            self._dynamo.transact([{"Put": write}, live_write])
        except Conflict as crowded:
            raise TooManyRequests(_CROWDED) from crowded
        except ConditionFailed as failed:
            if failed.index > 0:
                return None
            if failed.item is None:
                raise Unavailable("the server could not record the query: try again later") from failed
            return Query.read(failed.item)
        return query

    def find(self, recipient_id: str, table_id: str, query_id: str) -> Query | None:
        """Return a recipient's unexpired query on a table, or None, with a strongly consistent read."""
        item = self._dynamo.get(self._table, keys.query(recipient_id, table_id, query_id))
        # DynamoDB deletes expired items only days later (time to live), so compare the expiry here.
        if item is None or item["expires_at"] <= self._now():
            return None
        return Query.read(item)

    def get(self, recipient_id: str, table_id: str, query_id: str) -> Query:
        """Return a recipient's unexpired query on a table; raises NotFound, also for other recipients' queries."""
        query = self.find(recipient_id, table_id, query_id)
        if query is None:
            raise NotFound("The query is unknown or has expired: submit it again.")
        return query

    def _now(self) -> int:
        return int(self._clock())
