"""What SAM, CloudFormation's linter and checkov say of the template, with nothing optional and with everything.

What they find and we leave stands here with its reason, and nothing else may be found.
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

CHECKOV = ["uv", "tool", "run", "--from", "checkov==3.3.30", "checkov"]  # its dependencies clash with the lock's
BIN = Path(sys.executable).parent
MODES = {"least": BUCKETS, "most": EVERYTHING}

OF_THE_TRANSFORM = {
    "W2001": "SAM has used GradualDeployment itself",
    "W7001": "SAM has used the mapping itself",
    "W1020": "SAM writes names of layers in its own way",
    "W1028": "SAM asks again for the condition of a route within what has it",
    "W1030": "SAM leaves TracingConfig out where Tracing is Disabled",
}

FUNCTIONS = {"AWS::Lambda::Function"}
LEFT: dict[str, tuple[set[str], str]] = {
    "CKV_AWS_115": (FUNCTIONS, "nothing is reserved unless asked for: AWS refuses that to a new account"),
    "CKV_AWS_116": (FUNCTIONS, "a caller waits for the answer of each but four, whose failures raise alarms"),
    "CKV_AWS_117": (
        FUNCTIONS,
        "they speak to AWS's own services only; a network of one's own would cost a NAT gateway",
    ),
    "CKV_AWS_173": (FUNCTIONS, "the variables are names of resources; nothing in them is secret"),
    "CKV_AWS_120": ({"AWS::ApiGateway::Stage"}, "answers are a recipient's own and must not outlive a revoked grant"),
    "CKV_AWS_119": ({"AWS::DynamoDB::Table"}, "AWS's own key, unless StateKey names one"),
    "CKV_AWS_149": ({"AWS::SecretsManager::Secret"}, "AWS's own key, unless StateKey names one"),
    "CKV_AWS_158": ({"AWS::Logs::LogGroup"}, "AWS's own key, unless StateKey names one"),
    "CKV_AWS_73": ({"AWS::ApiGateway::Stage"}, "traces are billed by the trace: Tracing asks for them"),
    "CKV_AWS_18": ({"AWS::S3::Bucket"}, "it holds the jobs' own code and dataset files, which jobs alone read"),
    "CKV_AWS_27": ({"AWS::SQS::Queue"}, "SQS encrypts it with its own key; it holds notices, which name what ends"),
    "CKV_AWS_21": ({"AWS::S3::Bucket"}, "packages lie under the digest of their content; nothing is written over"),
}
WITHOUT_OPTIONS = {"CKV_AWS_119", "CKV_AWS_149", "CKV_AWS_158", "CKV_AWS_73"}
"""What a parameter puts right."""


def run(*command: str | Path) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "SAM_CLI_TELEMETRY": "0", "BC_SKIP_MAPPING": "TRUE"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_sam_accepts_the_template() -> None:
    ran = run(BIN / "sam", "validate", "--lint", "--region", "us-east-1", "-t", TEMPLATE)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_cloudformation_accepts_what_sam_makes_of_it(tmp_path: Path) -> None:
    for mode, parameters in MODES.items():
        (tmp_path / f"{mode}.json").write_text(json.dumps(cloudformation(parameters=parameters)))
    ran = run(BIN / "cfn-lint", "-r", "us-east-1", "-i", *OF_THE_TRANSFORM, "--", *sorted(tmp_path.iterdir()))
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_checkov_finds_what_is_left_with_a_reason_and_nothing_else(tmp_path: Path) -> None:
    if shutil.which("uv") is None and "CI" not in os.environ:
        pytest.skip("checkov is had through uv")
    for mode, parameters in MODES.items():
        resources = {"AWSTemplateFormatVersion": "2010-09-09", "Resources": transformed(parameters=parameters)}
        (tmp_path / f"{mode}.json").write_text(json.dumps(resources))
    ran = run(*CHECKOV, "--framework", "cloudformation", "--quiet", "--compact", "-o", "json", "-d", tmp_path)
    assert ran.stdout.startswith("{"), f"checkov could not be had: {ran.stderr[-1000:]}"
    report: dict[str, Any] = json.loads(ran.stdout)
    assert report["summary"]["passed"] > 300
    assert report["summary"]["parsing_errors"] == 0
    found = {
        mode: {
            (one["check_id"], one["resource"].split(".")[0])
            for one in report["results"]["failed_checks"]
            if one["file_path"] == f"/{mode}.json"
        }
        for mode in MODES
    }
    left = {(check, kind) for check, (kinds, _) in LEFT.items() for kind in kinds}
    assert found["least"] | found["most"] == left
    assert not {check for check, _ in found["most"]} & WITHOUT_OPTIONS
