"""Commands for volumes, skills and models: checks before sharing, and the rules of SKILL.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import boto3
import pytest
from deltaic.storage.locations import access_point
from deltaic_ops.cli.aws_selection import Connection, GlobalOptions

if TYPE_CHECKING:
    from cli.conftest import Deltaic
    from deltaic_ops.local.embedded import EmbeddedAws

pytestmark = pytest.mark.slow

BUCKET = "folders-lake"
GOOD = "---\nname: forms\ndescription: Reads forms.\nmetadata:\n  version: 1.0\nallowed-tools: Read Grep\n---\n# Do\n"
NEW = f"skill create vaccine_share.acme.forms --location s3://{BUCKET}/skills/forms"


@pytest.fixture(scope="module")
def s3(aws_session: boto3.Session, embedded_aws: EmbeddedAws) -> Any:
    client = aws_session.client("s3", endpoint_url=embedded_aws.endpoint)
    client.create_bucket(Bucket=BUCKET)
    client.put_object(Bucket=BUCKET, Key="scans/1.pdf", Body=b"x")
    mlflow = b"artifact_path: model\nflavors: {}\nrun_id: abc123\n"
    client.put_object(Bucket=BUCKET, Key="models/3/MLmodel", Body=mlflow)
    client.put_object(Bucket=BUCKET, Key="models/4/weights.bin", Body=b"x")
    return client


def write(s3: Any, text: str) -> None:
    s3.put_object(Bucket=BUCKET, Key="skills/forms/SKILL.md", Body=text.encode())


@pytest.mark.usefixtures("s3")
def test_a_volume_is_created_updated_and_deleted(filled: Deltaic) -> None:
    name = "vaccine_share.acme.scans"
    volume = filled.json(f"volume create {name} --location s3://{BUCKET}/scans/ --comment paper")
    assert (volume["location"], volume["accessModes"]) == (f"s3://{BUCKET}/scans", ["url", "dir"])
    assert "warnings" not in volume
    assert filled.json(f"volume update {name} --access-mode url")["accessModes"] == ["url"]
    assert filled.json("volume list vaccine_share.acme")[0] == filled.json(f"volume show {name}")
    refused = filled("volume show vaccine_share.acme.scan")
    assert "did you mean scans?" in refused.stderr
    assert filled("schema delete vaccine_share.acme").exit_code == 1
    filled.done(f"volume delete {name}")
    assert filled.json("volume list vaccine_share") == []


@pytest.mark.usefixtures("s3")
def test_a_whole_bucket_is_shared_only_on_request_and_with_a_warning_of_overlaps(filled: Deltaic) -> None:
    filled.done(f"volume create vaccine_share.acme.scans --location s3://{BUCKET}/scans")
    filled.done("model create vaccine_share.acme.m")
    for line in (
        f"volume create vaccine_share.acme.all --location s3://{BUCKET}/ --unchecked",
        f"volume update vaccine_share.acme.scans --location s3://{BUCKET}",
        f"model version add vaccine_share.acme.m 1 --location s3://{BUCKET}",
    ):
        refused = filled(line)
        assert (refused.exit_code, "share all of it with --whole-bucket" in refused.stderr) == (1, True), refused.output
    line = f"volume create vaccine_share.acme.all --location s3://{BUCKET} --whole-bucket"
    [warning] = filled.json(line)["warnings"]
    assert warning == f"volume 'vaccine_share.acme.scans' (s3://{BUCKET}/scans) shares some of the same files"


@pytest.mark.usefixtures("s3")
@pytest.mark.parametrize("line", ["volume create vaccine_share.acme.x", "model version add vaccine_share.acme.m 1"])
def test_an_empty_folder_is_refused_unless_unchecked(filled: Deltaic, line: str) -> None:
    filled.done("model create vaccine_share.acme.m")
    refused = filled(f"{line} --location s3://{BUCKET}/none")
    assert f"s3://{BUCKET}/none has no files. Correct --location" in refused.stderr
    assert filled.json("volume list vaccine_share") == filled.json("model version list vaccine_share.acme.m") == []
    assert filled(f"{line} --location s3://{BUCKET}/none --unchecked").exit_code == 0


@pytest.mark.parametrize("line", ["volume create vaccine_share.acme.x", "model version add vaccine_share.acme.m 1"])
def test_a_missing_bucket_is_refused_before_any_write(filled: Deltaic, line: str) -> None:
    filled.done("model create vaccine_share.acme.m")
    refused = filled(f"{line} --location s3://no-such-lake/x")
    assert (refused.exit_code, "cannot be read with your credentials" in refused.stderr) == (1, True), refused.output
    assert filled.json("volume list vaccine_share") == filled.json("model version list vaccine_share.acme.m") == []
    assert filled.json(f"{line} --location s3://no-such-lake/x --unchecked")["location"] == "s3://no-such-lake/x"


def test_a_skill_has_the_attributes_of_its_file_and_can_be_refreshed(filled: Deltaic, s3: Any) -> None:
    write(s3, GOOD)
    skill = filled.json(NEW)
    assert (skill["description"], skill["allowedTools"]) == ("Reads forms.", "Read Grep")
    assert skill["metadata"] == {"version": "1.0"}
    write(s3, GOOD.replace("Reads forms.", "Reads and fills forms.").replace("allowed-tools: Read Grep\n", "new: 1\n"))
    updated = filled.json("skill refresh vaccine_share.acme.forms")
    assert (updated["description"], updated["allowedTools"], updated["id"]) == (
        "Reads and fills forms.",
        "",
        skill["id"],
    )
    assert updated["warnings"] == ["SKILL.md has keys that agentskills.io does not define: new"]


WRONG = {
    "no front matter": ("# Do\n", "does not start with front matter"),
    "no end of it": ("---\nname: forms\n", "does not start with front matter"),
    "no YAML": ("---\nname: forms\n\tx: [\n---\n", "is not valid YAML at line"),
    "a list": ("---\n- name\n---\n", "is not a YAML mapping"),
    "another name": (GOOD.replace("name: forms", "name: form"), "both must be the name of the folder"),
    "a name against the rules": (GOOD.replace("name: forms", "name: Forms"), "lower-case letters"),
    "no description": (GOOD.replace("description: Reads forms.\n", ""), "has no 'description'"),
    "a long description": (GOOD.replace("Reads forms.", "x" * 1025), "at most 1024 are allowed"),
    "a long compatibility": (GOOD.replace("metadata", f"compatibility: {'x' * 501}\nmetadata"), "at most 500"),
    "tools as a list": (GOOD.replace("Read Grep", "[Read, Grep]"), "'allowed-tools' must be a string"),
    "brackets": (GOOD.replace("1.0", "[" * 100_000), "at most 16384 are read"),
    "metadata in metadata": (GOOD.replace("1.0", "{a: b}"), "'metadata' must be a mapping of names to strings"),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_invalid_skill_is_refused_with_the_reason(filled: Deltaic, s3: Any, case: str) -> None:
    text, reason = WRONG[case]
    write(s3, text)
    refused = filled(NEW)
    assert (refused.exit_code, reason in refused.stderr) == (1, True), refused.output
    assert filled.json("skill list vaccine_share") == []


def test_a_folder_without_skill_md_is_refused(filled: Deltaic, s3: Any) -> None:
    s3.delete_object(Bucket=BUCKET, Key="skills/forms/SKILL.md")
    assert "has no SKILL.md" in filled(NEW).stderr


@pytest.mark.usefixtures("s3")
def test_a_model_version_has_the_run_of_its_mlmodel_file(filled: Deltaic) -> None:
    name = "vaccine_share.acme.dosage"
    filled.done(f"model create {name} --comment doses")
    add = f"model version add {name} "
    version = filled.json(f"{add} 3 --location s3://{BUCKET}/models/3")
    assert (version["runId"], version["source"], version["version"]) == ("abc123", "runs:/abc123/model", 3)
    assert filled.json(f"{add} 4 --location s3://{BUCKET}/models/4 --run-id mine")["runId"] == "mine"
    assert [entry["version"] for entry in filled.json(f"model version list {name}")] == [3, 4]
    assert "has 2 version(s)" in filled(f"model delete {name}").stderr
    filled.done(f"model version remove {name} 3")
    filled.done(f"model delete {name} --force")
    assert filled.json("model list vaccine_share") == []


@pytest.mark.usefixtures("s3")
def test_a_folder_in_the_stacks_own_bucket_is_refused(filled: Deltaic) -> None:
    filled.variables["ICEBERG_BUCKET"] = BUCKET
    for command in ("volume create", "table create --unchecked"):
        refused = filled(f"{command} vaccine_share.acme.scans --location s3://{BUCKET}/scans")
        assert refused.exit_code == 1
        assert f"the bucket '{BUCKET}', which contains files of the stack itself" in " ".join(refused.stderr.split())


def test_a_folder_behind_an_unknown_access_point_causes_a_warning(filled: Deltaic) -> None:
    point = "s3://arn:aws:s3:us-east-1:123456789012:accesspoint/partner"
    for command in ("volume create", "model version add", "table create --access-mode dir"):
        name = "vaccine_share.acme.scans" if command != "model version add" else "vaccine_share.acme.m 1"
        if command == "model version add":
            filled.done("model create vaccine_share.acme.m")
        # One attempt, because the host of this account's S3 does not exist.
        shared = filled(f"{command} {name} --location {point}/scans --unchecked", AWS_MAX_ATTEMPTS="1")
        assert shared.exit_code == 0, shared.output
        assert "the bucket of its access point is unknown" in " ".join(shared.stderr.split())


def test_the_bucket_of_an_access_point_is_read_from_s3(
    embedded_aws: EmbeddedAws,
) -> None:
    environment = embedded_aws.environment
    session = boto3.Session(
        environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"], region_name="us-east-1"
    )
    account = session.client("sts", endpoint_url=embedded_aws.endpoint).get_caller_identity()["Account"]

    def without_account(request: Any, **_: Any) -> None:
        # S3 Control has a host for each account; an address of this machine has none.
        request.url = request.url.replace(f"//{account}.", "//")

    session.events.register("before-sign.s3-control", without_account)
    session.client("s3", endpoint_url=embedded_aws.endpoint).create_bucket(Bucket="behind-a-point")
    control: Any = session.client("s3control", endpoint_url=embedded_aws.endpoint)
    control.create_access_point(AccountId=account, Name="partner", Bucket="behind-a-point")
    connection = Connection(
        GlobalOptions(catalog="c", tokens="t"), {"AWS_ENDPOINT_URL": embedded_aws.endpoint}, lambda: session
    )
    for name, bucket in (("partner", "behind-a-point"), ("unknown", "")):
        point = access_point(f"arn:aws:s3:us-east-1:{account}:accesspoint/{name}")
        assert point is not None
        assert connection.admin().buckets.bucket_of(point) == bucket
