"""Record the requests of functions to AWS: each runs in a process with a recording proxy."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from deltaic_ops.deploy.sam_template import ROOT, Function
from faults.proxy import FaultPlan, Proxy, Request

RUNNER = """
import json, sys
sys.modules["numpy"] = sys.modules["pandas"] = None  # the layer has neither, and pyarrow would import them
given = json.load(sys.stdin)
sys.path.insert(0, given["folder"])
import app
class Context:
    aws_request_id, function_name = "1-2-3", given["name"]
    invoked_function_arn, memory_limit_in_mb = "arn:aws:lambda:us-east-1:000000000000:function:x", 1769
    def get_remaining_time_in_millis(self):
        return 900_000
answers = [app.handler(event, Context()) for event in given["events"]]
print("ANSWERS" + json.dumps(answers))
"""
ACCOUNT = "us-east-1:000000000000"


@dataclass(frozen=True)
class Used:
    """An action on a resource and, for DynamoDB, its partition key."""

    action: str
    resource: str
    key: str = ""


@dataclass
class Record(FaultPlan):
    """Proxy play without faults that records every request."""

    requests: list[Request] = field(default_factory=list)

    def matches(self, request: Request) -> bool:
        """Remember a request, and let it pass."""
        self.requests.append(request)
        return False


async def never(real: object) -> None:
    """Stand where a fault's play would: nothing is ever taken."""


def run(
    function: Function, environment: Mapping[str, str], proxy: Proxy, events: Sequence[Mapping[str, Any]]
) -> tuple[list[dict[str, Any]], set[Used]]:
    """Return the function's responses to the events, and the permissions that it used."""
    record = Record("", (), never)
    variables = {**function.environment, **environment, "AWS_ENDPOINT_URL": proxy.url}
    variables |= {"RESPONSE_STREAMING": "disabled", "POWERTOOLS_METRICS_DISABLED": "true", "PYTHONFAULTHANDLER": "1"}
    request_ = {"folder": str(function.code), "name": function.name, "events": list(events)}
    with proxy.play_fault(record):
        ran = subprocess.run(
            [sys.executable, "-c", RUNNER],
            input=json.dumps(request_),
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert ran.returncode == 0, f"{function.name} ended with {ran.returncode}: {ran.stderr[-3000:]}"
    answers: list[dict[str, Any]] = json.loads(ran.stdout.rpartition("ANSWERS")[2])
    # What a session reads that the function has assumed needs no right of the function's.
    signed = [request for request in record.requests if "x-amz-security-token" not in request.headers]
    return answers, {used for request in signed for used in uses(request)}


def uses(request: Request) -> Iterator[Used]:  # noqa: PLR0912 -- a service each
    """Yield what IAM would ask about for a request (Service Authorization Reference)."""
    if request.service == "dynamodb":
        yield from _dynamodb(request.headers["x-amz-target"].rpartition(".")[2], json.loads(request.body))
    elif request.service == "secretsmanager":
        name = json.loads(request.body)["SecretId"]
        # AWS adds six characters to the name.
        action = request.headers["x-amz-target"].rpartition(".")[2]
        yield Used(f"secretsmanager:{action}", f"arn:aws:secretsmanager:{ACCOUNT}:secret:{name}-AbCdEf")
    elif request.service == "TrentService":
        name = json.loads(request.body)["KeyId"]
        yield Used(f"kms:{request.headers['x-amz-target'].rpartition('.')[2]}", f"arn:aws:kms:{ACCOUNT}:{name}")
    elif request.service == "AWSGlue":
        body_ = json.loads(request.body)
        action, database = request.headers["x-amz-target"].rpartition(".")[2], body_["DatabaseName"]
        for resource in ("catalog", f"database/{database}", f"table/{database}/{body_.get('Name', '*')}"):
            yield Used(f"glue:{action}", f"arn:aws:glue:{ACCOUNT}:{resource}")
    elif request.target.startswith("/2015-03-31/functions/"):
        yield Used("lambda:InvokeFunction", unquote(request.target.split("/")[3]))
    elif request.service == "AWSEvents":
        for entry in json.loads(request.body)["Entries"]:
            yield Used("events:PutEvents", f"arn:aws:events:{ACCOUNT}:event-bus/{entry['EventBusName']}")
    elif request.service == "sts":
        form = parse_qs(request.body.decode())
        [role] = form["RoleArn"]
        yield Used(f"sts:{form['Action'][0]}", role)
        if any(name.startswith("Tags.") for name in form):
            yield Used("sts:TagSession", role)
    else:
        bucket, _, key = unquote(urlsplit(request.target).path).lstrip("/").partition("/")
        if request.service == "list":
            yield Used("s3:ListBucket", f"arn:aws:s3:::{bucket}")
        else:
            verb = {"GET": "Get", "HEAD": "Get", "PUT": "Put", "POST": "Put", "DELETE": "Delete"}[request.method]
            yield Used(f"s3:{verb}Object", f"arn:aws:s3:::{bucket}/{key}")


_IN_TRANSACTION = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": None}


def _dynamodb(operation: str, body: Mapping[str, Any]) -> Iterator[Used]:
    if operation in {"TransactWriteItems", "TransactGetItems"}:
        for item in body["TransactItems"]:
            for kind, value in item.items():
                action = _IN_TRANSACTION.get(kind, "GetItem") or "ConditionCheckItem"
                yield from _dynamodb(action, value)
    elif operation == "BatchGetItem":
        for table, keys in body["RequestItems"].items():
            for key in keys["Keys"]:
                yield _of_table(operation, table, key["pk"])
    elif operation == "Query":
        # The one condition on the partition key is an equality, by its placeholder.
        condition = body["KeyConditionExpression"].replace("#", "")
        placeholder = condition.split("=")[1].split()[0]
        yield _of_table(operation, body["TableName"], body["ExpressionAttributeValues"][placeholder])
    else:
        yield _of_table(operation, body["TableName"], (body.get("Key") or body["Item"])["pk"])


def _of_table(operation: str, table: str, key: Mapping[str, str]) -> Used:
    return Used(f"dynamodb:{operation}", f"arn:aws:dynamodb:{ACCOUNT}:table/{table}", key["S"])


def event(name: str, recipient_id: str, names: Mapping[str, str], **changed: Any) -> dict[str, Any]:
    """Return the event of `events/` for other names in its path; `changed` are method, body, query, capabilities."""
    event_: dict[str, Any] = json.loads((ROOT / "events" / f"{name}.json").read_text())
    event_["pathParameters"] = {key: names[key] for key in event_["pathParameters"] or {}}
    if "method" in changed:
        event_["httpMethod"] = event_["requestContext"]["httpMethod"] = changed["method"]
    if "authorizer" in event_["requestContext"]:
        event_["requestContext"]["authorizer"] |= {"recipientId": recipient_id, "recipient": "reader"}
    if "body" in changed:
        event_["body"] = json.dumps(changed["body"])
    if "query" in changed:
        event_["queryStringParameters"] = changed["query"]
        event_["multiValueQueryStringParameters"] = {key: [value] for key, value in changed["query"].items()}
    if "capabilities" in changed:
        event_["headers"]["delta-sharing-capabilities"] = changed["capabilities"]
        event_["multiValueHeaders"]["delta-sharing-capabilities"] = [changed["capabilities"]]
    return event_
