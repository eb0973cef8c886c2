"""Compare the deployed Lambda packages in S3 with the code of this installation, file by file."""

import io
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from deltaic_ops.deploy.deployed_stack import DeployedStack
from deltaic_ops.deploy.intrinsics import read
from deltaic_ops.deploy.sam_template import ROOT, TEMPLATE
from deltaic_ops.inspection.findings import Finding, advise, ask

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

CHECK = "runs the code of this installation"
_TAIL = 4_000_000
"""Number of bytes read at the end of a zip file; they contain its directory, with the CRC-32 of each file."""


def check_code(client: "S3Client", stack: DeployedStack) -> Iterator[Finding]:
    """Compare the deployed functions and layer with those of this installation: a checkout, or a release's wheel."""
    yield from ask(CHECK, "check the bucket of the packages, and its account", lambda: _compare(client, stack))


def _compare(client: "S3Client", stack: DeployedStack) -> Finding:
    declared, compared, differing = read(TEMPLATE)["Resources"], 0, []
    for logical_id, (bucket, key) in sorted(stack.packages.items()):
        folder, prefix = declared.get(logical_id, {}).get("Properties", {}).get("CodeUri"), ""
        if logical_id.startswith("DeltaicLayer"):
            folder, prefix = "functions/layer/deltaic", "python/deltaic/"
        if folder is None:
            continue
        local, packed = folder_checksums(ROOT / folder, prefix), archive_checksums(client, bucket, key)
        deployed = {name: crc for name, crc in packed.items() if name.startswith(prefix)}
        compared += 1
        if local != deployed:
            name = min(name for name in local.keys() | deployed.keys() if local.get(name) != deployed.get(name))
            differing.append(f"{logical_id} ({name})")
    return advise(
        CHECK,
        f"different: {', '.join(differing)}" if differing else f"{compared} packages",
        "deploy this version, or install the commands of the deployed one",
        holds=not differing,
    )


def folder_checksums(folder: Path, prefix: str) -> dict[str, int]:
    """Return the CRC-32 of every file in a folder and its subfolders, by its name in the package."""
    return {
        prefix + path.relative_to(folder).as_posix(): zlib.crc32(path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def archive_checksums(client: "S3Client", bucket: str, key: str) -> dict[str, int]:
    """Return the CRC-32 of every file, except bytecode, in a zip file in S3; reads only its end."""
    response = client.get_object(Bucket=bucket, Key=key, Range=f"bytes=-{_TAIL}")
    with zipfile.ZipFile(io.BytesIO(response["Body"].read())) as archive:
        return {
            entry.filename: entry.CRC
            for entry in archive.infolist()
            if not entry.is_dir() and "__pycache__" not in entry.filename  # depends on the machine that built it
        }
