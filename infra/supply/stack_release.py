"""Write the release of a stack: archives of its code, `packaged.yaml`, and scripts that need the AWS CLI.

uv run python -m supply.stack_release dist/deltaic-stack     # builds both layers for both processors

Two runs for the same commit write the same bytes: archives are sorted, have no times, and are named by their content.
"""

import io
import re
import shutil
import sys
import tomllib
import zipfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import typer
from deltaic_ops.deploy.sam import Architecture, BuildTarget, build
from deltaic_ops.deploy.sam_template import ROOT, TEMPLATE

CODE: Final = "deltaic"
"""Folder of the archives, and prefix of their keys in the bucket."""
LAYERS: Final = {"layer": "DeltaicLayer", "maintenance-layer": "DeltalakeLayer"}
"""Logical id of each layer, which is also its folder in the output of `sam build`, by the name of its archive."""
PLATFORMS: Final[tuple[Architecture, ...]] = ("arm64", "x86_64")

_PARAMETER = f"""
Parameters:
  ArtifactBucket:
    Type: String
    Description: Bucket in the stack's region with the archives of this release, below {CODE}/.
"""
_LOCATION = re.compile(r"^(?P<property> +(?:CodeUri|ContentUri)): (?P<folder>functions/\S+)/$", re.MULTILINE)
_FILE_MODE = 0o100644 << 16
_DIGEST_CHARACTERS = 16


def write_stack(target: Path, builds: Mapping[Architecture, Path]) -> None:
    """Write the folder from which `install` deploys; replace it if it exists.

    `builds` has the output folder of `sam build` for each processor.
    """
    shutil.rmtree(target, ignore_errors=True)
    (target / CODE).mkdir(parents=True)

    def locate(match: re.Match[str]) -> str:
        name = match["folder"].removeprefix("functions/").replace("/", "-")
        if name in LAYERS:
            # All processors share one digest, because CloudFormation inserts only the processor into the key.
            archives = {f"-{platform}": pack(builds[platform] / LAYERS[name]) for platform in sorted(builds)}
        else:  # the folder of a function is complete without a build
            archives = {"": pack(ROOT / match["folder"], bytecode=False)}
        digest = sha256(b"".join(archives.values())).hexdigest()[:_DIGEST_CHARACTERS]
        for suffix, archive in archives.items():
            (target / CODE / f"{name}-{digest}{suffix}.zip").write_bytes(archive)
        key = f"{CODE}/{name}-{digest}"
        key = f'!Sub "{key}-${{Architecture}}.zip"' if name in LAYERS else f"{key}.zip"
        return f"{match['property']}: {{Bucket: !Ref ArtifactBucket, Key: {key}}}"

    template = _LOCATION.sub(locate, TEMPLATE.read_text(encoding="utf-8"))
    (target / "packaged.yaml").write_text(template.replace("\nParameters:\n", _PARAMETER, 1), encoding="utf-8")
    for script in ("install", "prove"):
        shutil.copy(Path(__file__).with_name(script), target)
    settings = tomllib.loads((ROOT / "samconfig.toml").read_text(encoding="utf-8"))
    for profile in ("dev", "prod", "prove"):
        parameters = settings[profile]["deploy"]["parameters"]["parameter_overrides"].replace(" ", "\n")
        (target / f"{profile}.parameters").write_text(f"{parameters}\n", encoding="utf-8")


def pack(folder: Path, *, bytecode: bool = True) -> bytes:
    """Return a zip archive of a folder's files that depends only on their names and content."""
    files = (path for path in folder.rglob("*") if path.is_file() and (bytecode or path.parent.name != "__pycache__"))
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        for path in sorted(files):
            entry = zipfile.ZipInfo(path.relative_to(folder).as_posix())  # dated 1980
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, _FILE_MODE
            packed.writestr(entry, path.read_bytes())
    return archive.getvalue()


def main(folder: Path) -> None:
    """Build the stack and write it to FOLDER, which is replaced if it exists.

    Exits with an error if the layers have no bytecode, because functions would start slowly.
    """
    with TemporaryDirectory() as temporary:
        builds = {platform: build(Path(temporary) / platform, BuildTarget(platform)) for platform in PLATFORMS}
        if not all(any(built.glob("DeltaicLayer/python/deltaic/__pycache__")) for built in builds.values()):
            sys.exit("The layer has no bytecode. Install Python 3.13, then build the release again.")
        write_stack(folder, builds)


if __name__ == "__main__":
    typer.run(main)
