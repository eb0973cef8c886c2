"""Read permissions and versions from the transformed template, for its tests."""

from collections.abc import Iterator, Mapping
from typing import Any

Resources = Mapping[str, Mapping[str, Any]]
_AWS_MANAGED = "arn:aws:iam::aws:policy/"
LOGS = "arn:aws:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"
TRACES = "arn:aws:iam::aws:policy/AWSXrayWriteOnlyAccess"
BUCKETS = {"DataBuckets": "arn:aws:s3:::lake,arn:aws:s3:::raw"}
OBJECTS = ["arn:aws:s3:::lake/*", "arn:aws:s3:::raw/*"]
LOG_OBJECTS = ["arn:aws:s3:::lake/*_delta_log/*", "arn:aws:s3:::raw/*_delta_log/*"]
ICEBERG_OBJECTS = ["arn:aws:s3:::lake/*metadata/*", "arn:aws:s3:::raw/*metadata/*"]
STORAGE_SECRETS = "arn:aws:secretsmanager:us-east-1:000000000000:secret:deltaic/storage/${Catalog}/*"

CHANGED = {
    "Prefix": "open",
    "Explore": "disabled",
    "Iceberg": "enabled",
    "CorsOrigins": "https://notebooks.example",
    "ClientCredentials": "enabled",
    "TokenMinutes": "5",
    "UrlTtlSeconds": "1900",
    "DataBuckets": "arn:aws:s3:::other",
    "TableBuckets": "arn:aws:s3tables:us-east-1:000000000000:bucket/lake",
    "DataKeys": "arn:aws:kms:us-east-1:000000000000:key/1",
    "StorageRoles": "arn:aws:iam::111111111111:role/lake",
    "ResponseStreaming": "disabled",
    "Contact": "data@shares.example",
    "ServerPages": "disabled",
    "UnreadStatistics": "enabled",
    "Architecture": "x86_64",
    "SnapStart": "enabled",
    "LogLevel": "DEBUG",
    "LogRetentionDays": "1",
    "AlarmTopic": "arn:aws:sns:us-east-1:000000000000:alarms",
    "RequestsPerSecond": "7",
    "RequestsBurst": "9",
    "LimitsOnFailure": "closed",
    "AuthorizerConcurrency": "50",
    "StreamingConcurrency": "100",
    "DeletionProtection": "disabled",
    "AccessLog": "disabled",
    "Follow": "enabled",
    "Checkpoints": "enabled",
    "Notices": "14",
    "NoticesBus": "own",
    "NoticesWebhook": "https://notices.example/deltaic",
    "SparkJobs": "enabled",
    "SourceBuckets": "arn:aws:s3:::inbox",
    "JobSubnets": "subnet-1",
    "JobSecurityGroups": "sg-1",
    "DomainName": "sharing.example.com",
    "CertificateArn": "arn:aws:acm:us-east-1:000000000000:certificate/1",
    "HostedZoneId": "Z1",
    "IpAddressType": "dualstack",
    "WebAcl": "enabled",
    "RequestsPerAddress": "70",
    "GradualDeployment": "enabled",
    "BackupDays": "400",
    "StateKey": "arn:aws:kms:us-east-1:000000000000:key/2",
    "Tracing": "Active",
    "Dashboard": "enabled",
    "MonthlyBudget": "50",
    "BudgetEmail": "costs@example.com",
}
"""Every parameter with a value other than its default."""

EVERYTHING = {
    **CHANGED,
    "ResponseStreaming": "enabled",
    "AccessLog": "enabled",
    "Explore": "enabled",
    "DeletionProtection": "enabled",
}
"""Parameters that enable every optional part."""


SHARED_POLICIES = {
    f"${{{name}}}"
    for name in (
        *("CountRequests", "ReadEntries", "ReadShares", "ListEntries"),
        *("FindStorages", "ReadStorageKeys", "ReadTableLogs", "ReadTokenKey", "ReadIcebergMetadata"),
    )
}
"""Managed policies that the template defines."""


def several(value: str | list[str]) -> list[str]:
    """Return the values of a policy's field, which can be a list or a single value."""
    return [value] if isinstance(value, str) else value


def statements_of_role(resources: Resources, role: str) -> Iterator[dict[str, Any]]:
    """Yield the statements of a role's policies, except for AWS managed policies."""
    properties = resources[role]["Properties"]
    documents = [policy["PolicyDocument"] for policy in properties.get("Policies", [])]
    documents += [
        resources[arn[2:-1]]["Properties"]["PolicyDocument"]
        for arn in properties.get("ManagedPolicyArns", [])
        if not arn.startswith(_AWS_MANAGED)
    ]
    documents += [
        resource["Properties"]["PolicyDocument"]
        for resource in resources.values()
        if resource["Type"] == "AWS::IAM::Policy" and f"${{{role}}}" in resource["Properties"]["Roles"]
    ]
    for document in documents:
        yield from document["Statement"]


def statements(resources: dict[str, dict[str, Any]], function: str) -> Iterator[dict[str, Any]]:
    """Yield all policy statements of a function's role, except for logs and traces."""
    role = resources[function]["Properties"]["Role"].removeprefix("${").removesuffix(".Arn}")
    assert set(resources[role]["Properties"]["ManagedPolicyArns"]) - {LOGS, TRACES} <= SHARED_POLICIES
    yield from statements_of_role(resources, role)


def granted(resources: dict[str, dict[str, Any]], function: str) -> set[tuple[str, str]]:
    return {
        (action, resource)
        for statement in statements(resources, function)
        for action in several(statement["Action"])
        for resource in several(statement["Resource"])
    }


def keys(resources: dict[str, dict[str, Any]], function: str) -> dict[str, list[str]]:
    """Return the partition keys to which each DynamoDB action is limited."""
    bound: dict[str, list[str]] = {}
    for statement in statements(resources, function):
        for action in several(statement["Action"]):
            if action.startswith("dynamodb:"):
                bound.setdefault(action, []).extend(
                    statement["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]
                )
    return bound


def published(resources: dict[str, dict[str, Any]]) -> dict[str, tuple[str, str]]:
    """Return name and description of each function's version; if they change, a new version is published."""
    return {
        resource["Properties"]["FunctionName"][2:-1]: (logical_id, resource["Properties"]["Description"])
        for logical_id, resource in resources.items()
        if resource["Type"] == "AWS::Lambda::Version"
    }


def configured(resources: dict[str, dict[str, Any]], function: str) -> dict[str, Any]:
    """Return the properties of a function's version, which do not include concurrency."""
    return {
        name: value
        for name, value in resources[function]["Properties"].items()
        if name != "ReservedConcurrentExecutions"
    }
