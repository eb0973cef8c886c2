"""IAM: facts about a request that AWS uses to evaluate policies, and that LocalEmu does not determine.

LocalEmu enforces roles, but does not set the keys of a request (`dynamodb:LeadingKeys`), the tables of a batch and the
six characters at the end of a secret's ARN. It then denies what AWS allows. These parts allow nothing that the policy
does not allow: they set the condition's values and the statement's resource.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from emulators.parts.emulator import Emulator

_EQUALS = re.compile(r"(?P<name>#?\w+)\s*=\s*(?P<value>:\w+)")


def install(emulator: Emulator) -> None:
    """Complete the context and the resource of each request; LocalStack's open source enforces no policies."""
    if not emulator.has("services.iam_enforcement"):
        return
    enforcer = emulator.module("services.iam_enforcement.enforcer")
    connect = emulator.module("aws.connect").connect_to
    build_conditions, build_arn = enforcer._build_conditions, enforcer.build_resource_arn

    def conditions(context: Any, caller: Any) -> dict[str, Any]:
        values: dict[str, Any] = build_conditions(context, caller)
        request = context.service_request or {}
        if context.service.service_name == "dynamodb":
            client = connect(region_name=context.region).dynamodb
            keys = sorted(set(leading_keys(request, lambda table: partition_key(client, table))))
            values |= {"dynamodb:LeadingKeys": keys} if keys else {}
        elif context.service.service_name == "s3" and "Prefix" in request:
            values["s3:prefix"] = request["Prefix"] or ""
        return values

    def resource_arn(*, service: str, request_params: Mapping[str, Any] | None, **arguments: Any) -> str:
        params = dict(request_params or {})
        if service == "dynamodb" and len(tables := set(tables_of(params))) == 1:
            params["TableName"] = tables.pop().rpartition("/")[2]
        elif service == "secretsmanager" and "SecretId" in params:
            params["SecretId"] = secret_arn(connect(region_name=arguments["region"]).secretsmanager, params["SecretId"])
        return str(build_arn(service=service, request_params=params, **arguments))

    enforcer._build_conditions, enforcer.build_resource_arn = conditions, resource_arn


def leading_keys(parameters: Mapping[str, Any], partition_key_of: Callable[[str], str]) -> Iterator[str]:
    """Yield the values of the partition key in a request to DynamoDB; a scan has none."""
    for table, part in _parts(parameters):
        name = partition_key_of(table)
        for key in (part.get("Key"), part.get("Item"), *part.get("Keys", ())):
            if key and name in key:
                yield _text(key[name])
        for match in _EQUALS.finditer(part.get("KeyConditionExpression") or ""):
            if part.get("ExpressionAttributeNames", {}).get(match["name"], match["name"]) == name:
                yield _text(part["ExpressionAttributeValues"][match["value"]])


def tables_of(request: Mapping[str, Any]) -> Iterator[str]:
    """Yield the table of each part of a request to DynamoDB."""
    for table, _ in _parts(request):
        yield table


def _parts(parameters: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if "TableName" in parameters:
        yield parameters["TableName"], parameters
    batch = parameters.get("RequestItems")
    for table, part in (batch or {}).items():
        if isinstance(part, Mapping):
            yield table, part
        for write in part if isinstance(part, list) else ():
            for request in write.values():
                yield table, request
    for entry in parameters.get("TransactItems") or ():
        for request in entry.values():
            yield request["TableName"], request


def _text(value: Mapping[str, Any]) -> str:
    """Return the value of DynamoDB's `{"S": "value"}`."""
    return str(next(iter(value.values())))


def partition_key(client: Any, table: str) -> str:
    """Return the name of a table's partition key; empty if the table does not exist."""
    try:
        schema = client.describe_table(TableName=table)["Table"]["KeySchema"]
    except client.exceptions.ResourceNotFoundException:
        return ""
    return next(str(key["AttributeName"]) for key in schema if key["KeyType"] == "HASH")


def secret_arn(client: Any, name: str) -> str:
    """Return the complete ARN of a secret, as policies contain it; the requested id if it does not exist."""
    try:
        return str(client.describe_secret(SecretId=name)["ARN"])
    except client.exceptions.ResourceNotFoundException:
        return name
