"""The template, built and deployed by the SAM CLI, against whatever AWS the environment names.

The layer is built for the processor and the Python of the functions; an emulator that runs functions with this
machine's interpreter needs this machine's.
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
    """The SAM CLI failed; the message ends with what it said."""


@dataclass(frozen=True, slots=True)
class BuildTarget:
    """What the layer is built for; `python` is `major.minor`."""

    architecture: Architecture = "arm64"
    python: str = "3.13"

    @classmethod
    def this_machine(cls) -> "BuildTarget":
        """Return the processor and the Python that run this code."""
        architecture: Architecture = "x86_64" if platform.machine() in ("x86_64", "AMD64") else "arm64"
        return cls(architecture, f"{sys.version_info.major}.{sys.version_info.minor}")


def build(folder: Path, target: BuildTarget) -> Path:
    """Run `sam build` into the folder and return it; raises SamError. No Python of the target's version is needed."""
    _sam(
        "build",
        *("--template", str(TEMPLATE), "--base-dir", str(ROOT), "--build-dir", str(folder)),
        *("--parameter-overrides", f"Architecture={target.architecture}"),
        environment={"LAYER_ARCHITECTURE": target.architecture, "LAYER_PYTHON": target.python},
    )
    return folder


def package(built: Path, bucket: str, environment: Mapping[str, str]) -> Path:
    """Run `sam package` on what `build` made: code is uploaded, and the template that names it returned."""
    packaged = built / "packaged.yaml"
    _sam(
        "package",
        *("--template-file", str(built / "template.yaml"), "--s3-bucket", bucket),
        *("--output-template-file", str(packaged), "--no-progressbar"),
        environment=environment,
    )
    return packaged


def deploy(
    built: Path,
    stack: str,
    parameters: Mapping[str, str],
    environment: Mapping[str, str],
    *,
    bucket: str = "",
) -> None:
    """Run `sam deploy` on what `build` made; raises SamError.

    `environment` are the ordinary AWS variables that SAM is given, instead of this process's where they name an AWS
    that is not AWS's own. Code is uploaded to `bucket`, else to SAM's own.
    """
    _sam(
        "deploy",
        *("--template-file", str(built / "template.yaml"), "--stack-name", stack),
        *(("--s3-bucket", bucket) if bucket else ("--resolve-s3",)),
        *("--capabilities", "CAPABILITY_IAM", "--no-confirm-changeset", "--no-progressbar"),
        "--no-fail-on-empty-changeset",
        *("--parameter-overrides", *(f"{name}={value}" for name, value in parameters.items())),
        environment=environment,
    )


def _sam(*arguments: str, environment: Mapping[str, str]) -> None:
    # What is meant for an emulator must not reach AWS by a variable that somebody has set for other work.
    elsewhere = "AWS_ENDPOINT_URL" in environment
    own = {name: value for name, value in os.environ.items() if not (elsewhere and name.startswith("AWS_"))}
    try:
        run = subprocess.run(
            [str(SAM), *arguments],
            env={"AWS_DEFAULT_REGION": "us-east-1", **own, **environment, "SAM_CLI_TELEMETRY": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SamError(f"`sam {arguments[0]}` has not ended after {_TIMEOUT_SECONDS} seconds") from None
    if run.returncode != 0:
        raise SamError(f"`sam {arguments[0]}` failed:\n{run.stdout[-3000:]}\n{run.stderr[-3000:]}")


_BASIC_EXECUTION = "AWSLambdaBasicExecutionRole"


def translated(document: dict[str, Any], parameters: Mapping[str, str]) -> dict[str, Any]:
    """Return a packaged template after SAM's transform, nothing resolved.

    Raises samtranslator's InvalidDocumentException for what SAM refuses.
    """
    import boto3
    from samtranslator.parser.parser import Parser
    from samtranslator.translator.translator import Translator

    # SAM warns about usage metrics of its own that nobody publishes.
    logging.getLogger("samtranslator").setLevel(logging.ERROR)
    session = boto3.Session(region_name=REGION)
    policies = {_BASIC_EXECUTION: f"arn:aws:iam::aws:policy/service-role/{_BASIC_EXECUTION}"}
    translator = Translator(policies, Parser(), boto_session=session)
    values = {**pseudo_parameters(), **parameters}
    made: dict[str, Any] = translator.translate(document, parameter_values=values)
    return made
