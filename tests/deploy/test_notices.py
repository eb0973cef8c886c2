"""Test that the deployed function sends notices with its role, which a queue and a webhook receive."""

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
    """Return a catalog with a recipient whose token expires soon."""
    admin.shares.create(SHARE)
    admin.schemas.create(SHARE, "s")
    admin.tokens.create(admin.recipients.create("nadia"), timedelta(days=7))
    yield admin
    admin.recipients.delete("nadia")
    admin.shares.delete(SHARE, force=True)


@pytest.fixture(scope="module")
def read_events(deployment: Deployment, client: Callable[[Any], Any]) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """Return a function that reads the events that a rule of the provider sends to a queue."""
    assert deployment
    queue = client("sqs").create_queue(QueueName="deploytest-notices")["QueueUrl"]
    arn = client("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    client("events").put_rule(Name="deploytest-queue", EventPattern=json.dumps({"source": [SOURCE]}))
    client("events").put_targets(Rule="deploytest-queue", Targets=[{"Id": "queue", "Arn": arn}])

    def read() -> list[dict[str, Any]]:
        events = []
        while messages := client("sqs").receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages"):
            for message in messages:
                client("sqs").delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
                events.append(json.loads(message["Body"]))
        return events

    yield read
    client("events").remove_targets(Rule="deploytest-queue", Ids=["queue"])
    client("events").delete_rule(Name="deploytest-queue")


@pytest.fixture
def webhook(deployment: Deployment, client: Callable[[Any], Any]) -> Iterator[Queue[tuple[dict[str, str], Any]]]:
    """Return the requests to a receiver on this machine, sent by the template's rule and connection.

    CloudFormation of the embedded AWS does not support API destinations, but its EventBridge does.
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
            """Log nothing."""

    events = client("events")
    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        parameters = {
            "Stage": "deploytest",
            "Notices": "14",
            "NoticesWebhook": f"https://127.0.0.1:{server.server_port}/hook",
        }
        resources = {name: resource["Properties"] for name, resource in transformed(parameters=parameters).items()}
        key = resources["NoticesConnection"]["AuthParameters"]["ApiKeyAuthParameters"]
        connection = events.create_connection(
            Name="deploytest",
            AuthorizationType=resources["NoticesConnection"]["AuthorizationType"],
            AuthParameters={"ApiKeyAuthParameters": {**key, "ApiKeyValue": "the-key"}},
        )["ConnectionArn"]
        destination = resources["NoticesDestination"]
        arn = events.create_api_destination(
            Name="deploytest",
            ConnectionArn=connection,
            InvocationEndpoint=destination["InvocationEndpoint"].replace("https:", "http:"),  # the receiver has no TLS
            HttpMethod=destination["HttpMethod"],
        )["ApiDestinationArn"]
        rule = resources["NoticesToWebhook"]
        events.put_rule(Name="deploytest-webhook", EventPattern=json.dumps(rule["EventPattern"]))
        [target] = rule["Targets"]
        role = "arn:aws:iam::000000000000:role/webhook"
        events.put_targets(Rule="deploytest-webhook", Targets=[{"Id": target["Id"], "Arn": arn, "RoleArn": role}])
        yield got
        events.remove_targets(Rule="deploytest-webhook", Ids=[target["Id"]])
        events.delete_rule(Name="deploytest-webhook")
        server.shutdown()


@pytest.fixture
def write_version(lake: str, embedded_aws: EmbeddedAws) -> Callable[[], str]:
    """Return a function that writes a new version of a table and returns its location."""
    location, options = f"s3://{lake}/noticed", {**embedded_aws.environment, "AWS_ALLOW_HTTP": "true"}

    def run() -> str:
        write_deltalake(location, pa.table({"x": [1]}), mode="append", storage_options=options)
        return location

    return run


def invoke_function(client: Callable[[Any], Any], kind: str) -> dict[str, Any]:
    payload = json.dumps({"tell": kind})
    answer = client("lambda").invoke(FunctionName=FUNCTION, Qualifier="live", Payload=payload)
    result: dict[str, Any] = json.loads(answer["Payload"].read())
    return result


def test_expiry_notice_is_delivered_with_the_same_id_twice_a_day(
    catalog: CatalogAdmin, read_events: Callable[[], list[dict[str, Any]]], client: Callable[[Any], Any]
) -> None:
    nadia = catalog.recipients.get("nadia")
    [token] = catalog.tokens.list(nadia.id)
    answer = invoke_function(client, "endings")
    assert answer.get("told", 0) >= 1, answer
    invoke_function(client, "endings")
    first, second = [event for event in read_events() if event["detail"]["recipient"] == "nadia"]
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


def test_new_version_is_announced_once_and_delivered_to_the_webhook(
    catalog: CatalogAdmin,
    read_events: Callable[[], list[dict[str, Any]]],
    webhook: Queue[tuple[dict[str, str], Any]],
    write_version: Callable[[], str],
    client: Callable[[Any], Any],
) -> None:
    def changes() -> list[dict[str, Any]]:
        invoke_function(client, "versions")
        return [event["detail"] for event in read_events() if event["detail"].get("share") == SHARE]

    catalog.tables.create(SHARE, "s", "t", write_version())
    assert changes() == []  # the first check only records the version
    write_version()
    write_version()
    [detail] = changes()
    assert detail.pop("id").startswith(f"{SHARE}/s/t/2/")
    assert detail == {"share": SHARE, "schema": "s", "table": "t", "version": 2, "previousVersion": 0}
    assert changes() == []
    headers, event = webhook.get(timeout=30)
    assert headers["Deltaic-Webhook-Key"] == "the-key"
    assert (event["source"], event["detail-type"]) == (SOURCE, "deltaic.table.changed")
    assert event["detail"]["table"] == "t"


def test_unreachable_table_fails_the_run_but_other_tables_are_announced(
    catalog: CatalogAdmin, client: Callable[[Any], Any], read_events: Callable[[], list[dict[str, Any]]]
) -> None:
    catalog.tables.create(SHARE, "s", "gone", "s3://deploytest-nowhere/gone")
    answer = invoke_function(client, "versions")
    assert "1 tables could not be checked" in answer["errorMessage"], answer
    catalog.tables.delete(SHARE, "s", "gone")
    read_events()
