"""What must not be lost: both tables, and the key that signs page, refresh and list tokens."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from deltaic_ops.inspection.findings import Finding, ask, judge, not_asked

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_secretsmanager import SecretsManagerClient

_KEYS = {("pk", "HASH"), ("sk", "RANGE")}


def table(
    client: "DynamoDBClient", name: str, what: str, parameters: Mapping[str, str], *, here: bool
) -> Iterator[Finding]:
    """Check one of both tables: it is there and ours, cannot be deleted, and can be led back in time.

    Of an AWS on this machine (`here`) that no stack was deployed to the last two are not asked.
    """
    protected, led_back = f"keeps the table of {what} from deletion", f"can lead the table of {what} back in time"
    protection: list[bool] = []

    def reached() -> Iterator[Finding]:
        description = client.describe_table(TableName=name)["Table"]
        keys = {(key["AttributeName"], key["KeyType"]) for key in description["KeySchema"]}
        protection.append(description.get("DeletionProtectionEnabled", False))
        yield judge(
            f"reaches the table of {what}",
            f"{name}: {description['TableStatus']}",
            f"which table it is: pk and sk must be the keys of the table of {what}",
            holds=keys == _KEYS and description["TableStatus"] in {"ACTIVE", "UPDATING"},
        )

    named = f"the name (--stack, or --{'catalog' if what == 'shares' else 'tokens'}), the account and the region"
    yield from ask(f"reaches the table of {what}", named, reached)
    if not protection:
        return
    if here:
        yield from (
            not_asked(check, "only AWS has it; `deltaic export` keeps the catalog as files")
            for check in (protected, led_back)
        )
        return
    chosen = parameters.get("DeletionProtection") == "disabled"
    yield judge(
        protected,
        "on" if protection[0] else f"off{', as DeletionProtection=disabled says' * chosen}",
        f"aws dynamodb update-table --table-name {name} --deletion-protection-enabled",
        holds=protection[0],
        otherwise="warning" if chosen else "failed",
    )
    back = f"aws dynamodb update-continuous-backups --table-name {name} --point-in-time-recovery-specification"
    back += " PointInTimeRecoveryEnabled=true"

    def recovery() -> Finding:
        backups = client.describe_continuous_backups(TableName=name)["ContinuousBackupsDescription"]
        state = backups.get("PointInTimeRecoveryDescription", {}).get("PointInTimeRecoveryStatus", "DISABLED")
        return judge(led_back, state.lower(), back, holds=state == "ENABLED")

    yield from ask(led_back, back, recovery)


def token_key(client: "SecretsManagerClient", name: str) -> Iterator[Finding]:
    """Check that the key is there; its value is not read."""
    check = "has the key of page tokens"
    anew = f"aws secretsmanager create-secret --name {name} --secret-string $(openssl rand -hex 32)"

    def there() -> Finding:
        deleted = "DeletedDate" in dict(client.describe_secret(SecretId=name))
        restore = f"aws secretsmanager restore-secret --secret-id {name}"
        return judge(check, f"{name}{' is deleted' * deleted}", restore, holds=not deleted)

    yield from ask(check, f"{anew} (pages that are being read end)", there)
