"""Describe a deployed stack for tests: its outputs, its API, the roles of its functions."""

from collections.abc import Mapping
from dataclasses import dataclass

import boto3
from deltaic_ops.deploy.outputs import StackOutputs, stack_outputs


@dataclass(frozen=True, slots=True)
class Deployment:
    """A deployed stack."""

    outputs: StackOutputs
    api_id: str
    roles: Mapping[str, str]
    """ARN of the role of each function, by the function's logical id."""


def describe_deployment(stack: str, session: boto3.Session, environment: Mapping[str, str]) -> Deployment:
    """Return the description of a deployed stack; raises NotFound."""
    endpoint = environment.get("AWS_ENDPOINT_URL")
    formation = session.client("cloudformation", endpoint_url=endpoint)
    iam = session.client("iam", endpoint_url=endpoint)
    resources = formation.describe_stack_resources(StackName=stack)["StackResources"]
    physical = {resource["LogicalResourceId"]: resource["PhysicalResourceId"] for resource in resources}
    functions = [
        resource["LogicalResourceId"] for resource in resources if resource["ResourceType"] == "AWS::Lambda::Function"
    ]
    return Deployment(
        outputs=stack_outputs(formation, stack),
        api_id=physical["Api"],
        roles={name: iam.get_role(RoleName=physical[f"{name}Role"])["Role"]["Arn"] for name in functions},
    )
