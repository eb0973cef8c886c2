"""The submitted queries: an id stands for the recipient's own, on the table that it names, while it lasts."""

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
"""How long the result of a query can be asked for, and a repeated submission counts as the same."""

PARAMETERS_BYTES: Final = 384 << 10
"""An item may have 400 KB; the rest of one takes a few."""

_ATTEMPTS: Final = 16
"""Each round of submissions at once has a winner."""

_CROWDED: Final = "You submit more queries at once than can be recorded: try again in a moment."


class Query(Item, frozen=True, kw_only=True):
    """A query that was accepted and is answered when its result is asked for."""

    id: str
    recipient_id: str
    table_id: str
    parameters: str
    """The body of the query, as ASCII JSON."""

    version: int
    """The snapshot, or the first version of the range, as it was found when the query was submitted."""

    end_version: int | None = None
    """The last version of the range, inclusive; None for a snapshot."""

    latest_version: int
    """The table's latest version then."""

    response_format: Literal["parquet", "delta"]
    log_id: str
    """Names the log and the newest commit that is read, as in `PageClaims`."""

    file_id_hash: Literal["parquet", "delta"] | None = None
    """The header as sent."""

    rights: str = ""
    """What the recipient might see of the table when it submitted, by name; empty for all of it."""

    expires_at: datetime


class QueryStore:
    """The queries of one catalog: GetItem, and PutItem where queries are submitted.

    Every look-up names the recipient and the table, so that another's query is as absent as one that never was.
    """

    def __init__(
        self,
        table: str,
        dynamo: Dynamo | None = None,
        clock: Callable[[], float] = time.time,
        most: int = MOST,
    ) -> None:
        """`most` is how many queries of one recipient may be live at once."""
        self._table = table
        self._dynamo = (dynamo or Dynamo()).for_recipients()
        self._clock = clock
        self._most = most

    def expiry(self) -> datetime:
        """Return when a query that is submitted now expires."""
        return datetime.fromtimestamp(self._now(), UTC) + LIFE

    def submit(self, query: Query) -> Query:
        """Record a query; returns it, or the live one of the same id that somebody has recorded before.

        Raises InvalidParameter for parameters that do not fit into an item, TooManyRequests for a query above what one
        recipient may have, or where others of the same recipient keep coming first. A query that is recorded already is
        never refused.
        """
        if len(query.parameters) > PARAMETERS_BYTES:
            raise InvalidParameter(
                f"The parameters of the query take {len(query.parameters)} bytes, and those of an asynchronous one may "
                f"take {PARAMETERS_BYTES}: shorten the predicate hints, or ask without asyncquery=true."
            )
        for pause in pauses(_ATTEMPTS):
            if (recorded := self._submit(query)) is not None:
                return recorded
            time.sleep(pause)
        raise TooManyRequests(_CROWDED)

    def _submit(self, query: Query) -> Query | None:
        """Try to record a query; None where another of the same recipient was recorded first."""
        counted, now = keys.live_queries(query.recipient_id), self._now()
        live = LiveQueries.read(self._dynamo.get(self._table, counted), now)
        try:
            live.check_room(len(query.parameters), self._most)
        except TooManyRequests:
            if found := self.find(query.recipient_id, query.table_id, query.id):
                return found
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
        one_more = live.with_one_more(self._table, counted, query.expires_at, len(query.parameters))
        try:
            self._dynamo.transact([{"Put": write}, one_more])
        except Conflict as crowded:
            raise TooManyRequests(_CROWDED) from crowded
        except ConditionFailed as failed:
            if failed.index > 0:
                return None
            if failed.item is None:
                raise Unavailable("the query could not be recorded at the moment; try again") from failed
            return Query.read(failed.item)
        return query

    def find(self, recipient_id: str, table_id: str, query_id: str) -> Query | None:
        """Return a live query of this recipient on this table, by a strongly consistent read."""
        item = self._dynamo.get(self._table, keys.query(recipient_id, table_id, query_id))
        # Deletion of expired items lags by days (DynamoDB time to live), so the expiry is compared here.
        if item is None or item["expires_at"] <= self._now():
            return None
        return Query.read(item)

    def get(self, recipient_id: str, table_id: str, query_id: str) -> Query:
        """Return a live query; raises NotFound, in the same words whether it is unknown, another's or expired."""
        found = self.find(recipient_id, table_id, query_id)
        if found is None:
            raise NotFound("The query is unknown or has expired: submit it again.")
        return found

    def _now(self) -> int:
        return int(self._clock())
