"""The products that are shipped, and what the lock puts into each."""

import json
import subprocess
import sys
from typing import Any

from deltaic_ops.deploy.template import ROOT

PRODUCTS = {
    "layer": ("--only-group", "layer"),
    "deltalake-layer": ("--only-group", "checkpoint"),
    "conformance": ("--package", "delta-sharing-conformance", "--no-emit-project"),
    "wheel": ("--no-default-groups", "--extra", "pipeline", "--no-emit-project"),
}
"""Options of `uv export` by product: both Lambda layers, what the kit and the wheel's commands and jobs run with."""


def bill(product: str) -> dict[str, Any]:
    """Return a product's bill of materials as uv makes it of the lock: CycloneDX, without licences."""
    run = subprocess.run(
        [
            "uv",
            "export",
            "--frozen",
            "--quiet",
            *PRODUCTS[product],
            "--format",
            "cyclonedx1.5",
            "--preview-features",
            "sbom-export",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if run.returncode != 0:
        sys.exit(f"`uv export` failed:\n{run.stderr}")
    made: dict[str, Any] = json.loads(run.stdout)
    return made
