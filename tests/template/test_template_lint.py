"""Test the template with SAM, cfn-lint and checkov, without and with all optional parts.

Accepted findings are listed here with a reason. Other findings are failures.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cloudformation import cloudformation, transformed
from deltaic_ops.deploy.sam_template import TEMPLATE
from template_rights import BUCKETS, EVERYTHING

pytestmark = pytest.mark.slow

CHECKOV = ["uv", "tool", "run", "--from", "checkov==3.3.30", "checkov"]  # its dependencies conflict with the lock file
BIN = Path(sys.executable).parent
MODES = {"least": BUCKETS, "most": EVERYTHING}

ACCEPTED_AFTER_TRANSFORM = {
    "W2001": "SAM itself uses GradualDeployment",
    "W7001": "SAM itself uses the mapping",
    "W1020": "SAM changes the names of layers",
    "W1028": "SAM repeats the condition of a route",
    "W1030": "SAM omits TracingConfig if Tracing is Disabled",
}

FUNCTIONS = {"AWS::Lambda::Function"}
ACCEPTED: dict[str, tuple[set[str], str]] = {
    "CKV_AWS_115": (FUNCTIONS, "concurrency is reserved only by parameter, because AWS refuses it in new accounts"),
    "CKV_AWS_116": (FUNCTIONS, "callers wait for the answer; failures of the four other functions raise alarms"),
    "CKV_AWS_117": (
        FUNCTIONS,
        "they use only AWS services; a VPC would need a NAT gateway, which costs money",
    ),
    "CKV_AWS_173": (FUNCTIONS, "the variables are names of resources, and not secret"),
    "CKV_AWS_120": (
        {"AWS::ApiGateway::Stage"},
        "answers are specific to a recipient, and must not outlive a revoked grant",
    ),
    "CKV_AWS_119": ({"AWS::DynamoDB::Table"}, "AWS managed key, unless StateKey is set"),
    "CKV_AWS_149": ({"AWS::SecretsManager::Secret"}, "AWS managed key, unless StateKey is set"),
    "CKV_AWS_158": ({"AWS::Logs::LogGroup"}, "AWS managed key, unless StateKey is set"),
    "CKV_AWS_73": ({"AWS::ApiGateway::Stage"}, "traces cost money: the parameter Tracing enables them"),
    "CKV_AWS_18": ({"AWS::S3::Bucket"}, "it has the code and dataset files of jobs, which only jobs read"),
    "CKV_AWS_27": ({"AWS::SQS::Queue"}, "SQS encrypts it with its key; it has notices with names of expiring items"),
    "CKV_AWS_21": ({"AWS::S3::Bucket"}, "packages are stored by digest of their content, and never overwritten"),
}
WITHOUT_OPTIONS = {"CKV_AWS_119", "CKV_AWS_149", "CKV_AWS_158", "CKV_AWS_73"}
"""Findings that a parameter resolves."""


def run(*command: str | Path) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "SAM_CLI_TELEMETRY": "0", "BC_SKIP_MAPPING": "TRUE"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_sam_accepts_the_template() -> None:
    process = run(BIN / "sam", "validate", "--lint", "--region", "us-east-1", "-t", TEMPLATE)
    assert process.returncode == 0, process.stdout + process.stderr


# In CI, test_sam_accepts_the_template checks the values of the smallest stack before the transform.
@pytest.mark.parametrize("mode", [pytest.param("least", marks=pytest.mark.long), "most"])
def test_cloudformation_accepts_the_transformed_template(tmp_path: Path, mode: str) -> None:
    file = tmp_path / f"{mode}.json"
    file.write_text(json.dumps(cloudformation(parameters=MODES[mode])))
    process = run(BIN / "cfn-lint", "-r", "us-east-1", "-i", *ACCEPTED_AFTER_TRANSFORM, "--", file)
    assert process.returncode == 0, process.stdout + process.stderr


def test_checkov_has_only_accepted_findings(tmp_path: Path) -> None:
    if shutil.which("uv") is None and "CI" not in os.environ:
        pytest.skip("checkov needs uv")
    for mode, parameters in MODES.items():
        resources = {"AWSTemplateFormatVersion": "2010-09-09", "Resources": transformed(parameters=parameters)}
        (tmp_path / f"{mode}.json").write_text(json.dumps(resources))
    process = run(*CHECKOV, "--framework", "cloudformation", "--quiet", "--compact", "-o", "json", "-d", tmp_path)
    assert process.stdout.startswith("{"), f"checkov could not be installed: {process.stderr[-1000:]}"
    report: dict[str, Any] = json.loads(process.stdout)
    assert report["summary"]["passed"] > 300
    assert report["summary"]["parsing_errors"] == 0
    findings = {
        mode: {
            (check["check_id"], check["resource"].split(".")[0])
            for check in report["results"]["failed_checks"]
            if check["file_path"] == f"/{mode}.json"
        }
        for mode in MODES
    }
    accepted = {
        (check, resource_type) for check, (resource_types, _) in ACCEPTED.items() for resource_type in resource_types
    }
    assert findings["least"] | findings["most"] == accepted
    assert not {check for check, _ in findings["most"]} & WITHOUT_OPTIONS
