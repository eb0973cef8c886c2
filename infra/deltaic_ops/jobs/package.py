"""Build and upload the code of jobs, named by its hash: a Python environment, a start script and a jar.

The environment is built without a container for the cluster's processor and Python version. It has a folder of packages
and a script `python`, which starts the cluster's interpreter with this folder first on PYTHONPATH, and no Spark.
"""

import gzip
import hashlib
import io
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import deltaic
import deltaic_datasets
import deltaic_pipeline
import deltaic_terminal
from deltaic.errors import Unavailable
from deltaic_pipeline import entry
from deltaic_pipeline.spark.jars import AVRO, ensure_jars
from deltaic_terminal.environment import machine

from deltaic_ops.deploy.sam import BuildTarget
from deltaic_ops.deploy.sam_template import ROOT
from deltaic_ops.jobs.service_errors import translate_errors

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

ENVIRONMENT, SCRIPT, AVRO_JAR = "environment.tar.gz", "job.py", "spark-avro.jar"
CURRENT = "jobs/current"
"""S3 key of the object that contains the name of the current package's folder; written after the package."""

PLATFORMS = {"arm64": "aarch64-manylinux_2_34", "x86_64": "x86_64-manylinux_2_34"}
"""Wheel platforms for uv by architecture. The images of emr-spark-8.x have Amazon Linux 2023 with glibc 2.34."""

EXCLUDED = {".lock", "__pycache__", "tests", "include", "examples", "RECORD"}
"""Names of files and folders that no job needs, or that contain the name of the machine that built the package."""

PYTHON = """#!/bin/sh
# The cluster's Python {version} with the packages of this archive.
command -v python{version} >/dev/null || {{
    echo "Python {version} of this package is missing on the cluster: use deltaic pipeline package --python ..." >&2
    exit 127
}}
PYTHONPATH="$(cd "$(dirname "$0")/../lib" && pwd)${{PYTHONPATH:+:$PYTHONPATH}}" exec python{version} "$@"
"""
_LEVEL = 6
_TIMEOUT_SECONDS = 900

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class JobPackage:
    """A package of job code that was built on this machine and can be uploaded."""

    digest: str
    files: Mapping[str, Path]
    """Local files by the names that they get in S3."""


def build(folder: Path, target: BuildTarget, report: Report = lambda _: None) -> JobPackage:
    """Build the package in a folder for a processor and a Python version; equal sources result in an equal digest.

    Raises Unavailable with the message of uv if a Python package cannot be downloaded or installed.
    """
    report(f"fetching packages for {target.architecture} and Python {target.python}")
    requirements = ROOT / "functions" / "pipeline" / "requirements.txt"
    lib = folder / "lib"
    platform = ("--python-platform", PLATFORMS[target.architecture], "--python-version", target.python)
    install = ("pip", "install", "--target", str(lib), *platform, "--only-binary", ":all:", "--no-deps")
    _uv(*install, "--require-hashes", "--requirement", str(requirements))
    for package in (deltaic, deltaic_datasets, deltaic_pipeline, deltaic_terminal):
        source = Path(package.__path__[0])
        shutil.copytree(source, lib / source.name)
    report("packing")
    environment = folder / ENVIRONMENT
    _pack(environment, lib, PYTHON.format(version=target.python))
    [jar] = ensure_jars(AVRO, machine(), report)
    files = {
        ENVIRONMENT: environment,
        AVRO_JAR: shutil.copyfile(jar, folder / AVRO_JAR),
        SCRIPT: shutil.copyfile(Path(entry.__file__), folder / SCRIPT),
    }
    digest = hashlib.sha256()
    for name, file in files.items():
        digest.update(f"{name} {file.stat().st_size}\n".encode())
        digest.update(file.read_bytes())
    return JobPackage(digest.hexdigest()[:32], files)


def upload(client: "S3Client", bucket: str, package: JobPackage, report: Report = lambda _: None) -> bool:
    """Upload the package and make it the current one for new jobs; return whether a file had to be uploaded.

    Running jobs, and their retries, keep the package with which they started.
    """
    folder = f"jobs/{package.digest}"
    with translate_errors(f"the bucket {bucket}"):
        objects = client.list_objects_v2(Bucket=bucket, Prefix=f"{folder}/").get("Contents", [])
        sizes = {item["Key"]: item["Size"] for item in objects}
        missing = {
            name: file for name, file in package.files.items() if sizes.get(f"{folder}/{name}") != file.stat().st_size
        }
        for name, file in missing.items():
            report(f"uploading {name} ({file.stat().st_size / 1_000_000:.1f} MB)")
            with file.open("rb") as source:
                client.put_object(Bucket=bucket, Key=f"{folder}/{name}", Body=source)
        client.put_object(Bucket=bucket, Key=CURRENT, Body=package.digest.encode())
    return bool(missing)


def _pack(archive: Path, lib: Path, python: str) -> None:
    """Write the environment to an archive, sorted and without file times, so that equal content has equal bytes."""
    with (
        archive.open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=_LEVEL, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        content = python.encode()
        script = tarfile.TarInfo("bin/python")
        script.size, script.mode = len(content), 0o755
        tar.addfile(script, io.BytesIO(content))
        for file in sorted(lib.rglob("*")):
            inside = file.relative_to(lib)
            if file.is_dir() or EXCLUDED & set(inside.parts) or inside.parts[0] == "bin":
                continue
            entry_of_file = tarfile.TarInfo(f"lib/{inside.as_posix()}")
            entry_of_file.size = file.stat().st_size
            entry_of_file.mode = 0o755 if file.stat().st_mode & 0o100 else 0o644
            with file.open("rb") as source:
                tar.addfile(entry_of_file, source)


def _uv(*arguments: str) -> None:
    program = shutil.which("uv")
    if program is None:
        raise Unavailable("uv is not on the PATH: install it with `pip install uv`")
    run = subprocess.run(
        [program, *arguments, "--quiet"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_SECONDS,
        check=False,
    )
    if run.returncode != 0:
        raise Unavailable(f"`uv {arguments[0]}` failed: {run.stderr[-2000:].strip()}")
