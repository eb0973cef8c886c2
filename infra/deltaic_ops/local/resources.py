"""The embedded AWS's contents before the gateway serves: the template's tables, secrets and roles, a bucket.

CloudFormation would make the same from the same template; this takes half a second and can be done again and again.
"""

import copy
import json
import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from deltaic_ops.deploy.emulated_account import ACCOUNT
from deltaic_ops.deploy.sam_template import Template
from deltaic_ops.local.bucket_cors import let

if TYPE_CHECKING:
    import boto3

DATA_BUCKET = "deltaic-lake"
"""Where the demo and the examples keep their tables."""

PAGES = ("http://127.0.0.1:*", "http://localhost:*")
"""Whose pages may read its objects, by signed URLs: those of this machine, whatever port they are served on."""

Clients = Mapping[str, Any]

PARAMETERS = {"DataBuckets": "arn:aws:s3:::*", "ClientCredentials": "enabled", "Iceberg": "enabled"}
"""What the template is told here: every bucket of the embedded AWS may be shared, and nothing costs anything."""


_CREATE_TABLE = ("TableName", "BillingMode", "AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes")
"""Properties of a table that are arguments of CreateTable here; others are AWS's care."""


def connect(environment: Mapping[str, str]) -> Clients:
    """Return the clients that `prepare` needs; asks nothing yet, so AWS may still be starting."""
    session = session_of(environment)
    services: tuple[Any, ...] = ("dynamodb", "iam", "kms", "s3", "secretsmanager")
    return {name: session.client(name, endpoint_url=environment["AWS_ENDPOINT_URL"]) for name in services}


def session_of(environment: Mapping[str, str]) -> "boto3.Session":
    """Return a session with the keys and the region that variables name."""
    import boto3

    return boto3.Session(
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        region_name=environment["AWS_REGION"],
    )


def prepare(template: Template, clients: Clients) -> None:
    """Create what is missing, bring roles up to date; raises botocore's ClientError."""
    for table in template.tables.values():
        _table(clients["dynamodb"], table)
    for logical_id, secret in template.secrets.items():
        _secret(clients["secretsmanager"], secret.get("Name", logical_id), secret)
    for name, role in template.roles.items():
        _role(clients["iam"], name, role)
    for alias in template.signing_keys:
        _signing_key(clients["kms"], alias)
    for bucket in (DATA_BUCKET, *template.buckets):
        _unless_there("BucketAlreadyOwnedByYou", partial(clients["s3"].create_bucket, Bucket=bucket))
    let(clients["s3"], DATA_BUCKET, PAGES)


def _table(dynamodb: Any, table: Mapping[str, Any]) -> None:
    request = {key: table[key] for key in _CREATE_TABLE if key in table}
    made = _unless_there("ResourceInUseException", lambda: dynamodb.create_table(**request))
    if made and (expiry := table.get("TimeToLiveSpecification")):
        dynamodb.update_time_to_live(TableName=table["TableName"], TimeToLiveSpecification=expiry)


def _secret(manager: Any, name: str, secret: Mapping[str, Any]) -> None:
    length = secret["GenerateSecretString"]["PasswordLength"]
    value = secrets.token_hex(length)[:length]
    _unless_there("ResourceExistsException", lambda: manager.create_secret(Name=name, SecretString=value))


def _signing_key(kms: Any, alias: str) -> None:
    there = {one["AliasName"] for page in kms.get_paginator("list_aliases").paginate() for one in page["Aliases"]}
    if alias not in there:
        made = kms.create_key(KeySpec="ECC_NIST_P256", KeyUsage="SIGN_VERIFY")
        kms.create_alias(AliasName=alias, TargetKeyId=made["KeyMetadata"]["KeyId"])


def _role(iam: Any, name: str, role: Mapping[str, Any]) -> None:
    """Create the role, or bring it up to date; its trust has the administrator, as whom functions run here."""
    trust = copy.deepcopy(role["AssumeRolePolicyDocument"])
    for statement in trust["Statement"]:
        named = statement.get("Principal", {}).get("AWS")
        if named is not None:
            known = named if isinstance(named, list) else [named]
            statement["Principal"]["AWS"] = [*known, f"arn:aws:iam::{ACCOUNT}:root"]
    document = json.dumps(trust)
    if not _unless_there(
        "EntityAlreadyExists", lambda: iam.create_role(RoleName=name, AssumeRolePolicyDocument=document)
    ):
        iam.update_assume_role_policy(RoleName=name, PolicyDocument=document)
    for policy in role.get("Policies", ()):
        document = json.dumps(policy["PolicyDocument"])
        iam.put_role_policy(RoleName=name, PolicyName=policy["PolicyName"], PolicyDocument=document)


def _unless_there(code: str, create: Callable[[], object]) -> bool:
    from botocore.exceptions import ClientError

    try:
        create()
    except ClientError as error:
        if error.response["Error"]["Code"] != code:
            raise
        return False
    return True
