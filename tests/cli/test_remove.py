"""A stack is removed only after confirmation; its tables and its key are kept with their content."""

import json
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from cli.conftest import Deltaic
from deltaic_ops.deploy.deployed_stack import deletion_commands
from deltaic_ops.deploy.intrinsics import read
from deltaic_ops.deploy.sam_template import TEMPLATE
from deltaic_ops.local.embedded import EmbeddedAws

STACK = "deltaic-removetest"
NAMES = ["deltaic-removetest-catalog", "deltaic-removetest-tokens"]
RESOURCES = ("Catalog", "Tokens", "TokenKey", "EndpointsLog")
"""Resources of the template: those with state, and one without."""


@pytest.fixture
def formation(aws_session: boto3.Session, embedded_aws: EmbeddedAws) -> Any:
    return aws_session.client("cloudformation", endpoint_url=embedded_aws.endpoint)


@pytest.fixture
def deltaic(formation: Any, embedded_aws: EmbeddedAws) -> Deltaic:
    """Return the command over a stack of some of the template's resources."""
    document = read(TEMPLATE)
    template = {
        "Parameters": document["Parameters"],
        "Conditions": document["Conditions"],
        "Resources": {name: document["Resources"][name] for name in RESOURCES},
        "Outputs": {name: document["Outputs"][name] for name in ("CatalogTable", "TokensTable", "TokenKeySecret")},
    }
    values = {"Stage": "removetest", "DataBuckets": "arn:aws:s3:::lake"}
    parameters = [{"ParameterKey": name, "ParameterValue": value} for name, value in values.items()]
    formation.create_stack(StackName=STACK, TemplateBody=json.dumps(template), Parameters=parameters)
    formation.get_waiter("stack_create_complete").wait(StackName=STACK, WaiterConfig={"Delay": 1})
    variables = {"CATALOG_TABLE": NAMES[0], "TOKENS_TABLE": NAMES[1], "DELTAIC_STACK": STACK}
    return Deltaic({**embedded_aws.environment, **variables})


def test_remove_deletes_a_stack_and_keeps_its_state(
    deltaic: Deltaic, formation: Any, aws_session: boto3.Session, embedded_aws: EmbeddedAws
) -> None:
    deltaic.done("share create kept_share")
    refused = deltaic("remove")
    assert (refused.exit_code, "use --yes" in refused.output) == (1, True)
    assert f"keeps {NAMES[0]}, {NAMES[1]}, deltaic/removetest/token-key, and all data" in refused.output
    assert formation.describe_stacks(StackName=STACK)["Stacks"][0]["StackStatus"] == "CREATE_COMPLETE"

    result = deltaic.json("remove --yes")
    with pytest.raises(ClientError, match="does not exist"):
        formation.describe_stacks(StackName=STACK)
    logs = aws_session.client("logs", endpoint_url=embedded_aws.endpoint)
    assert logs.describe_log_groups(logGroupNamePrefix="/deltaic/removetest/")["logGroups"] == []
    assert [share["name"] for share in deltaic.json("share list")] == ["kept_share"]
    secrets = aws_session.client("secretsmanager", endpoint_url=embedded_aws.endpoint)
    assert [name for name in result["kept"] if "token-key" in name]
    assert "DeletedDate" not in secrets.describe_secret(SecretId="deltaic/removetest/token-key")
    assert f"aws dynamodb update-table --table-name {NAMES[0]} --no-deletion-protection-enabled" in result["deletions"]
    assert f"aws dynamodb delete-table --table-name {NAMES[1]}" in result["deletions"]
    # The deletion commands are in a working order: the table's protection must be removed first.
    dynamodb = aws_session.client("dynamodb", endpoint_url=embedded_aws.endpoint)
    with pytest.raises(ClientError, match="rotect"):
        dynamodb.delete_table(TableName=NAMES[0])
    dynamodb.update_table(TableName=NAMES[0], DeletionProtectionEnabled=False)
    dynamodb.delete_table(TableName=NAMES[0])

    missing = deltaic("remove --yes")
    assert (missing.exit_code, f"there is no stack '{STACK}'" in missing.output) == (1, True)


def test_a_foreign_stack_is_not_deleted(formation: Any, embedded_aws: EmbeddedAws) -> None:
    template = {"Resources": {"Log": {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": "/somebody/else"}}}}
    formation.create_stack(StackName="somebody-else", TemplateBody=json.dumps(template))
    formation.get_waiter("stack_create_complete").wait(StackName="somebody-else", WaiterConfig={"Delay": 1})
    command = Deltaic({**embedded_aws.environment, "DELTAIC_STACK": "somebody-else"})
    refused = command("remove --yes")
    assert (refused.exit_code, "is not a Deltaic stack" in refused.output) == (1, True)
    assert formation.describe_stacks(StackName="somebody-else")["Stacks"][0]["StackStatus"] == "CREATE_COMPLETE"
    examined = command("doctor")
    assert "FAILED the stack is deployed stack 'somebody-else' is not a Deltaic stack" in examined.output


def test_remove_lists_deletion_commands_for_all_retained_resources() -> None:
    retained = {
        logical_id: resource["Type"]
        for logical_id, resource in read(TEMPLATE)["Resources"].items()
        if resource.get("DeletionPolicy", "Delete") != "Delete"
    }
    assert {"Catalog", "Tokens", "TokenKey"} <= set(retained)
    commands = deletion_commands(retained)
    assert all(any(f" {name} " in f"{line} " or f"//{name} " in line for line in commands) for name in retained), (
        commands
    )
