"""The embedded AWS keeps what it has answered, over a kill and a full disk, and refuses a state that it cannot read."""

import json
import os
import resource
import signal
import stat
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any
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
    known = aws.environment
    session = boto3.Session(known["AWS_ACCESS_KEY_ID"], known["AWS_SECRET_ACCESS_KEY"], region_name=known["AWS_REGION"])
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
    trusted = [{"Effect": "Allow", "Principal": one, "Action": "sts:AssumeRole"} for one in principals]
    document = json.dumps({"Version": "2012-10-17", "Statement": trusted})
    role: str = client(aws, "iam").create_role(RoleName=name, AssumeRolePolicyDocument=document)["Role"]["RoleId"]
    return role


def test_whatever_was_answered_outlives_a_kill(tmp_path: Path) -> None:
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
        os.kill(first.pid, signal.SIGKILL)
    for _ in range(2):  # what was repeated once is not repeated again
        with EmbeddedAws(tmp_path) as later:
            item = client(later, "dynamodb").get_item(TableName="kept", Key={"pk": {"S": "a"}})["Item"]
            assert item == {"pk": {"S": "a"}, "n": {"N": "1"}}
            assert roles(later) == ["kept"]
            assert client(later, "iam").get_role(RoleName="kept")["Role"]["RoleId"] == kept_id
            assert client(later, "secretsmanager").get_secret_value(SecretId="key")["SecretString"] == "drawn once"


def send(aws: EmbeddedAws, item: bytes) -> int:
    """Put an item by a request of just these bytes; returns the status."""
    known = aws.environment
    request = AWSRequest(
        "POST",
        f"{aws.endpoint}/",
        data=item,
        headers={"X-Amz-Target": "DynamoDB_20120810.PutItem", "Content-Type": "application/x-amz-json-1.0"},
    )
    credentials = Credentials(known["AWS_ACCESS_KEY_ID"], known["AWS_SECRET_ACCESS_KEY"])
    SigV4Auth(credentials, "dynamodb", known["AWS_REGION"]).add_auth(request)
    return httpx.post(f"{aws.endpoint}/", content=item, headers=dict(request.headers)).status_code


def test_a_write_that_failed_fails_again_and_one_in_other_letters_is_kept(tmp_path: Path) -> None:
    with EmbeddedAws(tmp_path) as first:
        make_table(first)
        # Neither half of a surrogate pair nor a byte that is no UTF-8 can be a key: MiniStack fails over them.
        assert send(first, rb'{"TableName":"kept","Item":{"pk":{"S":"half \ud800"}}}') == 500
        assert send(first, b'{"TableName":"kept","Item":{"pk":{"S":"byte \xff"}}}') == 500
        assert send(first, '{"TableName":"kept","Item":{"pk":{"S":"wide"}}}'.encode("utf-16")) == 200
        put(first, "after")
        os.kill(first.pid, signal.SIGKILL)
    with EmbeddedAws(tmp_path) as later:
        assert keys(later) == ["after", "wide"]


def test_on_a_full_disk_a_write_is_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    with EmbeddedAws(tmp_path) as aws:
        make_table(aws)
        put(aws, "a")
        resource.prlimit(aws.pid, resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
        for write in (lambda: put(aws, "b"), lambda: make_role(aws, "r")):
            with pytest.raises(ClientError, match="the state folder cannot be written"):
                write()
        os.kill(aws.pid, signal.SIGKILL)
    with EmbeddedAws(tmp_path) as later:
        assert keys(later) == ["a"]
        assert roles(later) == []


def test_what_is_unpacked_for_functions_is_gone_with_the_process_or_when_the_next_one_starts(tmp_path: Path) -> None:
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
        told = Path(json.load(functions.invoke(FunctionName="told")["Payload"]))
        assert told.is_relative_to(scratch)
    assert not scratch.exists()
    left = scratch / "of one that was killed"
    left.mkdir(parents=True)
    with EmbeddedAws(tmp_path):
        assert not left.exists()
    assert not scratch.exists()


def test_with_room_on_the_disk_again_writes_are_kept_again(tmp_path: Path) -> None:
    with EmbeddedAws(tmp_path) as aws:
        make_table(aws)
        resource.prlimit(aws.pid, resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
        with pytest.raises(ClientError, match="the state folder cannot be written"):
            make_role(aws, "r")
        resource.prlimit(aws.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        put(aws, "c")
        os.kill(aws.pid, signal.SIGKILL)
    with EmbeddedAws(tmp_path) as later:
        assert keys(later) == ["c"]
        assert roles(later) == ["r"]  # who was refused did not hear of it; it was made all the same


def test_writes_at_once_are_all_kept(tmp_path: Path) -> None:
    names = [f"key {number}" for number in range(40)]
    with EmbeddedAws(tmp_path) as aws:
        make_table(aws)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(partial(put, aws), names))
        os.kill(aws.pid, signal.SIGKILL)
    with EmbeddedAws(tmp_path) as later:
        assert keys(later) == sorted(names)


@pytest.mark.parametrize(
    ("content", "refusal"),
    [
        (b"{}", "cannot be read"),
        (b'{"format":2,"services":', "cannot be read"),
        (b'{"format":3,"services":{}}', "newer Deltaic"),
        (b'{"format":2,"services":{"iam":{"version":99,"payload":{}}}}', "newer Deltaic"),
    ],
)
def test_a_state_that_cannot_be_read_is_refused_by_name_and_left_as_it_is(
    tmp_path: Path, content: bytes, refusal: str
) -> None:
    with EmbeddedAws(tmp_path) as aws:
        make_table(aws)
    path = tmp_path / "aws" / "state.json"
    path.write_bytes(content)
    with pytest.raises(StateUnusable, match=f"{path} .*{refusal}"), EmbeddedAws(tmp_path):
        pass
    assert path.read_bytes() == content
    path.unlink()
    with EmbeddedAws(tmp_path) as again:
        assert client(again, "dynamodb").list_tables()["TableNames"] == []


@pytest.mark.parametrize("older", ["state-1.json", "journal-0.jsonl", "dynamodb.json"])
def test_a_state_of_an_earlier_version_is_refused(tmp_path: Path, older: str) -> None:
    (tmp_path / "aws").mkdir()
    (tmp_path / "aws" / older).write_bytes(b"")
    with pytest.raises(StateUnusable, match="earlier Deltaic"), EmbeddedAws(tmp_path):
        pass
    assert [path.name for path in (tmp_path / "aws").iterdir()] == [older]


def test_nothing_in_the_folder_is_for_others_and_the_secret_is_its_own(tmp_path: Path) -> None:
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
        with EmbeddedAws(state) as again:
            assert again.environment["AWS_SECRET_ACCESS_KEY"] == secrets[-1]
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
def test_strangers_are_refused(embedded_aws: EmbeddedAws, method: str, path: str, headers: dict[str, str]) -> None:
    answer = httpx.request(method, embedded_aws.endpoint + path, headers=headers)
    assert answer.status_code == 403
    assert not [name for name in answer.headers if name.startswith("access-control-")]


@pytest.mark.parametrize("origin", [None, "http://127.0.0.1:3000", "http://localhost"])
def test_programs_on_this_machine_are_answered_and_no_page_is_allowed_more(
    embedded_aws: EmbeddedAws, origin: str | None
) -> None:
    answer = httpx.get(f"{embedded_aws.endpoint}/_ministack/health", headers={"Origin": origin} if origin else {})
    assert answer.status_code == 200
    assert "*" not in [value for name, value in answer.headers.items() if name.startswith("access-control-")]
