"""Bundle third-party JavaScript for the web page at /explore: a Parquet reader, a Parquet writer and codecs.

uv run python -m supply.explore_bundle

npm fetches exactly what package-lock.json names, checks each package's hash and runs no install scripts. esbuild then
bundles what the page uses into one module, which begins with the packages' licences.
"""

import json
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent.parent / "vendored"
LOCK = FOLDER / "package-lock.json"
BUNDLE = FOLDER.parent.parent / "functions" / "explore" / "files" / "vendored.js"
PRODUCT = "explore"
UNUSED = {"hysnappy"}
"""Packages in package-lock.json that are not bundled: WebAssembly, which the page's content security policy blocks."""


class VendoredPackage(NamedTuple):
    """An npm package in the bundle."""

    name: str
    version: str
    licence: str


def packages() -> list[VendoredPackage]:
    """Return the packages in the bundle with their versions from package-lock.json."""
    locked = json.loads(LOCK.read_text(encoding="utf-8"))["packages"]
    return [
        VendoredPackage(path.removeprefix("node_modules/"), entry["version"], entry["license"])
        for path, entry in sorted(locked.items())
        if path and not entry.get("dev") and path.removeprefix("node_modules/") not in UNUSED
    ]


def banner() -> str:
    """Return the first lines of the bundle: its packages, and the hash of package-lock.json."""
    names = ", ".join(f"{package.name} {package.version} ({package.licence})" for package in packages())
    digest = sha256(LOCK.read_bytes()).hexdigest()
    return f"/* Built by `uv run python -m supply.explore_bundle` from {names};\n   lock {digest}. */"


def build() -> None:
    """Download the packages and write the bundle; raises CalledProcessError if npm or esbuild fails."""
    subprocess.run(["npm", "ci", "--ignore-scripts", "--no-fund", "--no-audit"], cwd=FOLDER, check=True)
    modules = FOLDER / "node_modules"
    licences = {(modules / package.name / "LICENSE").read_text(encoding="utf-8").strip() for package in packages()}
    notice = "\n\n".join(["/*", *sorted(licences), "*/"])
    esbuild = ["npx", "--no-install", "esbuild", "index.js", "--bundle", "--format=esm", "--target=es2022"]
    subprocess.run([*esbuild, f"--banner:js={banner()}\n{notice}", f"--outfile={BUNDLE}"], cwd=FOLDER, check=True)


if __name__ == "__main__":
    build()
