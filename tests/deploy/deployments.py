"""A deployed stack as tests ask it: its outputs, its API, the roles of its functions."""

from collections.abc import Mapping
from dataclasses import dataclass

import boto3
from deltaic_ops.deploy.outputs import StackOutputs, stack_outputs


@dataclass(frozen=True, slots=True)
class Deployment:
    """One deployed stack."""

    outputs: StackOutputs
    api_id: str
    roles: Mapping[str, str]
    """ARN of the role of each function, by the function's logical id."""


def described(stack: str, session: boto3.Session, environment: Mapping[str, str]) -> Deployment:
    """Return a stack that is deployed; raises NotFound."""
    endpoint = environment.get("AWS_ENDPOINT_URL")
    formation = session.client("cloudformation", endpoint_url=endpoint)
    iam = session.client("iam", endpoint_url=endpoint)
    resources = formation.describe_stack_resources(StackName=stack)["StackResources"]
    physical = {said["LogicalResourceId"]: said["PhysicalResourceId"] for said in resources}
    functions = [said["LogicalResourceId"] for said in resources if said["ResourceType"] == "AWS::Lambda::Function"]
    return Deployment(
        outputs=stack_outputs(formation, stack),
        api_id=physical["Api"],
        roles={name: iam.get_role(RoleName=physical[f"{name}Role"])["Role"]["Arn"] for name in functions},
    )
