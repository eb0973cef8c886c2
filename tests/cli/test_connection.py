"""Commands select an AWS and its tables by options, by a running server or by the state folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import boto3
from catalog import schema
from deltaic_ops.cli.aws_selection import GlobalOptions, connection
from deltaic_ops.local.embedded import EmbeddedAws
from deltaic_ops.local.state_folder import announce_server, lock_state

if TYPE_CHECKING:
    import pytest
    from cli.conftest import Deltaic

    Variables = dict[str, str]


def test_options_have_precedence_over_variables(deltaic: Deltaic, embedded_aws: EmbeddedAws, dynamodb: Any) -> None:
    unique = uuid4().hex
    schema.create(dynamodb, f"other-{unique}", f"others-{unique}")
    deltaic.done("share create here")
    deltaic.options = ["--catalog", f"other-{unique}", "--tokens", f"others-{unique}"]
    assert deltaic.json("share list") == []
    deltaic.options += ["--endpoint-url", embedded_aws.endpoint, "--region", "us-east-1"]
    moved = deltaic("share list --json", AWS_ENDPOINT_URL="http://127.0.0.1:9", AWS_REGION="eu-west-1")
    assert json.loads(moved.stdout) == []


def test_a_running_embedded_aws_is_found_by_its_state_folder(
    deltaic: Deltaic, embedded_aws: EmbeddedAws, tmp_path: Path
) -> None:
    variables = {name: deltaic.variables[name] for name in ("CATALOG_TABLE", "TOKENS_TABLE", "DELTAIC_ENDPOINT")}
    deltaic.done("share create here")
    deltaic.variables = {}
    state = tmp_path / ".deltaic"
    with (
        lock_state(state),
        announce_server(state, {**embedded_aws.environment, **variables}),
    ):
        assert [share["name"] for share in deltaic.json("share list")] == ["here"]
        deltaic.done("recipient create alice")
        profile = deltaic.json("token create alice --profile alice.share")
    assert profile["endpoint"] == "https://shares.test/delta-sharing"
    refused = deltaic("share list")
    assert refused.exit_code == 1
    assert "deltaic serve" in refused.stderr


def test_a_command_without_a_running_server_says_how_to_start_it(deltaic: Deltaic, tmp_path: Path) -> None:
    state = tmp_path / "kept"
    with EmbeddedAws(state) as aws:
        over(deltaic, aws).done("share create kept")
    deltaic.variables = {name: deltaic.variables[name] for name in ("CATALOG_TABLE", "TOKENS_TABLE")}
    deltaic.options = ["--state", str(state)]
    refused = deltaic("share list")
    assert refused.exit_code == 1
    assert f"no local server is running in {state}: set" in refused.stderr
    assert "start one: `deltaic serve`" in refused.stderr


def test_the_tables_of_a_deployed_stack_come_from_its_outputs(
    deltaic: Deltaic, embedded_aws: EmbeddedAws, aws_session: boto3.Session
) -> None:
    stack = f"stack-{uuid4().hex[:8]}"
    outputs = {
        "Endpoint": "https://deployed.test/delta-sharing",
        "CatalogTable": deltaic.variables["CATALOG_TABLE"],
        "TokensTable": deltaic.variables["TOKENS_TABLE"],
        "SigningRoleArn": "arn:aws:iam::123456789012:role/signing",
        "TokenKeySecret": "key",
    }
    template = {
        "Parameters": {"IpAddressType": {"Type": "String", "Default": "ipv4"}},
        "Resources": {"Bucket": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": stack}}},
        "Outputs": {name: {"Value": value} for name, value in outputs.items()},
    }
    cloudformation = aws_session.client("cloudformation", endpoint_url=embedded_aws.endpoint)
    cloudformation.create_stack(StackName=stack, TemplateBody=json.dumps(template))
    cloudformation.get_waiter("stack_create_complete").wait(StackName=stack, WaiterConfig={"Delay": 1})
    deltaic.done("recipient create alice")
    deltaic.variables = dict(embedded_aws.environment)
    deltaic.options = ["--stack", stack]
    assert [recipient["name"] for recipient in deltaic.json("recipient list")] == ["alice"]
    assert deltaic.json("token create alice --profile alice.share")["endpoint"] == outputs["Endpoint"]
    lines = "recipient update alice --address 203.0.113.0/24 --address 2001:db8::/32"
    refused = deltaic(lines)
    assert refused.exit_code == 1
    assert "'2001:db8::/32' is an IPv6 network" in refused.stderr
    assert "IpAddressType=dualstack" in refused.stderr
    assert deltaic.json("recipient list")[0]["addresses"] == []
    dual: Any = [{"ParameterKey": "IpAddressType", "ParameterValue": "dualstack"}]
    cloudformation.update_stack(StackName=stack, TemplateBody=json.dumps(template), Parameters=dual)
    cloudformation.get_waiter("stack_update_complete").wait(StackName=stack, WaiterConfig={"Delay": 1})
    assert deltaic.json(lines)["addresses"] == ["203.0.113.0/24", "2001:db8::/32"]
    deltaic.variables |= {"CATALOG_TABLE": "of-another", "TOKENS_TABLE": "of-another"}
    assert [recipient["name"] for recipient in deltaic.json("recipient list")] == ["alice"]
    deltaic.variables |= {"DELTAIC_ENDPOINT": "https://of-another.test/delta-sharing"}
    assert deltaic.json("token create alice --profile again.share")["endpoint"] == outputs["Endpoint"]
    assert outputs["Endpoint"] in deltaic("verify --as alice").output


def test_a_missing_stack_is_refused(deltaic: Deltaic, tmp_path: Path) -> None:
    """Never another one's tables: not those that variables name, and not those of the embedded AWS."""
    deltaic.options = ["--stack", "no-such-stack"]
    for line in ("recipient create eve", "--stack no-such-stack share list"):
        refused = deltaic(line)
        assert refused.exit_code == 1
        assert "there is no stack 'no-such-stack'" in refused.stderr
    state = tmp_path / "state"
    (state / "aws").mkdir(parents=True)
    deltaic.variables = {}
    deltaic.options = ["--state", str(state), "--stack", "no-such-stack"]
    refused = deltaic("recipient create eve")
    assert refused.exit_code == 1
    assert f"no AWS account is configured and no local server is running in {state}: set AWS_PROFILE" in refused.stderr
    assert not list((state / "aws").iterdir())


def test_a_state_folder_without_an_aws_is_named_with_its_full_path(
    nowhere: Deltaic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = nowhere("share list")
    assert refused.exit_code == 1
    assert f"no local server is running in {tmp_path / '.deltaic'}: " in refused.stderr
    assert "--state" in refused.stderr


def test_without_a_stack_the_tables_have_default_names(
    embedded_aws: EmbeddedAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_PROFILE", "CATALOG_TABLE", "DELTAIC_ENDPOINT", "TOKENS_TABLE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in embedded_aws.environment.items():
        monkeypatch.setenv(name, value)
    actual = connection(GlobalOptions(state=tmp_path))
    assert (actual.catalog_table, actual.tokens_table) == ("deltaic-catalog", "deltaic-tokens")
    assert actual.sharing_endpoint == ""


def over(deltaic: Deltaic, aws: EmbeddedAws) -> Deltaic:
    """Point the command at another embedded AWS, with tables of the same names."""
    deltaic.variables |= aws.environment
    client = boto3.client(
        "dynamodb",
        endpoint_url=aws.endpoint,
        region_name="us-east-1",
        aws_access_key_id=aws.environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=aws.environment["AWS_SECRET_ACCESS_KEY"],
    )
    schema.create(client, deltaic.variables["CATALOG_TABLE"], deltaic.variables["TOKENS_TABLE"])
    return deltaic
