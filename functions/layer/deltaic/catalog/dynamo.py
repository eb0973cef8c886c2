"""DynamoDB client that connects at first use, limits retries and translates errors."""

import json
import random
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeVar

from deltaic.catalog.attributes import unmarshal_item
from deltaic.catalog.aws_errors import Contended, to_operator_error, to_recipient_error
from deltaic.catalog.keys import Key, KeyPrefix, KeyRange
from deltaic.errors import Conflict, TooManyRequests, Unavailable
from deltaic.settings import settings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

BATCH_KEYS: Final = 100  # the limit of BatchGetItem
FIRST_PAGE: Final = 200
"""Number of items that the first request of an unlimited listing reads. Later requests read 1 MB each."""

SCAN_PAGE: Final = 2000
"""Maximum items per Scan request, because DynamoDB Local reads 1 MB more slowly than the client's timeout allows."""

_READ_ATTEMPTS: Final = 8
_WRITE_ATTEMPTS: Final = 16  # enough for sixteen writers of one item, because one of them succeeds in each attempt
_FIRST_PAUSE_SECONDS: Final = 0.02
_LONGEST_PAUSE_SECONDS: Final = 0.64
_INCOMPLETE: Final = "the catalog returned an incomplete response: try again later"
_Answer = TypeVar("_Answer")

Attributes = dict[str, Any]
"""One item as Python values, including its key."""


def connect() -> "DynamoDBClient":
    """Return a botocore client for the environment's AWS account, with short timeouts for Lambda functions."""
    client: DynamoDBClient = botocore_client("dynamodb")
    return client


def botocore_client(service: str) -> Any:
    """Return a botocore client of an AWS service, for the AWS account of the environment.

    Imports botocore instead of boto3, and only when called, to keep the authorizer's cold start short.
    """
    import botocore.session

    from deltaic.storage.aws_client import CATALOG, botocore_config

    session = botocore.session.get_session()
    region = session.get_config_variable("region") or settings().region  # botocore does not know AWS_REGION
    return session.create_client(service, region_name=region, config=botocore_config(CATALOG))


class Dynamo:
    """DynamoDB client for the catalog; connects at first use, and threads can share it.

    Every method raises only errors of `deltaic.errors`: TooManyRequests for throttling, Unavailable for a failed
    connection, PermissionDenied if AWS denies access, NotFound for a missing table. Only code of the catalog handles
    `ConditionFailed`. `translate` converts exceptions of botocore; by default, their messages are for operators.
    """

    def __init__(
        self,
        connect: "Callable[[], DynamoDBClient]" = connect,
        translate: Callable[[Exception], Exception] = to_operator_error,
    ) -> None:
        self._connect = connect
        self._translate = translate
        self._client: DynamoDBClient | None = None
        self._lock = threading.Lock()

    @property
    def client(self) -> "DynamoDBClient":
        """The botocore client or a compatible one, created at first use."""
        if self._client is None:
            with self._lock:
                if self._client is None:
                    connected = self._call(self._connect)
                    if meta := getattr(connected, "meta", None):
                        # Only botocore's client needs this; other clients refuse incomplete responses themselves.
                        meta.events.register("after-call.dynamodb", _check_complete, unique_id="deltaic-whole")
                    self._client = connected
        return self._client

    def for_recipients(self) -> "Dynamo":
        """Return a `Dynamo` with the same client, whose error messages hide details of the server."""
        return Dynamo(lambda: self.client, to_recipient_error)

    def get(self, table: str, key: Key) -> Attributes | None:
        """Return one item, or None if it does not exist, with a strongly consistent read."""
        client = self.client
        answer = self._call(
            lambda: client.get_item(TableName=table, Key=_key(key), ConsistentRead=True),
        )
        item = answer.get("Item")
        return None if item is None else unmarshal_item(item)

    def batch_get(self, table: str, keys: Sequence[Key]) -> dict[Key, Attributes]:
        """Return the existing items with the given keys, with strongly consistent reads of 100 items.

        Requests keys that DynamoDB did not process again, after growing pauses; raises TooManyRequests if some remain.
        """
        items_by_key: dict[Key, Attributes] = {}
        remaining = list(dict.fromkeys(keys))
        waits = pauses(_READ_ATTEMPTS)
        while remaining:
            items, unprocessed = self._batch(table, remaining[:BATCH_KEYS])
            items_by_key.update({Key(item["pk"], item["sk"]): item for item in items})
            remaining = unprocessed + remaining[BATCH_KEYS:]
            if unprocessed:
                pause = next(waits, None)
                if pause is None:
                    raise TooManyRequests("the catalog is busy: try again later")
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
        key_range: KeyRange,
        *,
        limit: int | None = None,
        page_size: int | None = None,
        consistent: bool = True,
    ) -> Iterator[Attributes]:
        """Yield at most `limit` items of a key range, in the byte order of their sort keys.

        Each request reads at most `page_size` items, and is sent when the caller needs its first item. To find out
        whether more than n items exist, set `limit` to n + 1.
        """
        request = {
            "TableName": table,
            "KeyConditionExpression": "pk = :pk AND sk BETWEEN :low AND :high",
            "ExpressionAttributeValues": {
                ":pk": {"S": key_range.pk},
                ":low": {"S": key_range.low},
                ":high": {"S": key_range.high},
            },
            "ConsistentRead": consistent,
        }
        while limit is None or limit > 0:
            # A small first page lets commands show the start of a list early.
            is_first = "ExclusiveStartKey" not in request
            sizes = [size for size in (limit, page_size) if size is not None] or ([FIRST_PAGE] if is_first else [])
            items, position = self._page("query", request | ({"Limit": min(sizes)} if sizes else {}))
            yield from items
            if limit is not None:
                limit -= len(items)
            if position is None:
                return
            request["ExclusiveStartKey"] = position

    def scan(self, table: str, prefix: KeyPrefix) -> Iterator[Attributes]:
        """Yield the items whose keys have the given prefixes, in no order; DynamoDB reads the whole table.

        Only operators may scan. For thousands of recipients, a scan needs fewer requests than one Query for each.
        """
        attribute = prefix.attribute and f" AND attribute_exists({prefix.attribute})"
        request = {
            "TableName": table,
            "FilterExpression": f"begins_with(pk, :pk) AND begins_with(sk, :sk){attribute}",
            "ExpressionAttributeValues": {":pk": {"S": prefix.pk}, ":sk": {"S": prefix.sk}},
            "ConsistentRead": True,
            "Limit": SCAN_PAGE,
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
        """Write everything or nothing; raises ConditionFailed for the first condition that fails.

        After a conflict with another transaction, tries again after growing, random pauses. botocore sends the same
        idempotency token when it repeats a request, so a lost response does not look like a failed condition.
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
        raise Conflict("other processes keep changing the same part of the catalog: try again later")

    def update(self, write: Mapping[str, Any]) -> None:
        """Send one write from `writes.update`; raises ConditionFailed, or Unavailable after a concurrent change."""
        client = self.client
        try:
            self._call(lambda: client.update_item(**write["Update"]))
        except Contended:
            raise Unavailable("another process is changing the same part of the catalog: try again later") from None

    def _call(self, request: Callable[[], _Answer]) -> _Answer:
        try:
            return request()
        except Exception as error:
            raise self._translate(error) from error


def _check_complete(http_response: Any, **_: Any) -> None:
    """Raise Unavailable for an incomplete response, which botocore would parse as a missing item."""
    content = http_response.content
    if http_response.status_code >= HTTPStatus.MULTIPLE_CHOICES:
        return
    try:
        # Comparing the checksum is faster than parsing JSON.
        checksum = http_response.headers.get("x-amz-crc32")
        is_complete = int(checksum) == zlib.crc32(content) if checksum else isinstance(json.loads(content), dict)
    except (ValueError, RecursionError):
        is_complete = False
    if not is_complete:
        raise Unavailable(_INCOMPLETE)


def _required(answer: Any, name: str) -> Any:
    if name not in answer:
        raise Unavailable(_INCOMPLETE)
    return answer[name]


def _key(key: Key) -> dict[str, Any]:
    return {"pk": {"S": key.pk}, "sk": {"S": key.sk}}


def pauses(attempts: int, longest: float = _LONGEST_PAUSE_SECONDS) -> Iterator[float]:
    """Yield the random pause in seconds after each of `attempts` attempts."""
    # Full jitter: a random pause below a bound that doubles, so that concurrent writers spread.
    for attempt in range(attempts):
        yield random.uniform(0, min(longest, _FIRST_PAUSE_SECONDS * 2**attempt))  # noqa: S311 -- spread
