"""Test that policies refuse other calls: a probe runs with the deployed role of each function."""

import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from deltaic_ops.deploy.sam_template import load_template
from deploy.deployments import Deployment
from template_rights import EVERYTHING

ALLOWED = "allowed"
REFUSED = {"AccessDenied", "AccessDeniedException"}
PROBE = """
from functools import cache
import boto3
from botocore.exceptions import ClientError

client = cache(boto3.client)

def attempt(service, operation, arguments):
    try:
        getattr(client(service), operation)(**arguments)
    except ClientError as error:
        return error.response["Error"]["Code"]
    return "allowed"

def handler(event, context):
    return {meaning: attempt(*call) for meaning, call in event.items()}
"""

Calls = dict[str, tuple[str, str, dict[str, Any]]]
Probe = Callable[[str, Calls], dict[str, str]]


@pytest.fixture(scope="module")
def probe(deployment: Deployment, client: Callable[[Any], Any]) -> Probe:
    """Return a function that calls AWS inside a real function with the role of a deployed one."""
    functions = client("lambda")
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("probe.py", PROBE)

    def run(function: str, calls: Calls) -> dict[str, str]:
        functions.create_function(
            FunctionName=f"probe-{function}",
            Runtime="python3.13",
            Handler="probe.handler",
            Role=deployment.roles[function],
            Code={"ZipFile": archive.getvalue()},
            Timeout=60,
        )
        functions.get_waiter("function_active_v2").wait(FunctionName=f"probe-{function}")
        answer = functions.invoke(FunctionName=f"probe-{function}", Payload=json.dumps(calls))
        results: dict[str, str] = json.loads(answer["Payload"].read())
        assert "FunctionError" not in answer, results
        return results

    return run


@pytest.fixture(scope="module")
def calls(deployment: Deployment, lake: str, client: Callable[[Any], Any]) -> Calls:
    """Return the tested calls by meaning."""
    outputs = deployment.outputs
    s3 = client("s3")
    s3.create_bucket(Bucket="deploytest-other")
    for bucket in (lake, "deploytest-other"):
        for key in ("probe/file", "probe/_delta_log/file"):
            s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    secrets = client("secretsmanager")
    keys = f"deltaic/storage/{outputs.catalog_table}/deploytest"
    for name in (keys, "deltaic/storage/other-catalog/deploytest"):
        secrets.create_secret(Name=name, SecretString="{}")
    token = {"pk": {"S": "token/ab"}, "sk": {"S": "token"}}
    # By its id, because the embedded AWS does not resolve aliases in grants.
    aliases = client("kms").list_aliases()["Aliases"]
    [signing_key] = [
        alias["TargetKeyId"] for alias in aliases if alias["AliasName"] == "alias/deltaic-deploytest-oauth"
    ]
    to_sign = {"Message": "x", "SigningAlgorithm": "ECDSA_SHA_256"}
    of_recipient = {"pk": {"S": "recipient/a"}, "sk": {"S": "tokens"}}
    share = {"pk": {"S": "shares"}, "sk": {"S": "share/a"}}
    entry = {**share, "name": {"S": "a"}, "state": {"S": "deleting"}}  # it stays, but no list contains it
    shares = {"KeyConditionExpression": "pk = :pk", "ExpressionAttributeValues": {":pk": {"S": "recipient/a"}}}
    checkpoint, hint, commit = (
        {"Bucket": lake, "Key": f"probe/_delta_log/{name}"}
        for name in (f"{7:020d}.checkpoint.parquet", "_last_checkpoint", f"{7:020d}.json")
    )
    object_ = {"Bucket": outputs.iceberg_bucket, "Key": "probe/file"}
    s3.put_object(**object_, Body=b"x")
    session = {"RoleArn": outputs.signing_role_arn, "RoleSessionName": "alice"}
    return {
        "read a token": ("dynamodb", "get_item", {"TableName": outputs.tokens_table, "Key": token}),
        "read the public key": ("kms", "get_public_key", {"KeyId": signing_key}),
        "sign a token": ("kms", "sign", {"KeyId": signing_key, **to_sign}),
        "write a token": ("dynamodb", "put_item", {"TableName": outputs.tokens_table, "Item": token}),
        "write a token's list": ("dynamodb", "update_item", {"TableName": outputs.tokens_table, "Key": of_recipient}),
        "list a recipient's tokens": ("dynamodb", "query", {"TableName": outputs.tokens_table, **shares}),
        "read all tokens": ("dynamodb", "scan", {"TableName": outputs.tokens_table}),
        "read an entry": ("dynamodb", "get_item", {"TableName": outputs.catalog_table, "Key": share}),
        "read entries": (
            "dynamodb",
            "batch_get_item",
            {"RequestItems": {outputs.catalog_table: {"Keys": [share]}}},
        ),
        "list entries": ("dynamodb", "query", {"TableName": outputs.catalog_table, **shares}),
        "write an entry": ("dynamodb", "put_item", {"TableName": outputs.catalog_table, "Item": entry}),
        "read the token key": ("secretsmanager", "get_secret_value", {"SecretId": outputs.token_key_secret}),
        "read storage keys": ("secretsmanager", "get_secret_value", {"SecretId": keys}),
        "read another secret": (
            "secretsmanager",
            "get_secret_value",
            {"SecretId": "deltaic/storage/other-catalog/deploytest"},
        ),
        "read a log": ("s3", "get_object", {"Bucket": lake, "Key": "probe/_delta_log/file"}),
        "read data": ("s3", "get_object", {"Bucket": lake, "Key": "probe/file"}),
        "read metadata": ("s3", "get_object", object_),
        "write metadata": ("s3", "put_object", {**object_, "Body": "x"}),
        "list the lake": ("s3", "list_objects_v2", {"Bucket": lake, "Prefix": "probe/"}),
        "write the lake": ("s3", "put_object", {"Bucket": lake, "Key": "probe/new", "Body": "x"}),
        "write a checkpoint": ("s3", "put_object", {**checkpoint, "Body": "x"}),
        "write the hint": ("s3", "put_object", {**hint, "Body": "x"}),
        "write a commit": ("s3", "put_object", {**commit, "Body": "x"}),
        "delete a checkpoint": ("s3", "delete_object", checkpoint),
        "delete a commit": ("s3", "delete_object", commit),
        "update an entry": (
            "dynamodb",
            "update_item",
            {"TableName": outputs.catalog_table, "Key": {"pk": {"S": "lease/probe"}, "sk": {"S": "lease"}}},
        ),
        "read another bucket": ("s3", "get_object", {"Bucket": "deploytest-other", "Key": "probe/_delta_log/file"}),
        "sign for alice": (
            "sts",
            "assume_role",
            {**session, "Tags": [{"Key": "recipient", "Value": "alice"}]},
        ),
        "put an event": (
            "events",
            "put_events",
            {"Entries": [{"Source": "deltaic-deploytest", "DetailType": "probe", "Detail": "{}"}]},
        ),
        "put an event on another bus": (
            "events",
            "put_events",
            {"Entries": [{"EventBusName": "o", "Source": "deltaic-deploytest", "DetailType": "p", "Detail": "{}"}]},
        ),
        "sign for nobody": ("sts", "assume_role", session),
    }


SHARED = {"read entries"}
COUNTED = SHARED | {"read an entry", "update an entry"}
"""Calls of endpoints that count requests of limited recipients: only for keys of counters."""
# The embedded AWS does not enforce `dynamodb:LeadingKeys`; tests/template/test_template.py checks them.
MAY: dict[str, set[str]] = {
    "Authorizer": {"read a token", "write a token's list", "list a recipient's tokens", "read the public key"},
    "ListShares": COUNTED | {"list entries", "read the token key"},
    "GetShare": COUNTED,
    "ListSchemas": COUNTED | {"list entries", "read the token key"},
    "ListTables": COUNTED | {"list entries", "read the token key"},
    "ListAllTables": COUNTED | {"list entries", "read the token key"},
    "GetTableVersion": COUNTED | {"read storage keys", "read a log", "list the lake"},
    "GetTableMetadata": COUNTED | {"read storage keys", "read a log", "list the lake"},
    "QueryTable": COUNTED
    | {"read storage keys", "read a log", "list the lake", "read the token key", "sign for alice"}
    | {"write an entry"},
    "GetQuery": COUNTED | {"read storage keys", "read a log", "list the lake", "read the token key", "sign for alice"},
    "ListTableChanges": COUNTED
    | {"read storage keys", "read a log", "list the lake", "read the token key", "sign for alice"},
    "GetContract": set(),
    "ExplorePage": set(),
    "Preflight": set(),
    "Activation": SHARED | {"list entries", "read a token", "write a token's list", "list a recipient's tokens"},
    "OAuth": {"read a token", "read the public key", "sign a token"},
    "CreateTableCredentials": COUNTED | {"sign for alice"},
    "ListIceberg": COUNTED | {"list entries"},
    "LoadIcebergTable": COUNTED
    | {"read storage keys", "read a log", "list the lake", "read the token key", "sign for alice"}
    | {"read metadata", "write metadata"},
    "MakeIcebergMetadata": COUNTED
    | {"read storage keys", "read a log", "list the lake", "sign for alice"}
    | {"read metadata", "write metadata"},
    "SignIcebergRequest": COUNTED | {"read storage keys", "read the token key", "sign for alice", "read metadata"},
    "GetTable": COUNTED,
    "ListAssets": COUNTED | {"list entries", "read the token key"},
    "CreateAssetCredentials": COUNTED | {"sign for alice"},
    "ListAssetFiles": COUNTED | {"read storage keys", "read the token key", "sign for alice"},
    "FollowTables": SHARED
    | {"read an entry", "list entries", "update an entry", "read storage keys", "read a log", "list the lake"},
    "CheckpointTables": SHARED
    | {"read an entry", "list entries", "update an entry", "read storage keys", "read a log", "list the lake"}
    | {"write a checkpoint", "write the hint"},
    "SendNotices": SHARED
    | {"read an entry", "list entries", "update an entry", "read storage keys", "read a log", "list the lake"}
    | {"read a token", "list a recipient's tokens", "put an event"},
    "SubmitJob": set(),
}


@pytest.mark.deploy
@pytest.mark.parametrize("function", sorted(MAY))
def test_function_can_do_only_its_work(function: str, probe: Probe, calls: Calls) -> None:
    answers = probe(function, calls)
    assert {meaning for meaning, answer in answers.items() if answer == ALLOWED} == MAY[function]
    assert {answer for meaning, answer in answers.items() if meaning not in MAY[function]} <= REFUSED


def test_every_function_is_tested() -> None:
    functions = load_template(parameters=EVERYTHING).functions
    missing, removed = set(functions) - set(MAY), set(MAY) - set(functions)
    assert not missing, f"add to MAY of this file what these functions can do: {missing}"
    assert not removed, f"remove from MAY of this file: {removed}"
