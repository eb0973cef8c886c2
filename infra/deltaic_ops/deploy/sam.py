"""Build and deploy the template with the SAM CLI, on AWS or an emulator.

The layer is built for the processor and Python version of the functions. If an emulator runs functions with this
machine's interpreter, the layer must be built for the processor and Python version of this machine.
"""

import logging
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from deltaic_ops.deploy.emulated_account import REGION
from deltaic_ops.deploy.intrinsics import pseudo_parameters
from deltaic_ops.deploy.sam_template import ROOT, TEMPLATE

Architecture = Literal["arm64", "x86_64"]
SAM = Path(sys.executable).parent / "sam"
_TIMEOUT_SECONDS = 900


class SamError(RuntimeError):
    """The SAM CLI failed; the message ends with its output."""


@dataclass(frozen=True, slots=True)
class BuildTarget:
    """Processor architecture and Python version (`major.minor`) for which the layer is built."""

    architecture: Architecture = "arm64"
    python: str = "3.13"

    @classmethod
    def this_machine(cls) -> "BuildTarget":
        """Return the processor and Python version of this machine."""
        architecture: Architecture = "x86_64" if platform.machine() in ("x86_64", "AMD64") else "arm64"
        return cls(architecture, f"{sys.version_info.major}.{sys.version_info.minor}")


def build(folder: Path, target: BuildTarget) -> Path:
    """Run `sam build` into a folder, which does not require the target's Python; raises SamError."""
    _sam(
        "build",
        *("--template", str(TEMPLATE), "--base-dir", str(ROOT), "--build-dir", str(folder)),
        *("--parameter-overrides", f"Architecture={target.architecture}"),
        environment={"LAYER_ARCHITECTURE": target.architecture, "LAYER_PYTHON": target.python},
    )
    return folder


def package(build_folder: Path, bucket: str, environment: Mapping[str, str]) -> Path:
    """Upload the built code with `sam package`, and return the path of the packaged template; raises SamError."""
    packaged = build_folder / "packaged.yaml"
    _sam(
        "package",
        *("--template-file", str(build_folder / "template.yaml"), "--s3-bucket", bucket),
        *("--output-template-file", str(packaged), "--no-progressbar"),
        environment=environment,
    )
    return packaged


def deploy(
    build_folder: Path,
    stack: str,
    parameters: Mapping[str, str],
    environment: Mapping[str, str],
    *,
    bucket: str = "",
) -> None:
    """Deploy a built template as a stack with `sam deploy`; raises SamError.

    `environment` has the AWS variables for SAM. If they select an emulator, they replace all AWS variables of this
    process. SAM uploads code to `bucket`, or by default to its own bucket.
    """
    _sam(
        "deploy",
        *("--template-file", str(build_folder / "template.yaml"), "--stack-name", stack),
        *(("--s3-bucket", bucket) if bucket else ("--resolve-s3",)),
        *("--capabilities", "CAPABILITY_IAM", "--no-confirm-changeset", "--no-progressbar"),
        "--no-fail-on-empty-changeset",
        *("--parameter-overrides", *(f"{name}={value}" for name, value in parameters.items())),
        environment=environment,
    )


def _sam(*arguments: str, environment: Mapping[str, str]) -> None:
    # A deployment to an emulator must not reach AWS through variables that are set for other work.
    has_endpoint = "AWS_ENDPOINT_URL" in environment
    inherited = {name: value for name, value in os.environ.items() if not (has_endpoint and name.startswith("AWS_"))}
    try:
        result = subprocess.run(
            [str(SAM), *arguments],
            env={"AWS_DEFAULT_REGION": "us-east-1", **inherited, **environment, "SAM_CLI_TELEMETRY": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SamError(f"`sam {arguments[0]}` did not finish within {_TIMEOUT_SECONDS} seconds") from None
    if result.returncode != 0:
        raise SamError(f"`sam {arguments[0]}` failed:\n{result.stdout[-3000:]}\n{result.stderr[-3000:]}")


_BASIC_EXECUTION = "AWSLambdaBasicExecutionRole"


def translate(document: dict[str, Any], parameters: Mapping[str, str]) -> dict[str, Any]:
    """Apply SAM's transform to a packaged template, without resolving intrinsic functions.

    Raises samtranslator's InvalidDocumentException if SAM rejects the template.
    """
    import boto3
    from samtranslator.parser.parser import Parser
    from samtranslator.translator.translator import Translator

    # SAM warns that its usage metrics are not published.
    logging.getLogger("samtranslator").setLevel(logging.ERROR)
    session = boto3.Session(region_name=REGION)
    policies = {_BASIC_EXECUTION: f"arn:aws:iam::aws:policy/service-role/{_BASIC_EXECUTION}"}
    translator = Translator(policies, Parser(), boto_session=session)
    values = {**pseudo_parameters(), **parameters}
    template: dict[str, Any] = translator.translate(document, parameter_values=values)
    return template
