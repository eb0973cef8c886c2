"""Test the release of a stack: equal to `sam deploy`, reproducible, and deployed with nothing but the AWS CLI."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from cli.conftest import Deltaic
from cloudformation import transformed
from deltaic_ops.checks.doctor.code import folder_checksums
from deltaic_ops.deploy.emulated_account import ACCOUNT, REGION
from deltaic_ops.deploy.intrinsics import Resolver, read
from deltaic_ops.deploy.sam import BuildTarget
from deltaic_ops.local.embedded import EmbeddedAws
from deltalake import write_deltalake
from supply import stack_release
from template_rights import EVERYTHING

pytestmark = pytest.mark.deploy

ARCHITECTURE = BuildTarget.this_machine().architecture
BUCKET = "releasetest-code"
TRIAL, TRIAL_BUCKET = "deltaic-prove", f"deltaic-prove-{ACCOUNT}-{REGION}"
TOOLS = ("sh", "dirname", "cat")
"""All programs that the script can find, besides the AWS CLI."""


def locations(template: dict[str, Any]) -> dict[str, Any]:
    """Return where the code of each function and layer is, by logical id; an unbuilt path is relative to the build."""
    properties = {name: resource.get("Properties", {}) for name, resource in template["Resources"].items()}
    code = {name: values.get("CodeUri", values.get("ContentUri")) for name, values in properties.items()}
    return {name: location for name, location in code.items() if location}


def test_template_equals_the_one_of_sam_deploy(release: Path, small_build: Path) -> None:
    ours, theirs = read(release / "packaged.yaml"), read(small_build / "template.yaml")
    assert ours["Parameters"].pop("ArtifactBucket")["Type"] == "String"
    for section in ("Parameters", "Conditions", "Mappings", "Outputs"):
        assert ours[section] == theirs[section]
    assert resources(release / "packaged.yaml") == resources(small_build / "template.yaml")


def resources(template: Path) -> Any:
    """Return what CloudFormation creates, without the hash of the API's deployment, which SAM changes at each run."""
    text = json.dumps(transformed(template, {**EVERYTHING, "Architecture": ARCHITECTURE}))
    return json.loads(re.sub(r"(ApiDeployment|deployment id: )[0-9a-f]+\b", r"\1", text))


def test_archives_have_the_files_that_sam_uploads(release: Path, small_build: Path) -> None:
    resolve = Resolver({}, {}, {"Architecture": ARCHITECTURE, "ArtifactBucket": BUCKET})
    uploaded = locations(read(small_build / "template.yaml"))
    archives = {name: resolve(location) for name, location in locations(read(release / "packaged.yaml")).items()}
    assert archives.keys() == uploaded.keys()
    for name, location in archives.items():
        assert location["Bucket"] == BUCKET
        with zipfile.ZipFile(release / location["Key"]) as archive:
            packed = {entry.filename: entry.CRC for entry in archive.infolist()}
        assert {file: crc for file, crc in packed.items() if "__pycache__" not in file} == folder_checksums(
            small_build / uploaded[name], ""
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


@pytest.fixture
def folder(release: Path, tmp_path: Path) -> Path:
    """Return a copy of the release, with parameters for this machine."""
    folder = tmp_path / "release"
    shutil.copytree(release, folder, copy_function=os.link)
    parameters = (folder / "prove.parameters").read_text()
    (folder / "prove.parameters").unlink()  # it is a link
    kept = re.sub(r"(WebAcl|GradualDeployment|IpAddressType)=.*\n", "", parameters)
    (folder / "prove.parameters").write_text(f"{kept}Architecture={ARCHITECTURE}\nResponseStreaming=disabled\n")
    return folder


@pytest.fixture
def environment(tmp_path: Path, embedded_aws: EmbeddedAws) -> dict[str, str]:
    """Return environment variables with few programs on the path."""
    tools = tmp_path / "bin"
    tools.mkdir()
    aws = subprocess.run(["pyenv", "which", "aws"], capture_output=True, text=True, check=False).stdout.strip()
    paths = {name: shutil.which(name) for name in TOOLS} | {"aws": aws or shutil.which("aws")}
    paths["deltaic"] = str(Path(sys.executable).parent / "deltaic")
    if paths["aws"] is None and "CI" not in os.environ:
        pytest.skip("there is no aws here")
    for name, path in paths.items():
        assert path is not None, name
        (tools / name).symlink_to(path)
    return {**embedded_aws.environment, "PATH": str(tools), "HOME": str(tmp_path)}


@pytest.fixture
def run(environment: dict[str, str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs a script of the release."""

    def run(*command: object, answer: str = "") -> subprocess.CompletedProcess[str]:
        parts = [str(part) for part in command]
        return subprocess.run(
            parts, cwd="/", env=environment, input=answer, capture_output=True, text=True, check=False
        )

    return run


@pytest.mark.long  # in CI: the trial below installs and verifies a stack in the same way
def test_release_deploys_a_stack_that_is_verified(
    folder: Path,
    run: Callable[..., subprocess.CompletedProcess[str]],
    embedded_aws: EmbeddedAws,
    client: Callable[[Any], Any],
    lake: str,
) -> None:
    client("s3").create_bucket(Bucket=BUCKET)
    options = [f"DataBuckets=arn:aws:s3:::{lake}", f"Architecture={ARCHITECTURE}", "ResponseStreaming=disabled"]
    done = run(folder / "install", BUCKET, "dev", *options)
    try:
        assert done.stdout.endswith("deployed the stack deltaic-dev\n"), done.stdout + done.stderr
        check_stack(Deltaic({**embedded_aws.environment, "DELTAIC_STACK": "deltaic-dev"}), embedded_aws, lake)
    finally:
        client("cloudformation").delete_stack(StackName="deltaic-dev")


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
    assert verified["returns rows of releases.s.numbers to the published client"]["message"] == "3 rows"
    examined = {item["check"]: item for item in json.loads(deltaic("doctor --json").stdout)}
    assert examined["runs the code of this installation"]["verdict"] == "ok", examined


def trial_of(bucket: str) -> dict[str, Any]:
    """Return the arguments of a small stack with the name of a trial's stack, and with this bucket."""
    topic = {"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}, "Parameters": {"ArtifactBucket": {"Type": "String"}}}
    parameter = {"ParameterKey": "ArtifactBucket", "ParameterValue": bucket}
    return {"StackName": TRIAL, "TemplateBody": json.dumps(topic), "Parameters": [parameter]}


def table_named(name: str) -> dict[str, Any]:
    attribute = {"AttributeName": "pk", "AttributeType": "S"}
    keys = {"KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}], "AttributeDefinitions": [attribute]}
    return {"TableName": name, "BillingMode": "PAY_PER_REQUEST", **keys}


def remains(client: Callable[[Any], Any]) -> list[str]:
    """Return the names of stacks, buckets, tables, secrets and functions of trials."""
    stacks = client("cloudformation").list_stacks()["StackSummaries"]
    names = [stack["StackName"] for stack in stacks if stack["StackStatus"] != "DELETE_COMPLETE"]
    names += [bucket["Name"] for bucket in client("s3").list_buckets()["Buckets"]]
    names += client("dynamodb").list_tables()["TableNames"]
    names += [secret["Name"] for secret in client("secretsmanager").list_secrets()["SecretList"]]
    names += [function["FunctionName"] for function in client("lambda").list_functions()["Functions"]]
    return [name for name in names if re.match("deltaic[-/]prove", name)]


def test_release_is_proved_with_a_stack_that_is_removed(
    folder: Path,
    run: Callable[..., subprocess.CompletedProcess[str]],
    client: Callable[[Any], Any],
    tmp_path: Path,
) -> None:
    # What a run that was killed can leave.
    client("cloudformation").create_stack(**trial_of(TRIAL_BUCKET))
    client("dynamodb").create_table(**table_named("deltaic-prove-catalog"))
    client("s3").create_bucket(Bucket=TRIAL_BUCKET)
    client("s3").put_object(Bucket=TRIAL_BUCKET, Key="deltaic-prove-trial/plain/part", Body=b"")
    # The row that takes a minute held in that run.
    held = {"row": "The authorizer's cache", "verdict": "ok", "seen": "before", "remedy": "", "expected": ""}
    report = tmp_path / "proof.json"
    report.write_text(json.dumps({"stack": TRIAL, "rows": [held]}))
    done = run(folder / "prove", "--report", report, "--files", "300", answer="y\n")
    document = json.loads(report.read_text())
    assert (document["stack"], document.get("complete")) == (TRIAL, True), done.stdout + done.stderr
    rows = {row["row"]: row for row in document["rows"]}
    assert (rows["CloudFormation"]["verdict"], rows["The authorizer's cache"]["seen"]) == ("ok", "before")
    failed = [name for name, row in rows.items() if row["verdict"] == "failed"]
    assert failed == ["Access log of the gateway"] * (done.returncode == 1), rows
    assert remains(client) == []


def test_trial_asks_before_it_removes_or_deploys(
    folder: Path, run: Callable[..., subprocess.CompletedProcess[str]], client: Callable[[Any], Any]
) -> None:
    client("s3").create_bucket(Bucket=TRIAL_BUCKET)
    done = run(folder / "prove", answer="n\n")
    assert (done.returncode, "less than 0.20 USD" in done.stdout) == (1, True)
    assert remains(client) == [TRIAL_BUCKET]
    client("s3").delete_bucket(Bucket=TRIAL_BUCKET)


def test_trial_keeps_a_stack_that_it_did_not_create(
    folder: Path, run: Callable[..., subprocess.CompletedProcess[str]], client: Callable[[Any], Any]
) -> None:
    client("cloudformation").create_stack(**trial_of("of-somebody-else"))
    try:
        done = run(folder / "prove", answer="y\n")
        assert (done.returncode, "did not create the stack deltaic-prove" in done.stderr) == (1, True)
        assert remains(client) == [TRIAL]
    finally:
        client("cloudformation").delete_stack(StackName=TRIAL)


def test_interrupted_trial_is_removed(folder: Path, environment: dict[str, str], client: Callable[[Any], Any]) -> None:
    with subprocess.Popen(
        [folder / "prove"], env=environment, stdin=subprocess.PIPE, start_new_session=True, text=True
    ) as trial:
        assert trial.stdin is not None
        trial.stdin.write("y\n")
        trial.stdin.close()
        while TRIAL_BUCKET not in remains(client):
            assert trial.poll() is None
            time.sleep(0.1)
        os.killpg(trial.pid, signal.SIGINT)
        assert trial.wait() == 130
    assert remains(client) == []


def test_trial_that_cannot_be_deployed_is_removed(
    folder: Path, run: Callable[..., subprocess.CompletedProcess[str]], client: Callable[[Any], Any]
) -> None:
    with (folder / "prove.parameters").open("a") as parameters:
        parameters.write("Architecture=sparc\n")
    done = run(folder / "prove", answer="y\n")
    assert (done.returncode, "sparc" in done.stderr) == (1, True), done.stderr
    assert remains(client) == []
