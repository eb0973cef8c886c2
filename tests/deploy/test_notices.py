"""The deployed function puts notices on the bus under its own role; a queue and a webhook get them."""

import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import Queue
from typing import Any

import pyarrow as pa
import pytest
from cloudformation import transformed
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic_ops.local.embedded import EmbeddedAws
from deltalake import write_deltalake
from deploy.deployments import Deployment

pytestmark = pytest.mark.deploy

FUNCTION = "deltaic-deploytest-send-notices"
SOURCE = "deltaic-deploytest"
SHARE = "noticed"


@pytest.fixture(scope="module")
def catalog(admin: CatalogAdmin) -> Iterator[CatalogAdmin]:
    """Return a catalog with a recipient whose token ends soon."""
    admin.shares.create(SHARE)
    admin.schemas.create(SHARE, "s")
    admin.tokens.create(admin.recipients.create("nadia"), timedelta(days=7))
    yield admin
    admin.recipients.delete("nadia")
    admin.shares.delete(SHARE, force=True)


@pytest.fixture(scope="module")
def told(deployment: Deployment, client: Callable[[Any], Any]) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """Return what reads the events that a rule of the provider's own has sent to a queue."""
    assert deployment
    queue = client("sqs").create_queue(QueueName="deploytest-notices")["QueueUrl"]
    arn = client("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    client("events").put_rule(Name="deploytest-queue", EventPattern=json.dumps({"source": [SOURCE]}))
    client("events").put_targets(Rule="deploytest-queue", Targets=[{"Id": "queue", "Arn": arn}])

    def read() -> list[dict[str, Any]]:
        found = []
        while some := client("sqs").receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages"):
            for message in some:
                client("sqs").delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
                found.append(json.loads(message["Body"]))
        return found

    yield read
    client("events").remove_targets(Rule="deploytest-queue", Ids=["queue"])
    client("events").delete_rule(Name="deploytest-queue")


@pytest.fixture
def webhook(deployment: Deployment, client: Callable[[Any], Any]) -> Iterator[Queue[tuple[dict[str, str], Any]]]:
    """Return what a receiver on this machine got: the template's rule and connection, which its deployment cannot make.

    CloudFormation of the embedded AWS knows no API destination; its EventBridge does.
    """
    assert deployment
    got: Queue[tuple[dict[str, str], Any]] = Queue()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            got.put((dict(self.headers), json.loads(body)))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    events = client("events")
    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        parameters = {
            "Stage": "deploytest",
            "Notices": "14",
            "NoticesWebhook": f"https://127.0.0.1:{server.server_port}/hook",
        }
        made = {name: said["Properties"] for name, said in transformed(parameters=parameters).items()}
        key = made["NoticesConnection"]["AuthParameters"]["ApiKeyAuthParameters"]
        connection = events.create_connection(
            Name="deploytest",
            AuthorizationType=made["NoticesConnection"]["AuthorizationType"],
            AuthParameters={"ApiKeyAuthParameters": {**key, "ApiKeyValue": "the-key"}},
        )["ConnectionArn"]
        destination = made["NoticesDestination"]
        arn = events.create_api_destination(
            Name="deploytest",
            ConnectionArn=connection,
            InvocationEndpoint=destination["InvocationEndpoint"].replace("https:", "http:"),  # the receiver has no TLS
            HttpMethod=destination["HttpMethod"],
        )["ApiDestinationArn"]
        rule = made["NoticesToWebhook"]
        events.put_rule(Name="deploytest-webhook", EventPattern=json.dumps(rule["EventPattern"]))
        [target] = rule["Targets"]
        role = "arn:aws:iam::000000000000:role/webhook"
        events.put_targets(Rule="deploytest-webhook", Targets=[{"Id": target["Id"], "Arn": arn, "RoleArn": role}])
        yield got
        events.remove_targets(Rule="deploytest-webhook", Ids=[target["Id"]])
        events.delete_rule(Name="deploytest-webhook")
        server.shutdown()


@pytest.fixture
def write(lake: str, embedded_aws: EmbeddedAws) -> Callable[[], str]:
    """Return what makes another version of a table, and returns where it lies."""
    location, options = f"s3://{lake}/noticed", {**embedded_aws.environment, "AWS_ALLOW_HTTP": "true"}

    def run() -> str:
        write_deltalake(location, pa.table({"x": [1]}), mode="append", storage_options=options)
        return location

    return run


def tell(client: Callable[[Any], Any], what: str) -> dict[str, Any]:
    payload = json.dumps({"tell": what})
    answer = client("lambda").invoke(FunctionName=FUNCTION, Qualifier="live", Payload=payload)
    said: dict[str, Any] = json.loads(answer["Payload"].read())
    return said


def test_what_ends_soon_comes_by_a_rule_and_twice_a_day_with_the_same_id(
    catalog: CatalogAdmin, told: Callable[[], list[dict[str, Any]]], client: Callable[[Any], Any]
) -> None:
    nadia = catalog.recipients.get("nadia")
    [token] = catalog.tokens.list(nadia.id)
    answer = tell(client, "endings")
    assert answer.get("told", 0) >= 1, answer
    tell(client, "endings")
    first, second = [event for event in told() if event["detail"]["recipient"] == "nadia"]
    assert (first["source"], first["detail-type"]) == (SOURCE, "deltaic.recipient.expiring")
    assert first["detail"] == second["detail"]
    end = f"{token.expires_at:%Y-%m-%dT%H:%M:%SZ}"
    assert first["detail"] == {
        "id": f"nadia/token/{token.id}/{end}/{datetime.now(UTC):%Y-%m-%d}",
        "recipient": "nadia",
        "kind": "token",
        "what": token.id,
        "endsAt": end,
        "daysLeft": 7,
    }


def test_a_new_version_is_told_once_and_reaches_the_webhook_with_its_key(
    catalog: CatalogAdmin,
    told: Callable[[], list[dict[str, Any]]],
    webhook: Queue[tuple[dict[str, str], Any]],
    write: Callable[[], str],
    client: Callable[[Any], Any],
) -> None:
    def changes() -> list[dict[str, Any]]:
        tell(client, "versions")
        return [event["detail"] for event in told() if event["detail"].get("share") == SHARE]

    catalog.tables.create(SHARE, "s", "t", write())
    assert changes() == []  # seen for the first time
    write()
    write()
    [detail] = changes()
    assert detail.pop("id").startswith(f"{SHARE}/s/t/2/")
    assert detail == {"share": SHARE, "schema": "s", "table": "t", "version": 2, "previousVersion": 0}
    assert changes() == []
    headers, event = webhook.get(timeout=30)
    assert headers["Deltaic-Webhook-Key"] == "the-key"
    assert (event["source"], event["detail-type"]) == (SOURCE, "deltaic.table.changed")
    assert event["detail"]["table"] == "t"


def test_a_table_out_of_reach_fails_the_round_and_the_others_are_told(
    catalog: CatalogAdmin, client: Callable[[Any], Any], told: Callable[[], list[dict[str, Any]]]
) -> None:
    catalog.tables.create(SHARE, "s", "gone", "s3://deploytest-nowhere/gone")
    answer = tell(client, "versions")
    assert "1 tables could not be checked" in answer["errorMessage"], answer
    catalog.tables.delete(SHARE, "s", "gone")
    told()
