"""What must not be lost: both tables, and the key that signs page, refresh and list tokens."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from deltaic_ops.doctor.findings import Finding, asked, judged

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_secretsmanager import SecretsManagerClient

_KEYS = {("pk", "HASH"), ("sk", "RANGE")}


def table(client: "DynamoDBClient", name: str, what: str, parameters: Mapping[str, str]) -> Iterator[Finding]:
    """Check one of both tables: it is there and ours, cannot be deleted, and can be led back in time."""
    found: list[bool] = []

    def reached() -> Iterator[Finding]:
        said = client.describe_table(TableName=name)["Table"]
        keys = {(key["AttributeName"], key["KeyType"]) for key in said["KeySchema"]}
        found.append(said.get("DeletionProtectionEnabled", False))
        yield judged(
            f"reaches the table of {what}",
            f"{name}: {said['TableStatus']}",
            f"which table it is: pk and sk must be the keys of the table of {what}",
            holds=keys == _KEYS and said["TableStatus"] in {"ACTIVE", "UPDATING"},
        )

    named = f"the name (--stack, or --{'catalog' if what == 'shares' else 'tokens'}), the account and the region"
    yield from asked(f"reaches the table of {what}", named, reached)
    if not found:
        return
    chosen = parameters.get("DeletionProtection") == "disabled"
    yield judged(
        f"keeps the table of {what} from deletion",
        "on" if found[0] else f"off{', as DeletionProtection=disabled says' * chosen}",
        f"aws dynamodb update-table --table-name {name} --deletion-protection-enabled",
        holds=found[0],
        otherwise="warning" if chosen else "failed",
    )
    back = f"aws dynamodb update-continuous-backups --table-name {name} --point-in-time-recovery-specification"
    back += " PointInTimeRecoveryEnabled=true"

    def recovery() -> Finding:
        said = client.describe_continuous_backups(TableName=name)["ContinuousBackupsDescription"]
        state = said.get("PointInTimeRecoveryDescription", {}).get("PointInTimeRecoveryStatus", "DISABLED")
        check = f"can lead the table of {what} back in time"
        return judged(check, state.lower(), back, holds=state == "ENABLED")

    yield from asked(f"can lead the table of {what} back in time", back, recovery)


def token_key(client: "SecretsManagerClient", name: str) -> Iterator[Finding]:
    """Check that the key is there; its value is not read."""
    check = "has the key of page tokens"
    anew = f"aws secretsmanager create-secret --name {name} --secret-string $(openssl rand -hex 32)"

    def there() -> Finding:
        said = client.describe_secret(SecretId=name)
        deleted = "DeletedDate" in dict(said)
        restore = f"aws secretsmanager restore-secret --secret-id {name}"
        return judged(check, f"{name}{' is deleted' * deleted}", restore, holds=not deleted)

    yield from asked(check, f"{anew} (pages that are being read end)", there)
