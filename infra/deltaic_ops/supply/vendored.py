"""Makes the one file that the page at /explore has of others: a Parquet reader, a writer, codecs, by a lock of npm.

uv run python -m deltaic_ops.supply.vendored

npm fetches exactly what infra/vendored/package-lock.json names, checks each package's hash and runs none of their
scripts; esbuild then puts what is used into one module, with the packages' licences at its head.
"""

import json
import subprocess
from hashlib import sha256
from typing import NamedTuple

from deltaic_ops.deploy.template import ROOT

FOLDER = ROOT / "infra" / "vendored"
LOCK = FOLDER / "package-lock.json"
MADE = ROOT / "functions" / "explore" / "files" / "vendored.js"
PRODUCT = "explore"
UNUSED = {"hysnappy"}
"""WebAssembly, which the page's policy does not let in: named by the lock, and not put into the file."""


class Package(NamedTuple):
    """A package that is put into the file."""

    name: str
    version: str
    licence: str


def packages() -> list[Package]:
    """Return what the lock puts into the file."""
    locked = json.loads(LOCK.read_text(encoding="utf-8"))["packages"]
    named = ((path.removeprefix("node_modules/"), one) for path, one in locked.items() if path)
    return [
        Package(name, one["version"], one["license"])
        for name, one in sorted(named)
        if not one.get("dev") and name not in UNUSED
    ]


def head() -> str:
    """Return the first lines of the file: the lock that it was made by, its packages."""
    named = ", ".join(f"{one.name} {one.version} ({one.licence})" for one in packages())
    locked = sha256(LOCK.read_bytes()).hexdigest()
    return f"/* Made by `uv run python -m deltaic_ops.supply.vendored` of {named};\n   lock {locked}. */"


def make() -> None:
    """Fetch, check and write; raises CalledProcessError with npm's or esbuild's own words before it."""
    subprocess.run(["npm", "ci", "--ignore-scripts", "--no-fund", "--no-audit"], cwd=FOLDER, check=True)
    texts = {(FOLDER / "node_modules" / one.name / "LICENSE").read_text(encoding="utf-8").strip() for one in packages()}
    told = "\n\n".join(["/*", *sorted(texts), "*/"])
    esbuild = ["npx", "--no-install", "esbuild", "index.js", "--bundle", "--format=esm", "--target=es2022"]
    subprocess.run([*esbuild, f"--banner:js={head()}\n{told}", f"--outfile={MADE}"], cwd=FOLDER, check=True)


if __name__ == "__main__":
    make()
    print(f"{MADE.relative_to(ROOT)} is written")
