"""The embedded AWS saves acknowledged writes, and refuses writes that cannot be saved and invalid states."""

import itertools
import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import uuid4
from zipfile import ZipFile

import boto3
import httpx
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from deltaic_ops.local.embedded import EmbeddedAws
from deltaic_ops.local.private import StateUnusable

pytestmark = pytest.mark.slow

ONCE = Config(retries={"total_max_attempts": 1})


def client(aws: EmbeddedAws, service: Any) -> Any:
    environment = aws.environment
    session = boto3.Session(
        environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"], region_name=environment["AWS_REGION"]
    )
    return session.client(service, endpoint_url=aws.endpoint, config=ONCE)


def make_table(aws: EmbeddedAws) -> None:
    client(aws, "dynamodb").create_table(
        TableName="kept",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
    )


def put(aws: EmbeddedAws, key: str) -> None:
    client(aws, "dynamodb").put_item(
        TableName="kept", Item={"pk": {"S": key}}, ConditionExpression="attribute_not_exists(pk)"
    )


def keys(aws: EmbeddedAws) -> list[str]:
    return sorted(item["pk"]["S"] for item in client(aws, "dynamodb").scan(TableName="kept")["Items"])


def roles(aws: EmbeddedAws) -> list[str]:
    return [role["RoleName"] for role in client(aws, "iam").list_roles()["Roles"]]


def make_role(aws: EmbeddedAws, name: str, *principals: dict[str, str]) -> str:
    trusted = [{"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"} for principal in principals]
    document = json.dumps({"Version": "2012-10-17", "Statement": trusted})
    role: str = client(aws, "iam").create_role(RoleName=name, AssumeRolePolicyDocument=document)["Role"]["RoleId"]
    return role


def settle(aws: EmbeddedAws) -> None:
    """Return when all acknowledged writes are on disk."""
    name = f"settled-{uuid4().hex}"
    client(aws, "secretsmanager").create_secret(Name=name, SecretString="x")
    file = aws.state / "aws" / "state.json"
    until(lambda: file.exists() and name in file.read_text())


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_refused(write: Callable[[], object]) -> bool:
    try:
        write()
    except ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"] == 500 and "Nothing was changed" in str(error)
    return False


def test_saved_state_survives_a_kill(tmp_path: Path) -> None:
    with EmbeddedAws(tmp_path) as first:
        make_table(first)
        put(first, "a")
        with pytest.raises(ClientError, match="conditional"):
            put(first, "a")
        make_role(first, "gone")
        kept_id = make_role(first, "kept")
        client(first, "iam").delete_role(RoleName="gone")
        client(first, "secretsmanager").create_secret(Name="key", SecretString="drawn once")
        client(first, "dynamodb").update_item(
            TableName="kept",
            Key={"pk": {"S": "a"}},
            UpdateExpression="ADD n :one",
            ExpressionAttributeValues={":one": {"N": "1"}},
        )
        client(first, "s3").create_bucket(Bucket="empty")
        settle(first)
        os.kill(first.pid, signal.SIGKILL)
    for _ in range(2):  # what was repeated once is not repeated again
        with EmbeddedAws(tmp_path) as later:
            item = client(later, "dynamodb").get_item(TableName="kept", Key={"pk": {"S": "a"}})["Item"]
            assert item == {"pk": {"S": "a"}, "n": {"N": "1"}}
            assert roles(later) == ["kept"]
            assert [bucket["Name"] for bucket in client(later, "s3").list_buckets()["Buckets"]] == ["empty"]
            assert client(later, "iam").get_role(RoleName="kept")["Role"]["RoleId"] == kept_id
            assert client(later, "secretsmanager").get_secret_value(SecretId="key")["SecretString"] == "drawn once"


def send(aws: EmbeddedAws, item: bytes) -> int:
    """Put an item by a request of just these bytes; returns the status."""
    environment = aws.environment
    request = AWSRequest(
        "POST",
        f"{aws.endpoint}/",
        data=item,
        headers={"X-Amz-Target": "DynamoDB_20120810.PutItem", "Content-Type": "application/x-amz-json-1.0"},
    )
    credentials = Credentials(environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"])
    SigV4Auth(credentials, "dynamodb", environment["AWS_REGION"]).add_auth(request)
    return httpx.post(f"{aws.endpoint}/", content=item, headers=dict(request.headers)).status_code


def test_a_failed_write_fails_again_and_other_encodings_are_saved(tmp_path: Path) -> None:
    with EmbeddedAws(tmp_path) as first:
        make_table(first)
        # Neither half of a surrogate pair nor a byte that is no UTF-8 can be a key: MiniStack fails over them.
        assert send(first, rb'{"TableName":"kept","Item":{"pk":{"S":"half \ud800"}}}') == 500
        assert send(first, b'{"TableName":"kept","Item":{"pk":{"S":"byte \xff"}}}') == 500
        assert send(first, '{"TableName":"kept","Item":{"pk":{"S":"wide"}}}'.encode("utf-16")) == 200
        put(first, "after")
        settle(first)
        os.kill(first.pid, signal.SIGKILL)
    with EmbeddedAws(tmp_path) as later:
        assert keys(later) == ["after", "wide"]


def test_writes_are_refused_from_a_failed_save_to_the_next_one_that_succeeds(tmp_path: Path) -> None:
    numbers = itertools.count()
    with EmbeddedAws(tmp_path) as aws:
        make_table(aws)
        put(aws, "before")
        settle(aws)
        resource.prlimit(aws.pid, resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
        answered: list[str] = []

        def put_another() -> None:
            put(aws, name := f"key {next(numbers)}")
            answered.append(name)

        until(lambda: is_refused(put_another))
        assert all(is_refused(write) for write in (put_another, lambda: make_role(aws, "r"), put_another))
        assert keys(aws) == sorted(["before", *answered])  # readers do not wait for room
        resource.prlimit(aws.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        until(lambda: not is_refused(put_another))
        settle(aws)
        os.kill(aws.pid, signal.SIGKILL)
    with EmbeddedAws(tmp_path) as later:
        assert keys(later) == sorted(["before", *answered])
        assert roles(later) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a folder on a separate file system of 16 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(disk)], check=False, capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def bodies(aws: EmbeddedAws) -> dict[str, bytes]:
    s3 = client(aws, "s3")
    objects = s3.list_objects_v2(Bucket="lake").get("Contents", [])
    return {item["Key"]: s3.get_object(Bucket="lake", Key=item["Key"])["Body"].read() for item in objects}


def test_on_a_full_disk_writes_are_refused_and_acknowledged_writes_are_kept(small_disk: Path) -> None:
    state = small_disk / "state"
    answered: dict[str, bytes] = {}
    with EmbeddedAws(state) as aws:
        s3 = client(aws, "s3")
        make_table(aws)
        put(aws, "before")
        s3.create_bucket(Bucket="lake")

        def put_object(key: str, body: bytes) -> None:
            s3.put_object(Bucket="lake", Key=key, Body=body)
            answered[key] = body

        def copy(source: str, target: str) -> None:
            s3.copy_object(Bucket="lake", Key=target, CopySource={"Bucket": "lake", "Key": source})
            answered[target] = answered[source]

        for number in range(80):
            is_refused(lambda number=number: put_object(f"part-{number:02}", b"%02d" % number * 250_000))  # type: ignore[misc]
        assert 10 < len(answered) < 40
        assert is_refused(lambda: copy("part-00", "part-01"))  # a request without a body that writes one
        assert is_refused(lambda: put_object("part-02", b"other" * 100_000))
        assert bodies(aws) == answered
        (small_disk / "others").write_bytes(bytes(shutil.disk_usage(small_disk).free))
        for write in (lambda: put(aws, "refused"), lambda: make_role(aws, "r"), lambda: put_object("tiny", b"x")):
            assert is_refused(write)
        assert bodies(aws) == answered
        (small_disk / "others").unlink()
        s3.delete_object(Bucket="lake", Key="part-00")
        del answered["part-00"]
        # A save that failed while the disk was full leads to refusals until the next one.
        until(lambda: not is_refused(lambda: put(aws, "after")))
        put_object("part-01", b"another")
        settle(aws)
        os.kill(aws.pid, signal.SIGKILL)
    with EmbeddedAws(state) as later:
        assert bodies(later) == answered
        assert keys(later) == ["after", "before"]
        assert roles(later) == []


def test_unpacked_layers_are_removed_at_the_end_or_at_the_next_start(tmp_path: Path) -> None:
    scratch, package = tmp_path / "tmp", BytesIO()
    with ZipFile(package, "w") as archive:
        archive.writestr("app.py", "def handler(event, context):\n    return __file__\n")
    with EmbeddedAws(tmp_path) as aws:
        functions = client(aws, "lambda")
        make_role(aws, "any", {"Service": "lambda.amazonaws.com"})
        functions.create_function(
            FunctionName="told",
            Runtime="python3.13",
            Handler="app.handler",
            Role="arn:aws:iam::000000000000:role/any",
            Code={"ZipFile": package.getvalue()},
        )
        folder = Path(json.load(functions.invoke(FunctionName="told")["Payload"]))
        assert folder.is_relative_to(scratch)
    assert not scratch.exists()
    leftover = scratch / "of one that was killed"
    leftover.mkdir(parents=True)
    with EmbeddedAws(tmp_path):
        assert not leftover.exists()
    assert not scratch.exists()


def test_concurrent_writes_are_all_saved(tmp_path: Path) -> None:
    names = [f"key {number}" for number in range(40)]
    with EmbeddedAws(tmp_path) as aws:
        make_table(aws)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(partial(put, aws), names))
        settle(aws)
        os.kill(aws.pid, signal.SIGKILL)
    with EmbeddedAws(tmp_path) as later:
        assert keys(later) == sorted(names)


@pytest.mark.parametrize(
    ("content", "refusal"),
    [
        (b"{}", "cannot be read"),
        (b'{"format":2,"services":', "cannot be read"),
        (b'{"format":3,"services":{}}', "newer version of Deltaic"),
        (b'{"format":2,"services":{"iam":{"version":99,"payload":{}}}}', "newer version of Deltaic"),
    ],
)
def test_an_unreadable_state_is_refused_by_name_and_not_changed(tmp_path: Path, content: bytes, refusal: str) -> None:
    with EmbeddedAws(tmp_path) as aws:
        make_table(aws)
    path = tmp_path / "aws" / "state.json"
    path.write_bytes(content)
    with pytest.raises(StateUnusable, match=f"{path} .*{refusal}"), EmbeddedAws(tmp_path):
        pass
    assert path.read_bytes() == content
    path.unlink()
    with EmbeddedAws(tmp_path) as restarted:
        assert client(restarted, "dynamodb").list_tables()["TableNames"] == []


@pytest.mark.parametrize("older", ["state-1.json", "journal-0.jsonl", "dynamodb.json"])
def test_a_state_of_an_earlier_version_is_refused(tmp_path: Path, older: str) -> None:
    (tmp_path / "aws").mkdir()
    (tmp_path / "aws" / older).write_bytes(b"")
    with pytest.raises(StateUnusable, match="earlier version of Deltaic"), EmbeddedAws(tmp_path):
        pass
    assert [path.name for path in (tmp_path / "aws").iterdir()] == [older]


def test_the_state_folder_is_private_and_has_its_own_secret(tmp_path: Path) -> None:
    secrets: list[str] = []
    for name in ("one", "two"):
        state = tmp_path / name
        with EmbeddedAws(state) as aws:
            make_table(aws)
            client(aws, "s3").create_bucket(Bucket="lake")
            client(aws, "s3").put_object(Bucket="lake", Key="a/b", Body=b"x")
            secrets.append(aws.environment["AWS_SECRET_ACCESS_KEY"])
        open_to_others = [path for path in [state, *state.rglob("*")] if stat.S_IMODE(path.stat().st_mode) & 0o077]
        assert open_to_others == []
        with EmbeddedAws(state) as restarted:
            assert restarted.environment["AWS_SECRET_ACCESS_KEY"] == secrets[-1]
    assert secrets[0] != secrets[1]


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("POST", "/_ministack/reset", {}),
        ("POST", "/_ministack/config", {}),
        ("GET", "/_localstack/health", {}),
        ("GET", "/_ministack/health", {"Host": "rebound.example"}),
        ("GET", "/_ministack/health", {"Origin": "https://page.example"}),
        ("GET", "/_ministack/health", {"Origin": "null"}),
        ("GET", "/_ministack/health", {"Sec-Fetch-Site": "cross-site"}),
        ("GET", "/", {}),
        ("GET", "/", {"Authorization": "Bearer x"}),
        ("GET", "/?x=X-Amz-Credential=&y=X-Amz-Signature=", {}),
        ("GET", "/", {"Host": "lake.localhost"}),
        ("HEAD", "/", {}),
        ("OPTIONS", "/", {}),
        ("GET", "//", {}),
        ("GET", "/lake?location", {}),
        ("HEAD", "/no-such-bucket", {}),
        ("PUT", "/a-bucket-of-nobody", {}),
        ("DELETE", "/lake", {}),
        ("GET", "/health", {}),
        ("OPTIONS", "/lake/a", {"Origin": "https://page.example", "Access-Control-Request-Method": "PUT"}),
    ],
)
def test_requests_of_web_pages_and_unsigned_requests_are_refused(
    embedded_aws: EmbeddedAws, method: str, path: str, headers: dict[str, str]
) -> None:
    answer = httpx.request(method, embedded_aws.endpoint + path, headers=headers)
    assert answer.status_code == 403
    assert not [name for name in answer.headers if name.startswith("access-control-")]


@pytest.mark.parametrize("origin", [None, "http://127.0.0.1:3000", "http://localhost"])
def test_local_programs_are_accepted_without_cors_headers_for_pages(
    embedded_aws: EmbeddedAws, origin: str | None
) -> None:
    answer = httpx.get(f"{embedded_aws.endpoint}/_ministack/health", headers={"Origin": origin} if origin else {})
    assert answer.status_code == 200
    assert "*" not in [value for name, value in answer.headers.items() if name.startswith("access-control-")]


def test_signals_during_the_shutdown_lose_no_write(tmp_path: Path) -> None:
    with EmbeddedAws(tmp_path) as aws:
        iam = client(aws, "iam")
        for number in range(20):
            iam.create_user(UserName=f"user{number}")
        iam.close()
        for _ in range(1000):
            with suppress(ProcessLookupError):
                os.kill(aws.pid, signal.SIGTERM)
            time.sleep(0.001)
    with EmbeddedAws(tmp_path) as aws:
        assert len(client(aws, "iam").list_users()["Users"]) == 20
