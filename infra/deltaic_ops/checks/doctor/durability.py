"""Check the data that must not be lost: both DynamoDB tables, and the page-token key."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from deltaic_ops.inspection.findings import Finding, ask, judge, not_tried

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_secretsmanager import SecretsManagerClient

_KEYS = {("pk", "HASH"), ("sk", "RANGE")}


def check_table(
    client: "DynamoDBClient", name: str, kind: str, parameters: Mapping[str, str], *, is_local: bool
) -> Iterator[Finding]:
    """Check that a DynamoDB table exists with its key schema, deletion protection and point-in-time recovery.

    With `is_local` (AWS emulator without a stack), only the key schema is checked. `kind` is shares or tokens.
    """
    protected, restorable = f"protects the table of {kind} from deletion", f"can restore the table of {kind}"
    protection: list[bool] = []

    def describe() -> Finding:
        description = client.describe_table(TableName=name)["Table"]
        keys = {(key["AttributeName"], key["KeyType"]) for key in description["KeySchema"]}
        protection.append(description.get("DeletionProtectionEnabled", False))
        return judge(
            f"reaches the table of {kind}",
            f"{name}: {description['TableStatus']}",
            f"check the name: the table of {kind} has the keys pk and sk",
            holds=keys == _KEYS and description["TableStatus"] in {"ACTIVE", "UPDATING"},
        )

    name_remedy = f"check the name (--stack, or --{'catalog' if kind == 'shares' else 'tokens'}), account and region"
    yield from ask(f"reaches the table of {kind}", name_remedy, describe)
    if not protection:
        return
    if is_local:
        for check in (protected, restorable):
            yield not_tried(check, "only AWS supports it; `deltaic export` saves the catalog as files")
        return
    is_disabled = parameters.get("DeletionProtection") == "disabled"
    yield judge(
        protected,
        "on" if protection[0] else f"off{' (DeletionProtection=disabled)' * is_disabled}",
        f"aws dynamodb update-table --table-name {name} --deletion-protection-enabled",
        holds=protection[0],
        otherwise="warning" if is_disabled else "failed",
    )
    enable = f"aws dynamodb update-continuous-backups --table-name {name} --point-in-time-recovery-specification"
    enable += " PointInTimeRecoveryEnabled=true"

    def recovery() -> Finding:
        backups = client.describe_continuous_backups(TableName=name)["ContinuousBackupsDescription"]
        state = backups.get("PointInTimeRecoveryDescription", {}).get("PointInTimeRecoveryStatus", "DISABLED")
        return judge(restorable, state.lower(), enable, holds=state == "ENABLED")

    yield from ask(restorable, enable, recovery)


def check_token_key(client: "SecretsManagerClient", name: str) -> Iterator[Finding]:
    """Check that the secret with the page-token key exists, without reading its value."""
    check = "has the key of page tokens"
    remedy = f"aws secretsmanager create-secret --name {name} --secret-string $(openssl rand -hex 32)"

    def read_secret() -> Finding:
        deleted = "DeletedDate" in dict(client.describe_secret(SecretId=name))
        restore = f"aws secretsmanager restore-secret --secret-id {name}"
        return judge(check, f"{name}{' is deleted' * deleted}", restore, holds=not deleted)

    yield from ask(check, f"{remedy} (page tokens in use become invalid)", read_secret)
