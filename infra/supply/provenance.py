"""Write provenance.json: how the files in a folder were built (in-toto statement with SLSA's predicate).

uv run python -m supply.provenance dist     # dist/provenance.json, about all other files in dist
"""

import argparse
import json
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

from deltaic_ops.deploy.sam_template import ROOT

NAME = "provenance.json"
LOCKS = ("uv.lock", ".ci/uv.txt", "functions/layer/requirements.txt", "functions/maintenance/layer/requirements.txt")
"""Lock files: they name the versions and hashes of all packages that a release is built with."""


def statement(folder: Path, commit: str, builder: str) -> dict[str, Any]:
    """Return the in-toto statement about all files in a folder; `builder` is the URI of the machine that built them."""
    source = {"name": "source", "digest": {"gitCommit": commit}}
    subjects = sorted(path for path in folder.iterdir() if path.name != NAME)
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [_describe_file(path, path.name) for path in subjects],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:deltaic:release:1",
                "externalParameters": {"command": ".ci/release", "source": source},
                "resolvedDependencies": [source, *(_describe_file(ROOT / name, name) for name in LOCKS)],
            },
            "runDetails": {"builder": {"id": builder}},
        },
    }


def main(folder: Path) -> None:
    """Write the statement about the files of a folder; exits with an error if files of the checkout are changed."""
    changes = _git("status", "--porcelain", "--untracked-files=no")
    if changes:
        sys.exit(f"These files differ from the commit:\n{changes}\nCommit them first, then build the release again.")
    workflow = os.environ.get("GITHUB_WORKFLOW_REF")
    builder = f"{os.environ['GITHUB_SERVER_URL']}/{workflow}" if workflow else "urn:deltaic:builder:local"
    document = statement(folder, _git("rev-parse", "HEAD"), builder)
    (folder / NAME).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _describe_file(path: Path, name: str) -> dict[str, Any]:
    return {"name": name, "digest": {"sha256": sha256(path.read_bytes()).hexdigest()}}


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m supply.provenance", description=main.__doc__)
    parser.add_argument("folder", type=Path, help="Folder of a release, such as dist.")
    main(parser.parse_args().folder)
