"""Read a deployed stack from CloudFormation (parameters, resources, code packages), and delete a stack."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError, WaiterError
from deltaic.catalog.aws_errors import to_operator_error
from deltaic.errors import Conflict, NotFound

from deltaic_ops.deploy.intrinsics import Resolver
from deltaic_ops.deploy.outputs import describe_stack

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient

_STATE_RESOURCES = {"Catalog", "Tokens", "TokenKey"}
_RETAINING_POLICIES = ("Retain", "RetainExceptOnCreate")


@dataclass(frozen=True, slots=True)
class DeployedStack:
    """A deployed CloudFormation stack, with its parameters, outputs and resources."""

    name: str
    status: str
    parameters: Mapping[str, str]
    outputs: Mapping[str, str]
    resources: Mapping[str, str]
    """Physical ids of the resources, by logical id."""

    packages: Mapping[str, tuple[str, str]]
    """S3 bucket and key with the code of each function and layer, by logical id."""

    retained: Mapping[str, str]
    """Types of resources that are kept when the stack is deleted (DeletionPolicy), by physical id."""

    def list_parameter(self, parameter: str) -> list[str]:
        """Return the values of a comma-separated parameter."""
        return [part.strip() for part in self.parameters.get(parameter, "").split(",") if part.strip()]


def read_stack(client: "CloudFormationClient", name: str) -> DeployedStack:
    """Read a stack; raises NotFound if it does not exist or is not a Deltaic stack, and errors for operators."""
    try:
        status, parameters, outputs = describe_stack(client, name)
        pages = client.get_paginator("list_stack_resources").paginate(StackName=name)
        summaries = [resource for page in pages for resource in page["StackResourceSummaries"]]
        template: Any = client.get_template(StackName=name, TemplateStage="Processed")["TemplateBody"]
    except (BotoCoreError, ClientError) as error:
        raise to_operator_error(error) from error
    resources = {resource["LogicalResourceId"]: resource.get("PhysicalResourceId", "") for resource in summaries}
    if not resources.keys() >= _STATE_RESOURCES:
        raise NotFound(f"stack '{name}' is not a Deltaic stack: check --stack")
    declared: Mapping[str, Any] = template.get("Resources", {}) if isinstance(template, Mapping) else {}
    summaries.sort(key=itemgetter("ResourceType", "LogicalResourceId"))
    policies = {logical_id: resource.get("DeletionPolicy") for logical_id, resource in declared.items()}
    retained = [item for item in summaries if policies.get(item["LogicalResourceId"]) in _RETAINING_POLICIES]
    return DeployedStack(
        name=name,
        status=status,
        parameters=parameters,
        outputs=outputs,
        resources=resources,
        packages=dict(_packages(declared, resources, Resolver({}, {}, parameters))),
        retained={resources[item["LogicalResourceId"]]: item["ResourceType"] for item in retained},
    )


def _packages(
    declared: Mapping[str, Any], resources: Mapping[str, str], resolve: Resolver
) -> Iterator[tuple[str, tuple[str, str]]]:
    for logical_id, resource in declared.items():
        properties = resource.get("Properties", {})
        code = properties.get("Code") or properties.get("Content")
        if logical_id in resources and isinstance(code, Mapping) and "S3Bucket" in code and "S3Key" in code:
            yield logical_id, (str(resolve(code["S3Bucket"])), str(resolve(code["S3Key"])))


_DELETION_COMMANDS = {
    "AWS::DynamoDB::Table": (
        "aws dynamodb update-table --table-name {0} --no-deletion-protection-enabled",
        "aws dynamodb delete-table --table-name {0}",
    ),
    "AWS::SecretsManager::Secret": ("aws secretsmanager delete-secret --secret-id {0} --recovery-window-in-days 7",),
    "AWS::Backup::BackupVault": (
        "# first delete its recovery points: aws backup list-recovery-points-by-backup-vault --backup-vault-name {0}",
        "aws backup delete-backup-vault --backup-vault-name {0}",
    ),
    "AWS::S3::Bucket": ("aws s3 rb s3://{0} --force",),
}


def deletion_commands(retained: Mapping[str, str]) -> list[str]:
    """Return the commands that permanently delete the retained resources of a stack."""
    return [line.format(name) for name, kind in retained.items() for line in _DELETION_COMMANDS[kind]]


def delete_stack(client: "CloudFormationClient", stack: DeployedStack) -> None:
    """Delete a stack and wait until it is deleted; raises Conflict if resources remain."""
    try:
        client.delete_stack(StackName=stack.name)
        client.get_waiter("stack_delete_complete").wait(StackName=stack.name, WaiterConfig={"Delay": 5})
    except WaiterError:
        raise Conflict(
            f"could not delete all resources of {stack.name}: find the reason with `aws cloudformation "
            f"describe-stack-events --stack-name {stack.name}`, then run the same command again"
        ) from None
    except ClientError as error:
        raise to_operator_error(error) from error
