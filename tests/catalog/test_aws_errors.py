"""Errors of AWS: each is translated into an error of the product, and no botocore error escapes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import botocore.session
import pytest
from botocore.config import Config
from deltaic.catalog.credentials.tokens import TokenStore
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.keys import Key, all_of
from deltaic.catalog.reader import CatalogReader
from deltaic.catalog.submitted_queries import Query, QueryStore
from deltaic.catalog.writes import check
from deltaic.errors import (
    Conflict,
    DeltaicError,
    InvalidParameter,
    NotFound,
    PermissionDenied,
    TooManyRequests,
    Unavailable,
)
from deltaic.storage.aws_client import CATALOG, botocore_config
from deltaic_ops.local.embedded import EmbeddedAws, free_port

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_dynamodb import DynamoDBClient

pytestmark = pytest.mark.slow

BEARER = "dlt_" + "A" * 43
QUERY = Query(
    id="q",
    recipient_id="id",
    table_id="t",
    parameters="{}",
    version=0,
    latest_version=0,
    response_format="parquet",
    log_id="m",
    expires_at=datetime(2026, 1, 1, tzinfo=UTC),
)
SESSION = botocore.session.Session()  # shared, because it caches its data


class Scripted(ThreadingHTTPServer):
    """AWS server with scripted responses, which repeats the last one."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[tuple[int, dict[str, Any] | bytes]] = []
        self.bodies: list[dict[str, Any]] = []

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def error(self, status: int, code: str, **more: Any) -> None:
        self.answers.append((status, {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "m", **more}))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keep-alive, as AWS
    server: Scripted

    def do_POST(self) -> None:
        self.server.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        status, body = self.server.answers.pop(0) if len(self.server.answers) > 1 else self.server.answers[0]
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Keep the test's output quiet."""


@pytest.fixture
def aws() -> Iterator[Scripted]:
    with Scripted() as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def client(endpoint: str, **keys: str) -> DynamoDBClient:
    keys = keys or {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
    # One attempt, because these tests check errors, not retries.
    config = botocore_config(CATALOG).merge(Config(retries={"total_max_attempts": 1}))
    create: Callable[..., DynamoDBClient] = SESSION.create_client  # type: ignore[assignment]
    return create("dynamodb", region_name="us-east-1", endpoint_url=endpoint, config=config, **keys)


def dynamo(aws: Scripted) -> Dynamo:
    return Dynamo(lambda: client(aws.endpoint))


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        pytest.param(400, "ProvisionedThroughputExceededException", TooManyRequests, id="throughput"),
        pytest.param(400, "ThrottlingException", TooManyRequests, id="throttling"),
        pytest.param(400, "RequestLimitExceeded", TooManyRequests, id="account-limit"),
        pytest.param(500, "InternalServerError", Unavailable, id="internal"),
        pytest.param(503, "ServiceUnavailable", Unavailable, id="unavailable"),
        pytest.param(400, "AccessDeniedException", PermissionDenied, id="denied"),
        pytest.param(400, "UnrecognizedClientException", PermissionDenied, id="key"),
        pytest.param(400, "ExpiredTokenException", PermissionDenied, id="session"),
        pytest.param(400, "ResourceNotFoundException", NotFound, id="no-table"),
        pytest.param(400, "ValidationException", InvalidParameter, id="validation"),
    ],
)
def test_aws_error_is_translated(aws: Scripted, status: int, code: str, expected: type[DeltaicError]) -> None:
    aws.error(status, code)
    connection = dynamo(aws)
    for ask in (
        lambda: connection.get("t", Key("p", "s")),
        lambda: connection.batch_get("t", [Key("p", "s")]),
        lambda: connection.transact([check("t", Key("p", "s"))]),
    ):
        with pytest.raises(DeltaicError) as refusal:
            ask()
        assert type(refusal.value) is expected


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        pytest.param(400, "ThrottlingException", TooManyRequests, id="throttling"),
        pytest.param(500, "InternalServerError", Unavailable, id="internal"),
        pytest.param(400, "AccessDeniedException", Unavailable, id="denied"),
        pytest.param(400, "ExpiredTokenException", Unavailable, id="session"),
        pytest.param(400, "ResourceNotFoundException", Unavailable, id="no-table"),
        pytest.param(400, "ValidationException", Unavailable, id="validation"),
        pytest.param(400, "TransactionConflictException", Unavailable, id="contended"),
    ],
)
def test_recipient_sees_no_detail_of_an_aws_error(
    aws: Scripted, status: int, code: str, expected: type[DeltaicError]
) -> None:
    aws.error(status, code)
    connection = dynamo(aws)
    for ask in (
        lambda: CatalogReader("catalog", connection).get_table("id", "s", "d", "t"),
        lambda: CatalogReader("catalog", connection).list_shares("id", None, 1),
        lambda: TokenStore("tokens", connection).authenticate(BEARER),
        lambda: QueryStore("catalog", connection).find("id", "t", "q"),
        lambda: QueryStore("catalog", connection).submit(QUERY),
    ):
        with pytest.raises(DeltaicError) as refusal:
            ask()
        assert type(refusal.value) is expected
        assert not [word for word in (BEARER, "AWS", "stack", "role", code) if word in refusal.value.message]


ITEM = json.dumps({"Item": {"pk": {"S": "p"}, "sk": {"S": "s"}, "v": {"S": "text"}}}).encode()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(ITEM[: len(ITEM) // 2], id="half"),
        pytest.param(b"", id="empty"),
        pytest.param(b"<html><body>Please sign in</body></html>", id="page"),
        pytest.param(b"[]", id="list"),
    ],
)
def test_incomplete_response_is_a_transient_error(aws: Scripted, answer: bytes) -> None:
    aws.answers = [(200, answer)]
    connection = dynamo(aws)
    for ask in (
        lambda: connection.get("t", Key("p", "s")),
        lambda: connection.batch_get("t", [Key("p", "s")]),
        lambda: list(connection.query("t", all_of("recipient"))),
        lambda: TokenStore("tokens", connection).authenticate(BEARER),
        lambda: CatalogReader("catalog", connection).list_shares("id", None, 1),
    ):
        with pytest.raises(Unavailable, match="try again"):
            ask()
    aws.answers = [(200, ITEM)]
    assert connection.get("t", Key("p", "s")) == {"pk": "p", "sk": "s", "v": "text"}


def test_unexpected_response_is_a_transient_error(aws: Scripted) -> None:
    aws.answers = [(200, {})]
    for ask in (
        lambda: dynamo(aws).batch_get("t", [Key("p", "s")]),
        lambda: list(dynamo(aws).query("t", all_of("recipient"))),
    ):
        with pytest.raises(Unavailable, match="try again"):
            ask()
    assert dynamo(aws).get("t", Key("p", "s")) is None


def test_clock_skew_is_not_reported_as_wrong_credentials(aws: Scripted) -> None:
    for message in ("Signature expired: 20260101T000000Z is now earlier than", "Signature not yet current: 20260101"):
        aws.answers = [(400, {"__type": "com.amazon.coral.service#InvalidSignatureException", "message": message})]
        with pytest.raises(Unavailable, match="clock"):
            dynamo(aws).get("t", Key("p", "s"))


def test_recipient_does_not_see_the_connection_error() -> None:
    unreachable = Dynamo(lambda: client(f"http://127.0.0.1:{free_port()}"))
    with pytest.raises(Unavailable) as refusal:
        TokenStore("tokens", unreachable).authenticate(BEARER)
    assert "AWS" not in refusal.value.message


def test_unreachable_endpoint_is_unavailable() -> None:
    unreachable = Dynamo(lambda: client(f"http://127.0.0.1:{free_port()}"))
    with pytest.raises(Unavailable, match="AWS_ENDPOINT_URL"):
        unreachable.get("tokens", Key("p", "s"))


def test_missing_table_has_a_remedy(embedded_aws: EmbeddedAws) -> None:
    environment = embedded_aws.environment
    keys = {
        "aws_access_key_id": environment["AWS_ACCESS_KEY_ID"],
        "aws_secret_access_key": environment["AWS_SECRET_ACCESS_KEY"],
    }
    connection = Dynamo(lambda: client(embedded_aws.endpoint, **keys))
    with pytest.raises(NotFound, match="deploy the stack"):
        connection.get("no-such-table", Key("p", "s"))


def test_unprocessed_keys_are_requested_again(aws: Scripted) -> None:
    unprocessed = {"Keys": [{"pk": {"S": "p"}, "sk": {"S": "2"}}]}
    first, second = ({"pk": {"S": "p"}, "sk": {"S": sk}, "v": {"N": sk}} for sk in ("1", "2"))
    aws.answers = [
        (200, {"Responses": {"t": [first]}, "UnprocessedKeys": {"t": unprocessed}}),
        (200, {"Responses": {}, "UnprocessedKeys": {"t": unprocessed}}),
        (200, {"Responses": {"t": [second]}}),
    ]
    items = dynamo(aws).batch_get("t", [Key("p", "1"), Key("p", "2"), Key("p", "1")])
    assert {key.sk: item["v"] for key, item in items.items()} == {"1": 1, "2": 2}
    requested = [[key["sk"]["S"] for key in body["RequestItems"]["t"]["Keys"]] for body in aws.bodies]
    assert requested == [["1", "2"], ["2"], ["2"]]
    assert all(body["RequestItems"]["t"]["ConsistentRead"] for body in aws.bodies)


def test_batch_without_progress_is_throttled(aws: Scripted) -> None:
    unprocessed = {"Keys": [{"pk": {"S": "p"}, "sk": {"S": "1"}}]}
    aws.answers = [(200, {"Responses": {}, "UnprocessedKeys": {"t": unprocessed}})]
    with pytest.raises(TooManyRequests):
        dynamo(aws).batch_get("t", [Key("p", "1")])


def test_empty_last_page_ends_a_listing(aws: Scripted) -> None:
    item = {"pk": {"S": "recipient/id"}, "sk": {"S": "grant/a"}, "share": {"S": "a"}}
    position = {"pk": {"S": "recipient/id"}, "sk": {"S": "grant/a"}}
    aws.answers = [
        (200, {"Items": [item], "LastEvaluatedKey": position}),
        (200, {"Items": []}),
        (200, {"Responses": {}}),
    ]
    assert CatalogReader("t", dynamo(aws)).list_shares("id", None, 2) == []
    assert [body.get("Limit") for body in aws.bodies] == [3, 2, None]
    assert aws.bodies[1]["ExclusiveStartKey"] == position


def test_transaction_conflict_is_retried(aws: Scripted) -> None:
    reasons = [{"Code": "None"}, {"Code": "TransactionConflict", "Message": "m"}]
    aws.error(400, "TransactionCanceledException", CancellationReasons=reasons)
    aws.error(400, "TransactionCanceledException", CancellationReasons=reasons)
    aws.answers.append((200, {}))
    dynamo(aws).transact([check("t", Key("p", "s"))])
    assert len(aws.bodies) == 3


@pytest.mark.slow
def test_persistent_transaction_conflict_is_a_conflict(aws: Scripted) -> None:
    aws.error(400, "TransactionCanceledException", CancellationReasons=[{"Code": "TransactionConflict"}])
    with pytest.raises(Conflict):
        dynamo(aws).transact([check("t", Key("p", "s"))])


def test_throttled_transaction_is_too_many_requests(aws: Scripted) -> None:
    aws.error(400, "TransactionCanceledException", CancellationReasons=[{"Code": "ThrottlingError"}])
    with pytest.raises(TooManyRequests):
        dynamo(aws).transact([check("t", Key("p", "s"))])


def test_next_call_retries_a_failed_connection() -> None:
    attempts = iter([ValueError("no"), None])

    def connect() -> DynamoDBClient:
        failure = next(attempts)
        if failure:
            raise failure
        return client("http://127.0.0.1:9")

    lazy = Dynamo(connect)
    with pytest.raises(InvalidParameter, match="the request to AWS is invalid: no"):
        _ = lazy.client
    assert lazy.client is lazy.client


@pytest.mark.slow
def test_persistent_conflict_of_submissions_is_too_many_requests(aws: Scripted) -> None:
    """The message names the recipient's submissions instead of transactions."""
    aws.answers = [(200, {})]  # no live queries yet
    aws.error(400, "TransactionCanceledException", CancellationReasons=[{"Code": "TransactionConflict"}])
    with pytest.raises(TooManyRequests, match="too many queries at the same time") as refusal:
        QueryStore("catalog", dynamo(aws)).submit(QUERY)
    assert refusal.value.status == 429
