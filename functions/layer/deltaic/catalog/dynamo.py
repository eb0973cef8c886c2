"""The connection to DynamoDB: one lazy client, bounded waiting, and no error of AWS's own let through."""

import json
import random
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeVar

from deltaic.catalog.attributes import unmarshal_item
from deltaic.catalog.aws_errors import Contended, refused, withheld
from deltaic.catalog.keys import Key, KeyPrefix, KeyRange
from deltaic.errors import Conflict, TooManyRequests, Unavailable
from deltaic.settings import settings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

BATCH_KEYS: Final = 100  # BatchGetItem takes no more
FIRST_PAGE: Final = 200
"""So many items the first request for a list without a limit reads; later ones read 1 MB, thousands of them."""

SCANNED: Final = 2000
"""So many items one request of a scan looks at: 1 MB of them takes DynamoDB Local longer than the client waits."""

_READ_ATTEMPTS: Final = 8
_WRITE_ATTEMPTS: Final = 16  # sixteen writers of one item are done by then, since each round has a winner
_FIRST_PAUSE_SECONDS: Final = 0.02
_LONGEST_PAUSE_SECONDS: Final = 0.64
_HALF: Final = "the catalog's answer was broken: try again in a moment"
_Answer = TypeVar("_Answer")

Attributes = dict[str, Any]
"""One item as plain values, its key included."""


def connect() -> "DynamoDBClient":
    """Return a client for what the environment names, with waits that fit inside one request of a function."""
    client: DynamoDBClient = botocore_client("dynamodb")
    return client


def botocore_client(service: str) -> Any:
    """Return botocore's client of a service of the catalog, for what the environment names.

    Imported here and by botocore rather than boto3: an authorizer's cold start pays for every import.
    """
    import botocore.session

    from deltaic.storage.aws_client import CATALOG, botocore_config

    session = botocore.session.get_session()
    region = session.get_config_variable("region") or settings().region  # botocore does not know AWS_REGION
    return session.create_client(service, region_name=region, config=botocore_config(CATALOG))


class Dynamo:
    """DynamoDB as the catalog uses it; safe to share between threads, connected at the first call.

    Every method raises only `errors`: throttling is TooManyRequests, trouble on the way Unavailable, a refusal by AWS
    PermissionDenied, a missing table NotFound; and `ConditionFailed`, which does not leave the catalog.
    `translate` makes errors of AWS's errors of ours; what it says by default is for those who run the server.
    """

    def __init__(
        self,
        connect: "Callable[[], DynamoDBClient]" = connect,
        translate: Callable[[Exception], Exception] = refused,
    ) -> None:
        self._connect = connect
        self._translate = translate
        self._client: DynamoDBClient | None = None
        self._lock = threading.Lock()

    @property
    def client(self) -> "DynamoDBClient":
        """The client: botocore's, or one with the same operations and exceptions; made when first asked for."""
        if self._client is None:
            with self._lock:
                if self._client is None:
                    connected = self._call(self._connect)
                    if meta := getattr(connected, "meta", None):
                        # botocore's; another refuses by itself what is not whole.
                        meta.events.register("after-call.dynamodb", _check_whole, unique_id="deltaic-whole")
                    self._client = connected
        return self._client

    def for_recipients(self) -> "Dynamo":
        """Return the same connection for the path of a recipient's request, whom no trouble of the server's is told."""
        return Dynamo(lambda: self.client, withheld)

    def get(self, table: str, key: Key) -> Attributes | None:
        """Return one item by a strongly consistent read, or None."""
        client = self.client
        answer = self._call(
            lambda: client.get_item(TableName=table, Key=_key(key), ConsistentRead=True),
        )
        item = answer.get("Item")
        return None if item is None else unmarshal_item(item)

    def batch_get(self, table: str, keys: Sequence[Key]) -> dict[Key, Attributes]:
        """Return those of the items that exist, by strongly consistent reads, 100 a request.

        What DynamoDB leaves unprocessed is asked for again with growing pauses; TooManyRequests when that is in vain.
        """
        items_by_key: dict[Key, Attributes] = {}
        waiting = list(dict.fromkeys(keys))
        waits = pauses(_READ_ATTEMPTS)
        while waiting:
            items, unprocessed = self._batch(table, waiting[:BATCH_KEYS])
            items_by_key.update({Key(item["pk"], item["sk"]): item for item in items})
            waiting = unprocessed + waiting[BATCH_KEYS:]
            if unprocessed:
                pause = next(waits, None)
                if pause is None:
                    raise TooManyRequests("the catalog is busy: try again in a moment")
                time.sleep(pause)
        return items_by_key

    def _batch(self, table: str, keys: Sequence[Key]) -> tuple[list[Attributes], list[Key]]:
        client = self.client
        request = {table: {"Keys": [_key(key) for key in keys], "ConsistentRead": True}}
        answer: Any = self._call(lambda: client.batch_get_item(RequestItems=request))  # type: ignore[arg-type]
        items = [unmarshal_item(item) for item in _required(answer, "Responses").get(table, [])]
        unprocessed = answer.get("UnprocessedKeys", {}).get(table, {}).get("Keys", [])
        return items, [Key(**unmarshal_item(key)) for key in unprocessed]

    def query(
        self,
        table: str,
        stretch: KeyRange,
        *,
        limit: int | None = None,
        at_once: int | None = None,
        consistent: bool = True,
    ) -> Iterator[Attributes]:
        """Yield the items of a stretch in the byte order of their sort keys, at most `limit` of them.

        Each request reads `at_once` of them at most, and is made when its first item is taken.

        DynamoDB ends a page at 1 MB or at the limit, and may name a next page that turns out to be empty: both are
        followed or ignored here, so whoever asks for one more than he needs knows whether there is more.
        """
        request = {
            "TableName": table,
            "KeyConditionExpression": "pk = :pk AND sk BETWEEN :low AND :high",
            "ExpressionAttributeValues": {
                ":pk": {"S": stretch.pk},
                ":low": {"S": stretch.low},
                ":high": {"S": stretch.high},
            },
            "ConsistentRead": consistent,
        }
        while limit is None or limit > 0:
            # Whoever shows a list has its beginning at once.
            is_first = "ExclusiveStartKey" not in request
            sizes = [most for most in (limit, at_once) if most is not None] or ([FIRST_PAGE] if is_first else [])
            items, position = self._page("query", request | ({"Limit": min(sizes)} if sizes else {}))
            yield from items
            if limit is not None:
                limit -= len(items)
            if position is None:
                return
            request["ExclusiveStartKey"] = position

    def scan(self, table: str, prefix: KeyPrefix) -> Iterator[Attributes]:
        """Yield the items of a kind in no order, page by page; DynamoDB reads the whole table for that.

        It is for operators: no function may do so. A list of each of thousands of recipients is as many requests.
        """
        wanted = f"begins_with(pk, :pk) AND begins_with(sk, :sk){prefix.has and f' AND attribute_exists({prefix.has})'}"
        request = {
            "TableName": table,
            "FilterExpression": wanted,
            "ExpressionAttributeValues": {":pk": {"S": prefix.pk}, ":sk": {"S": prefix.sk}},
            "ConsistentRead": True,
            "Limit": SCANNED,
        }
        while True:
            items, position = self._page("scan", request)
            yield from items
            if position is None:
                return
            request["ExclusiveStartKey"] = position

    def _page(self, operation: str, request: Mapping[str, Any]) -> tuple[list[Attributes], Any]:
        call = getattr(self.client, operation)
        answer: Any = self._call(lambda: call(**request))
        return [unmarshal_item(item) for item in _required(answer, "Items")], answer.get("LastEvaluatedKey")

    def transact(self, writes: Iterable[Mapping[str, Any]]) -> None:
        """Make all the writes or none; raises ConditionFailed for the first condition that did not hold.

        A collision with another transaction is tried again with growing, random pauses. botocore sends the same
        idempotency token when it repeats a request, so an answer that was lost does not look like a failed condition.
        """
        client = self.client
        items: Any = list(writes)
        for pause in pauses(_WRITE_ATTEMPTS):
            try:
                self._call(lambda: client.transact_write_items(TransactItems=items))
            except Contended:
                time.sleep(pause)
            else:
                return
        raise Conflict("others keep changing the same part of the catalog: try again in a moment")

    def update(self, write: Mapping[str, Any]) -> None:
        """Make one write of `writes.update` by itself; raises ConditionFailed, Unavailable where others contend."""
        client = self.client
        try:
            self._call(lambda: client.update_item(**write["Update"]))
        except Contended:
            raise Unavailable("others change the same part of the catalog: try again in a moment") from None

    def _call(self, request: Callable[[], _Answer]) -> _Answer:
        try:
            return request()
        except Exception as error:
            raise self._translate(error) from error


def _check_whole(http_response: Any, **_: Any) -> None:
    """Refuse an answer that is no JSON: botocore makes an empty one of it, and so of an item that exists none."""
    content = http_response.content
    if http_response.status_code >= HTTPStatus.MULTIPLE_CHOICES:
        return
    try:
        # DynamoDB tells the checksum of its answers, which is quicker to compare than JSON is to read.
        told = http_response.headers.get("x-amz-crc32")
        whole = int(told) == zlib.crc32(content) if told else isinstance(json.loads(content), dict)
    except (ValueError, RecursionError):
        whole = False
    if not whole:
        raise Unavailable(_HALF)


def _required(answer: Any, name: str) -> Any:
    """Return a part that every answer of this kind has."""
    if name not in answer:
        raise Unavailable(_HALF)
    return answer[name]


def _key(key: Key) -> dict[str, Any]:
    return {"pk": {"S": key.pk}, "sk": {"S": key.sk}}


def pauses(attempts: int, longest: float = _LONGEST_PAUSE_SECONDS) -> Iterator[float]:
    """Yield how many seconds to wait after each of so many attempts."""
    # Full jitter: the pause is anywhere below a bound that doubles, so that racing writers part.
    for attempt in range(attempts):
        yield random.uniform(0, min(longest, _FIRST_PAUSE_SECONDS * 2**attempt))  # noqa: S311 -- spread
