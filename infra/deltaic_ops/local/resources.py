"""Create the template's tables, secrets, roles, keys and buckets in the embedded AWS.

The result is the same as with CloudFormation, but takes half a second. Repeated calls create missing resources.
"""

import copy
import json
import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from deltaic_ops.deploy.emulated_account import ACCOUNT
from deltaic_ops.deploy.sam_template import Template
from deltaic_ops.local.bucket_cors import allow_origins

if TYPE_CHECKING:
    import boto3

DATA_BUCKET = "deltaic-lake"
"""Bucket for the tables of the demo and the examples."""

PAGES = ("http://127.0.0.1:*", "http://localhost:*")
"""Origins of web pages that may read the bucket's objects by signed URLs: all ports of this machine."""

Clients = Mapping[str, Any]

PARAMETERS = {"DataBuckets": "arn:aws:s3:::*", "ClientCredentials": "enabled", "Iceberg": "enabled"}
"""Template parameters for the embedded AWS: all buckets can be shared, and optional functions are enabled."""


_CREATE_TABLE = ("TableName", "BillingMode", "AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes")
"""Properties of a DynamoDB table that are passed to CreateTable; other properties have no effect here."""


def connect(environment: Mapping[str, str]) -> Clients:
    """Return boto3 clients for `prepare`, without sending requests, because the embedded AWS may still be starting."""
    session = session_of(environment)
    services: tuple[Any, ...] = ("dynamodb", "iam", "kms", "s3", "secretsmanager")
    return {name: session.client(name, endpoint_url=environment["AWS_ENDPOINT_URL"]) for name in services}


def session_of(environment: Mapping[str, str]) -> "boto3.Session":
    """Return a boto3 session with the access key and the region of these AWS variables."""
    import boto3

    return boto3.Session(
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        region_name=environment["AWS_REGION"],
    )


def prepare(template: Template, clients: Clients) -> None:
    """Create missing resources of the template and update roles; raises botocore's ClientError."""
    for table in template.tables.values():
        _table(clients["dynamodb"], table)
    for logical_id, secret in template.secrets.items():
        _secret(clients["secretsmanager"], secret.get("Name", logical_id), secret)
    for name, role in template.roles.items():
        _role(clients["iam"], name, role)
    for alias in template.signing_keys:
        _signing_key(clients["kms"], alias)
    for bucket in (DATA_BUCKET, *template.buckets):
        _create_missing("BucketAlreadyOwnedByYou", partial(clients["s3"].create_bucket, Bucket=bucket))
    allow_origins(clients["s3"], DATA_BUCKET, PAGES)


def _table(dynamodb: Any, table: Mapping[str, Any]) -> None:
    request = {key: table[key] for key in _CREATE_TABLE if key in table}
    created = _create_missing("ResourceInUseException", lambda: dynamodb.create_table(**request))
    if created and (expiry := table.get("TimeToLiveSpecification")):
        dynamodb.update_time_to_live(TableName=table["TableName"], TimeToLiveSpecification=expiry)


def _secret(manager: Any, name: str, secret: Mapping[str, Any]) -> None:
    length = secret["GenerateSecretString"]["PasswordLength"]
    value = secrets.token_hex(length)[:length]
    _create_missing("ResourceExistsException", lambda: manager.create_secret(Name=name, SecretString=value))


def _signing_key(kms: Any, alias: str) -> None:
    aliases = {one["AliasName"] for page in kms.get_paginator("list_aliases").paginate() for one in page["Aliases"]}
    if alias not in aliases:
        key = kms.create_key(KeySpec="ECC_NIST_P256", KeyUsage="SIGN_VERIFY")
        kms.create_alias(AliasName=alias, TargetKeyId=key["KeyMetadata"]["KeyId"])


def _role(iam: Any, name: str, role: Mapping[str, Any]) -> None:
    """Create or update a role, and let the administrator assume it, because local functions run as administrator."""
    trust = copy.deepcopy(role["AssumeRolePolicyDocument"])
    for statement in trust["Statement"]:
        principal = statement.get("Principal", {}).get("AWS")
        if principal is not None:
            principals = principal if isinstance(principal, list) else [principal]
            statement["Principal"]["AWS"] = [*principals, f"arn:aws:iam::{ACCOUNT}:root"]
    document = json.dumps(trust)
    if not _create_missing(
        "EntityAlreadyExists", lambda: iam.create_role(RoleName=name, AssumeRolePolicyDocument=document)
    ):
        iam.update_assume_role_policy(RoleName=name, PolicyDocument=document)
    for policy in role.get("Policies", ()):
        document = json.dumps(policy["PolicyDocument"])
        iam.put_role_policy(RoleName=name, PolicyName=policy["PolicyName"], PolicyDocument=document)


def _create_missing(code: str, create: Callable[[], object]) -> bool:
    from botocore.exceptions import ClientError

    try:
        create()
    except ClientError as error:
        if error.response["Error"]["Code"] != code:
            raise
        return False
    return True
