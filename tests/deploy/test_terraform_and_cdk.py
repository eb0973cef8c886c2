"""Test the page on Terraform and CDK with their tools: blocks are valid, and their names exist."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import boto3
import pytest
from catalog import schema
from cloudformation import packaged
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.dynamo import Dynamo
from deltaic_ops.deploy.intrinsics import read
from deltaic_ops.deploy.sam import translate
from deltaic_ops.deploy.sam_template import ROOT, TEMPLATE
from deltaic_ops.local.embedded import EmbeddedAws

PAGE = (ROOT / "docs" / "terraform-and-cdk.md").read_text(encoding="utf-8")
BIN = Path(sys.executable).parent
CDK = "aws-cdk-lib==2.275.0"
SCHEMA = ["uv", "tool", "run", "check-jsonschema@0.38.0", "--builtin-schema", "vendor.github-workflows"]
SHARES = "shares:\n  from_files:\n    comment: by Terraform\n    schemas:\n      s:\n"
RECIPIENTS = "recipients:\n  alice:\n    grants:\n      from_files:\n"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def block(language: str, keyword: str) -> str:
    [match] = [text for text in blocks(language) if keyword in text]
    return match


def require_tool(tool: str) -> None:
    if shutil.which(tool) is None and "CI" not in os.environ:
        pytest.skip(f"there is no {tool} here")


def run(*command: str, folder: Path, **extra: str) -> str:
    variables = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "CHECKPOINT_DISABLE": "1", **extra}
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("text", blocks("hcl"))
def test_terraform_block_is_valid_and_formatted(text: str, tmp_path: Path) -> None:
    require_tool("terraform")
    (tmp_path / "main.tf").write_text(text)
    assert run("terraform", "fmt", "-diff", folder=tmp_path) == ""


def test_parameters_of_the_stack_exist_in_the_template() -> None:
    text = block("hcl", "aws_cloudformation_stack").partition("parameters = {")[2].partition("}")[0]
    names = set(re.findall(r"^ +(\w+) +=", text, re.MULTILINE))
    assert names
    assert names <= read(TEMPLATE)["Parameters"].keys()


@pytest.mark.slow
def test_terraform_applies_files_with_the_rights_on_the_page(
    tmp_path: Path, embedded_aws: EmbeddedAws, aws_session: boto3.Session
) -> None:
    require_tool("terraform")
    for name, text in (("files", "shares/from_files.yaml"), ("rights", "")):
        (tmp_path / name / Path(text).parent).mkdir(parents=True)
    rights = tmp_path / "rights"
    (rights / "rights.tf").write_text(block("hcl", "rights = {") + 'output "rights" { value = local.rights }\n')
    run("terraform", "init", folder=rights)
    run("terraform", "apply", "-auto-approve", folder=rights)
    policy = run("terraform", "output", "-json", "rights", folder=rights)
    at = embedded_aws.endpoint
    iam, dynamodb = aws_session.client("iam", endpoint_url=at), aws_session.client("dynamodb", endpoint_url=at)
    catalog, tokens = "deltaic-prod-catalog", "deltaic-prod-tokens"
    schema.create(dynamodb, catalog, tokens)
    anybody = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}
    role = iam.create_role(
        RoleName="deltaic-prod-shares",
        AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [anybody]}),
    )["Role"]["Arn"]
    iam.put_role_policy(RoleName="deltaic-prod-shares", PolicyName="rights", PolicyDocument=policy)
    session = aws_session.client("sts", endpoint_url=at).assume_role(RoleArn=role, RoleSessionName="pipeline")[
        "Credentials"
    ]
    environment = {
        **embedded_aws.environment,
        "CATALOG_TABLE": catalog,
        "TOKENS_TABLE": tokens,
        "AWS_ACCESS_KEY_ID": session["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": session["SecretAccessKey"],
        "AWS_SESSION_TOKEN": session["SessionToken"],
    }
    files = tmp_path / "files"
    (files / "main.tf").write_text(block("hcl", "terraform_data"))
    (files / "shares" / "from_files.yaml").write_text(SHARES)
    (files / "shares" / "recipients.yaml").write_text(RECIPIENTS)
    run("terraform", "init", folder=files)
    run("terraform", "validate", folder=files)
    run("terraform", "apply", "-auto-approve", folder=files, **environment)
    admin = CatalogAdmin(catalog, tokens, Dynamo(lambda: dynamodb))
    assert [item.comment for item in admin.shares.list()] == ["by Terraform"]
    assert [item.share for item in admin.grants.of_share("from_files")] == ["from_files"]
    assert "0 added, 0 changed" in run("terraform", "apply", "-auto-approve", folder=files, **environment)
    (files / "shares" / "recipients.yaml").write_text("recipients: {}\n")
    run("terraform", "apply", "-auto-approve", folder=files, **environment)
    assert list(admin.recipients.list()) == []
    run("deltaic", "drift", "shares", folder=files, **environment)


def test_cdk_program_includes_all_functions_and_parameters_of_the_template() -> None:
    text = block("python", "CfnInclude").partition("parameters = ")[2].partition("\n")[0]
    parameters: dict[str, str] = ast.literal_eval(text)
    template = translate(packaged(read(TEMPLATE)), parameters)
    assert {"QueryTable", "FollowTables"} <= functions_of(template)
    assert parameters.keys() <= template["Parameters"].keys()
    assert "Endpoint" in template["Outputs"]


def functions_of(template: Mapping[str, Any]) -> set[str]:
    resources = template["Resources"].items()
    return {name for name, resource in resources if resource["Type"] == "AWS::Lambda::Function"}


# The test above does the same without CDK, whose installation and start take most of the time.
@pytest.mark.long
@pytest.mark.slow
def test_cdk_creates_the_packaged_template(tmp_path: Path) -> None:
    require_tool("node")
    (tmp_path / "packaged.yaml").write_text(json.dumps(packaged(read(TEMPLATE))))
    (tmp_path / "app.py").write_text(block("python", "CfnInclude"))
    run("uv", "run", "--no-sync", "--project", str(ROOT), "--with", CDK, "python", "app.py", folder=tmp_path,
        CDK_OUTDIR=str(tmp_path / "out"), JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION="1",
        JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION="1")  # fmt: skip
    template: Mapping[str, Any] = json.loads((tmp_path / "out" / "deltaic-prod.template.json").read_text())
    assert {"QueryTable", "FollowTables"} <= functions_of(template)
    values = {name: template["Parameters"][name]["Default"] for name in ("Stage", "DataBuckets", "Follow")}
    assert values == {"Stage": "prod", "DataBuckets": "arn:aws:s3:::lake", "Follow": "enabled"}
    assert "Endpoint" in template["Outputs"]


@pytest.mark.slow
def test_workflow_matches_the_schema_of_github(tmp_path: Path) -> None:
    require_tool("uv")
    (tmp_path / "shares.yml").write_text(block("yaml", "id-token"))
    run(*SCHEMA, "shares.yml", folder=tmp_path)
