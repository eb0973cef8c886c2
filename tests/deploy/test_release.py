"""Test the release of a stack: equal to `sam deploy`, reproducible, and deployed with nothing but the AWS CLI."""

import json
import os
import re
import shutil
import subprocess
import time
import zipfile
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest
from cli.conftest import Deltaic
from cloudformation import transformed
from deltaic_ops.checks.doctor.code import folder_checksums
from deltaic_ops.deploy.intrinsics import Resolver, read
from deltaic_ops.deploy.sam import BuildTarget
from deltaic_ops.local.embedded import EmbeddedAws
from deltalake import write_deltalake
from supply import stack_release
from template_rights import EVERYTHING

pytestmark = pytest.mark.deploy

ARCHITECTURE = BuildTarget.this_machine().architecture
BUCKET = "releasetest-code"
TOOLS = ("sh", "dirname", "cat")
"""All programs that the script can find, besides the AWS CLI."""


@pytest.fixture(scope="module")
def release(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the release for this machine's processor, with the layers of the folder's build."""
    target = tmp_path_factory.mktemp("release") / "deltaic-stack"
    stack_release.write_stack(target, {ARCHITECTURE: built})
    return target


def locations(template: dict[str, Any]) -> dict[str, Any]:
    """Return where the code of each function and layer is, by logical id; an unbuilt path is relative to the build."""
    properties = {name: resource.get("Properties", {}) for name, resource in template["Resources"].items()}
    code = {name: values.get("CodeUri", values.get("ContentUri")) for name, values in properties.items()}
    return {name: location for name, location in code.items() if location}


def test_template_equals_the_one_of_sam_deploy(release: Path, built: Path) -> None:
    ours, theirs = read(release / "packaged.yaml"), read(built / "template.yaml")
    assert ours["Parameters"].pop("ArtifactBucket")["Type"] == "String"
    for section in ("Parameters", "Conditions", "Mappings", "Outputs"):
        assert ours[section] == theirs[section]
    assert resources(release / "packaged.yaml") == resources(built / "template.yaml")


def resources(template: Path) -> Any:
    """Return what CloudFormation creates, without the hash of the API's deployment, which SAM changes at each run."""
    text = json.dumps(transformed(template, {**EVERYTHING, "Architecture": ARCHITECTURE}))
    return json.loads(re.sub(r"(ApiDeployment|deployment id: )[0-9a-f]+\b", r"\1", text))


def test_archives_have_the_files_that_sam_uploads(release: Path, built: Path) -> None:
    resolve = Resolver({}, {}, {"Architecture": ARCHITECTURE, "ArtifactBucket": BUCKET})
    uploaded = locations(read(built / "template.yaml"))
    archives = {name: resolve(location) for name, location in locations(read(release / "packaged.yaml")).items()}
    assert archives.keys() == uploaded.keys()
    for name, location in archives.items():
        assert location["Bucket"] == BUCKET
        with zipfile.ZipFile(release / location["Key"]) as archive:
            packed = {entry.filename: entry.CRC for entry in archive.infolist()}
        assert {file: crc for file, crc in packed.items() if "__pycache__" not in file} == folder_checksums(
            built / uploaded[name], ""
        ), name
    assert {release / location["Key"] for location in archives.values()} == set((release / "deltaic").iterdir())


def test_two_builds_write_the_same_bytes(tmp_path: Path) -> None:
    written = []
    for number, mode in enumerate((0o644, 0o600)):
        build = tmp_path / f"build{number}"
        for name in sorted(("DeltaicLayer/b.py", "DeltaicLayer/a.py", "DeltalakeLayer/a.zip"), reverse=bool(number)):
            path = build / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"NAME = '{name}'\n")
            path.chmod(mode)
            os.utime(path, (time.time() - 9_000 * number,) * 2)
        target = tmp_path / f"release{number}"
        stack_release.write_stack(target, dict.fromkeys(stack_release.PLATFORMS, build))
        written.append({str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*.*")})
    assert written[0] == written[1]
    names = [name for name in written[0] if name.startswith("deltaic/layer-")]
    assert [re.sub("[0-9a-f]{16}", "DIGEST", name) for name in sorted(names)] == [
        "deltaic/layer-DIGEST-arm64.zip",
        "deltaic/layer-DIGEST-x86_64.zip",
    ]


@pytest.mark.parametrize(("arguments", "missing"), [((), "bucket"), (("code",), "profile")])
def test_script_names_a_missing_argument(arguments: tuple[str, ...], missing: str) -> None:
    script = Path(stack_release.__file__).with_name("install")
    done = subprocess.run(["sh", script, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f"missing {missing}: ./install BUCKET PROFILE" in done.stderr


def test_script_refuses_an_unknown_profile_before_it_uploads() -> None:
    script = Path(stack_release.__file__).with_name("install")
    done = subprocess.run(
        ["sh", script, "code", "production"], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (2, "unknown profile 'production': use dev or prod\n")


def test_release_deploys_a_stack_that_is_verified(
    release: Path, tmp_path: Path, embedded_aws: EmbeddedAws, aws_session: boto3.Session, lake: str
) -> None:
    folder, tools = tmp_path / "release", tmp_path / "bin"
    shutil.copytree(release, folder, copy_function=os.link)
    tools.mkdir()
    aws = subprocess.run(["pyenv", "which", "aws"], capture_output=True, text=True, check=False).stdout.strip()
    paths = {name: shutil.which(name) for name in TOOLS} | {"aws": aws or shutil.which("aws")}
    if paths["aws"] is None and "CI" not in os.environ:
        pytest.skip("there is no aws here")
    for name, path in paths.items():
        assert path is not None, name
        (tools / name).symlink_to(path)
    environment = {**embedded_aws.environment, "PATH": str(tools), "HOME": str(tmp_path)}
    aws_session.client("s3", endpoint_url=embedded_aws.endpoint).create_bucket(Bucket=BUCKET)
    options = [f"DataBuckets=arn:aws:s3:::{lake}", f"Architecture={ARCHITECTURE}", "ResponseStreaming=disabled"]

    command = [str(folder / "install"), BUCKET, "dev", *options]
    done = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, check=False)
    try:
        assert done.stdout.endswith("deployed the stack deltaic-dev\n"), done.stdout + done.stderr
        check_stack(Deltaic({**embedded_aws.environment, "DELTAIC_STACK": "deltaic-dev"}), embedded_aws, lake)
    finally:
        aws_session.client("cloudformation", endpoint_url=embedded_aws.endpoint).delete_stack(StackName="deltaic-dev")


def check_stack(deltaic: Deltaic, embedded_aws: EmbeddedAws, lake: str) -> None:
    """Share a table of the stack, read it as its recipient, and compare the deployed code with this checkout."""
    options = {**embedded_aws.environment, "AWS_ALLOW_HTTP": "true", "AWS_S3_ALLOW_UNSAFE_RENAME": "true"}
    write_deltalake(f"s3://{lake}/release", pa.table({"number": [1, 2, 3]}), storage_options=options)
    for command in (
        "share create releases",
        "schema create releases.s",
        f"table create releases.s.numbers --location s3://{lake}/release",
        "recipient create reader",
        "grant create reader releases",
    ):
        assert deltaic(command).exit_code == 0
    verified = {item["check"]: item for item in json.loads(deltaic("verify --as reader --json").stdout)}
    assert all(item["holds"] for item in verified.values()), verified
    assert verified["returns rows of releases.s.numbers to the published client"]["said"] == "3 rows"
    examined = {item["check"]: item for item in json.loads(deltaic("doctor --json").stdout)}
    assert examined["runs the code of this checkout"]["verdict"] == "ok", examined
