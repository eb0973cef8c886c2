"""What CloudFormation says of a stack: how it was deployed, what it made, and out of which packages."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError
from deltaic.catalog.aws_errors import refused
from deltaic.errors import NotFound

from deltaic_ops.doctor.findings import Finding, judged

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient

_AT_REST = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE")


@dataclass(frozen=True, slots=True)
class Stack:
    """One deployed stack."""

    name: str
    status: str
    parameters: Mapping[str, str]
    outputs: Mapping[str, str]
    resources: Mapping[str, str]
    """Physical ids by logical ids."""

    packages: Mapping[str, tuple[str, str]]
    """Bucket and key of the code of each function and layer, by logical id."""

    def list_of(self, parameter: str) -> list[str]:
        """Return the values of a parameter that is a list."""
        return [part.strip() for part in self.parameters.get(parameter, "").split(",") if part.strip()]


def read_stack(client: "CloudFormationClient", name: str) -> Stack:
    """Return what is known of a stack; raises NotFound where there is none, else what the catalog raises of AWS."""
    try:
        [said] = client.describe_stacks(StackName=name)["Stacks"]
        pages = client.get_paginator("list_stack_resources").paginate(StackName=name)
        resources = {
            one["LogicalResourceId"]: one.get("PhysicalResourceId", "")
            for page in pages
            for one in page["StackResourceSummaries"]
        }
        template: Any = client.get_template(StackName=name, TemplateStage="Processed")["TemplateBody"]
    except ClientError as error:
        if error.response["Error"].get("Code") != "ValidationError":
            raise refused(error) from error
        raise NotFound(f"there is no stack '{name}' in this account and region") from error
    except BotoCoreError as error:
        raise refused(error) from error
    return Stack(
        name=name,
        status=str(said["StackStatus"]),
        parameters={one["ParameterKey"]: one.get("ParameterValue", "") for one in said.get("Parameters", [])},
        outputs={one["OutputKey"]: one["OutputValue"] for one in said.get("Outputs", [])},
        resources=resources,
        packages=dict(_packages(template if isinstance(template, Mapping) else {}, resources)),
    )


def _packages(template: Mapping[str, Any], resources: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, str]]]:
    for logical_id, resource in template.get("Resources", {}).items():
        said = resource.get("Properties", {})
        code = said.get("Code") or said.get("Content")
        if logical_id in resources and isinstance(code, Mapping) and "S3Bucket" in code and "S3Key" in code:
            yield logical_id, (str(code["S3Bucket"]), str(code["S3Key"]))


def deployed(stack: Stack) -> Finding:
    """Check that the last deployment is over and was not taken back."""
    return judged(
        "the stack stands",
        f"{stack.name}: {stack.status}",
        f"what went wrong: aws cloudformation describe-stack-events --stack-name {stack.name}; then deploy again",
        holds=stack.status in _AT_REST,
        otherwise="warning" if stack.status == "UPDATE_ROLLBACK_COMPLETE" else "failed",
    )
