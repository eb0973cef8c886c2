"""Submitted queries, by recipient, table and id, until they expire."""

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
"""How long a result can be requested, and a repeated submission returns the same query."""

PARAMETERS_BYTES: Final = 384 << 10
"""Limit of the parameters. An item may have 400 KB, and its other attributes need a few."""

_ATTEMPTS: Final = 16
"""Enough for sixteen concurrent submissions, because one of them succeeds in each attempt."""

_CROWDED: Final = "You submit too many queries at the same time: try again later."


class Query(Item, frozen=True, kw_only=True):
    """A query that the server has accepted, and runs when the client requests its result."""

    id: str
    recipient_id: str
    table_id: str
    parameters: str
    """The body of the query, as ASCII JSON."""

    version: int
    """Version of the snapshot, or the first version of the range, at the time of submission."""

    end_version: int | None = None
    """The last version of the range, inclusive; None for a snapshot."""

    latest_version: int
    """The table's latest version at the time of submission."""

    response_format: Literal["parquet", "delta"]
    log_id: str
    """Identifies the log and the newest commit to read, as in `PageClaims`."""

    file_id_hash: Literal["parquet", "delta"] | None = None
    """The request header."""

    rights: str = ""
    """Name of the recipient's rights on the table at the time of submission; empty: unfiltered."""

    expires_at: datetime


class QueryStore:
    """Queries of one catalog, read with GetItem and submitted with PutItem.

    Every look-up needs the recipient and the table, so that the query of another recipient looks unknown.
    """

    def __init__(
        self,
        table: str,
        dynamo: Dynamo | None = None,
        clock: Callable[[], float] = time.time,
        most: int = MOST,
    ) -> None:
        """Create a store that allows `most` live queries per recipient."""
        self._table = table
        self._dynamo = (dynamo or Dynamo()).for_recipients()
        self._clock = clock
        self._most = most

    def expiry(self) -> datetime:
        """Return when a query that is submitted now expires."""
        return datetime.fromtimestamp(self._now(), UTC) + LIFE

    def submit(self, query: Query) -> Query:
        """Record a query and return it, or return the live query with the same id.

        Raises InvalidParameter for parameters that do not fit into an item. Raises TooManyRequests for a query above
        the recipient's limit, or for too many concurrent submissions. Never refuses a query that is recorded already.
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
        """Record a query; return None if another query of the same recipient was recorded first."""
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
        """Return a live query of this recipient on this table, by a strongly consistent read."""
        item = self._dynamo.get(self._table, keys.query(recipient_id, table_id, query_id))
        # DynamoDB deletes expired items only days later (time to live), so compare the expiry here.
        if item is None or item["expires_at"] <= self._now():
            return None
        return Query.read(item)

    def get(self, recipient_id: str, table_id: str, query_id: str) -> Query:
        """Return a live query; raises NotFound, also for expired and other recipients' queries."""
        query = self.find(recipient_id, table_id, query_id)
        if query is None:
            raise NotFound("The query is unknown or has expired: submit it again.")
        return query

    def _now(self) -> int:
        return int(self._clock())
