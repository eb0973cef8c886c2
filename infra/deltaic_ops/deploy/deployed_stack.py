"""What CloudFormation says of a deployed stack: parameters, what it made out of which packages, what outlives it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError, WaiterError
from deltaic.catalog.aws_errors import to_operator_error
from deltaic.errors import Conflict, NotFound

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient

_STATE = {"Catalog", "Tokens", "TokenKey"}
_KEPT = ("Retain", "RetainExceptOnCreate")


@dataclass(frozen=True, slots=True)
class DeployedStack:
    """One deployed stack."""

    name: str
    status: str
    parameters: Mapping[str, str]
    outputs: Mapping[str, str]
    resources: Mapping[str, str]
    """Physical ids by logical ids."""

    packages: Mapping[str, tuple[str, str]]
    """Bucket and key of the code of each function and layer, by logical id."""

    kept: Mapping[str, str]
    """Types, by the physical ids of what stays when the stack is deleted (DeletionPolicy)."""

    @property
    def ours(self) -> bool:
        """Whether it was made of template.yaml."""
        return self.resources.keys() >= _STATE

    def list_of(self, parameter: str) -> list[str]:
        """Return the values of a parameter that is a list."""
        return [part.strip() for part in self.parameters.get(parameter, "").split(",") if part.strip()]


def read_stack(client: "CloudFormationClient", name: str) -> DeployedStack:
    """Return what is known of a stack; raises NotFound where there is none, else what the catalog raises of AWS."""
    try:
        [description] = client.describe_stacks(StackName=name)["Stacks"]
        pages = client.get_paginator("list_stack_resources").paginate(StackName=name)
        made = [one for page in pages for one in page["StackResourceSummaries"]]
        template: Any = client.get_template(StackName=name, TemplateStage="Processed")["TemplateBody"]
    except ClientError as error:
        if error.response["Error"].get("Code") != "ValidationError":
            raise to_operator_error(error) from error
        raise NotFound(f"there is no stack '{name}' in this account and region") from error
    except BotoCoreError as error:
        raise to_operator_error(error) from error
    resources = {one["LogicalResourceId"]: one.get("PhysicalResourceId", "") for one in made}
    written: Mapping[str, Any] = template.get("Resources", {}) if isinstance(template, Mapping) else {}
    return DeployedStack(
        name=name,
        status=str(description["StackStatus"]),
        parameters={one["ParameterKey"]: one.get("ParameterValue", "") for one in description.get("Parameters", [])},
        outputs={one["OutputKey"]: one["OutputValue"] for one in description.get("Outputs", [])},
        resources=resources,
        packages=dict(_packages(written, resources)),
        kept={
            resources[one["LogicalResourceId"]]: one["ResourceType"]
            for one in sorted(made, key=lambda one: (one["ResourceType"], one["LogicalResourceId"]))
            if written.get(one["LogicalResourceId"], {}).get("DeletionPolicy") in _KEPT
        },
    )


def _packages(written: Mapping[str, Any], resources: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, str]]]:
    for logical_id, resource in written.items():
        said = resource.get("Properties", {})
        code = said.get("Code") or said.get("Content")
        if logical_id in resources and isinstance(code, Mapping) and "S3Bucket" in code and "S3Key" in code:
            yield logical_id, (str(code["S3Bucket"]), str(code["S3Key"]))


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
        raise to_operator_error(error) from error
