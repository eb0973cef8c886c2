"""Write provenance.json: how the files in a folder were built (in-toto statement with SLSA's predicate).

uv run python -m supply.provenance dist     # dist/provenance.json, about all other files in dist
"""

import json
import os
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any

import typer
from deltaic_ops.deploy.sam_template import ROOT

NAME = "provenance.json"


def statement(folder: Path, commit: str, builder: str) -> dict[str, Any]:
    """Return the in-toto statement about all files in a folder; `builder` is the URI of the machine that built them."""
    source = {"name": "source", "digest": {"gitCommit": commit}}  # the commit contains the lock files
    subjects = sorted(path for path in folder.iterdir() if path.name != NAME)
    digests = {path.name: sha256(path.read_bytes()).hexdigest() for path in subjects}
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in digests.items()],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:deltaic:release:1",
                "externalParameters": {"command": ".ci/release", "source": source},
                "resolvedDependencies": [source],
            },
            "runDetails": {"builder": {"id": builder}},
        },
    }


def main(folder: Path) -> None:
    """Write the statement about the files of FOLDER, which were built from the commit that is checked out."""
    commit = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True).strip()
    workflow = os.environ.get("GITHUB_WORKFLOW_REF")
    builder = f"{os.environ['GITHUB_SERVER_URL']}/{workflow}" if workflow else "urn:deltaic:builder:local"
    document = json.dumps(statement(folder, commit, builder), indent=2) + "\n"
    (folder / NAME).write_text(document, encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
