"""Removes a stack: what goes, what stays, and how what stays is deleted too."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError, WaiterError
from deltaic.catalog.aws_errors import refused
from deltaic.errors import Conflict

from deltaic_ops.deploy.deployed_stack import DeployedStack

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient

_DELETE = {
    "AWS::DynamoDB::Table": (
        "aws dynamodb update-table --table-name {0} --no-deletion-protection-enabled",
        "aws dynamodb delete-table --table-name {0}",
    ),
    "AWS::SecretsManager::Secret": ("aws secretsmanager delete-secret --secret-id {0} --recovery-window-in-days 7",),
    "AWS::Backup::BackupVault": (
        "# first what is in it: aws backup list-recovery-points-by-backup-vault --backup-vault-name {0}",
        "aws backup delete-backup-vault --backup-vault-name {0}",
    ),
    "AWS::S3::Bucket": ("aws s3 rb s3://{0} --force",),
}


def deletions(kept: Mapping[str, str]) -> list[str]:
    """Return the commands that delete what outlives a stack (`DeployedStack.kept`), for good."""
    return [line.format(name) for name, kind in kept.items() for line in _DELETE[kind]]


def remove(client: "CloudFormationClient", stack: DeployedStack) -> None:
    """Delete a stack and return when it is gone; raises Conflict, naming what could not be deleted."""
    try:
        client.delete_stack(StackName=stack.name)
        client.get_waiter("stack_delete_complete").wait(StackName=stack.name, WaiterConfig={"Delay": 5})
    except WaiterError:
        raise Conflict(
            f"not all of {stack.name} could be deleted: `aws cloudformation describe-stack-events --stack-name "
            f"{stack.name}` says why; what is left can be removed by the same command"
        ) from None
    except ClientError as error:
        raise refused(error) from error
