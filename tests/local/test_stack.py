"""The whole server on one machine: it starts, serves the real functions, keeps its data and ends in order."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
from botocore.exceptions import ClientError
from deltaic_ops.local.aws_variables import selects_aws
from deltaic_ops.local.private import StateUnusable
from deltaic_ops.local.resources import DATA_BUCKET
from deltaic_ops.local.stack import Stack, local_stack
from deltaic_ops.local.state_folder import running_environment

pytestmark = pytest.mark.slow

COMMAND = "from deltaic_ops.cli import main; main()"


def client(service: Any, environment: Mapping[str, str]) -> Any:
    session = boto3.Session(
        environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"], region_name=environment["AWS_REGION"]
    )
    return session.client(service, endpoint_url=environment["AWS_ENDPOINT_URL"])


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stack") / "state"


@pytest.fixture(scope="module")
def stack(state: Path) -> Iterator[Stack]:
    with local_stack(state) as running_stack:
        yield running_stack
        running_stack.check()


def test_requests_reach_the_real_authorizer(stack: Stack) -> None:
    assert stack.endpoint.endswith("/delta-sharing")
    for headers in ({}, {"Authorization": "Bearer unknown-token"}):
        answer = httpx.get(f"{stack.endpoint}/shares", headers=headers, timeout=30)
        assert (answer.status_code, answer.json()["errorCode"]) == (401, "UNAUTHENTICATED")
    answer = httpx.get(f"{stack.endpoint}/nothing")
    assert (answer.status_code, answer.json()["errorCode"]) == (404, "RESOURCE_DOES_NOT_EXIST")


def test_the_templates_resources_exist(stack: Stack) -> None:
    environment = stack.environment
    dynamodb = client("dynamodb", environment)
    for name in (environment["CATALOG_TABLE"], environment["TOKENS_TABLE"]):
        keys = dynamodb.describe_table(TableName=name)["Table"]["KeySchema"]
        assert [key["KeyType"] for key in keys] == ["HASH", "RANGE"]
    ttl = dynamodb.describe_time_to_live(TableName=environment["TOKENS_TABLE"])["TimeToLiveDescription"]
    assert ttl["TimeToLiveStatus"] == "ENABLED"
    assert (
        len(
            client("secretsmanager", environment).get_secret_value(SecretId=environment["TOKEN_KEY_SECRET"])[
                "SecretString"
            ]
        )
        == 64
    )


def test_the_signing_role_can_only_read(stack: Stack) -> None:
    environment = stack.environment
    client("s3", environment).put_object(Bucket=DATA_BUCKET, Key="t/part", Body=b"rows")
    response = client("sts", environment).assume_role(
        RoleArn=environment["SIGNING_ROLE_ARN"], RoleSessionName="alice", Tags=[{"Key": "recipient", "Value": "alice"}]
    )["Credentials"]
    session = boto3.Session(
        response["AccessKeyId"],
        response["SecretAccessKey"],
        response["SessionToken"],
        region_name=environment["AWS_REGION"],
    )
    s3 = session.client("s3", endpoint_url=environment["AWS_ENDPOINT_URL"])
    assert s3.get_object(Bucket=DATA_BUCKET, Key="t/part")["Body"].read() == b"rows"
    assert 900 < len(response["SessionToken"]) < 1000  # as AWS's: it stands in every URL
    with pytest.raises(ClientError, match="AccessDenied"):
        s3.put_object(Bucket=DATA_BUCKET, Key="t/part", Body=b"other")


def test_a_second_server_cannot_use_the_state_folder(stack: Stack, state: Path) -> None:
    assert stack.embedded
    with pytest.raises(StateUnusable, match="in use by process"), local_stack(state):
        pass


def test_all_processes_listen_only_on_loopback(stack: Stack) -> None:
    mine = {str(pid) for pid in stack.processes.values()}
    links = {str(entry.readlink()) for pid in mine for entry in Path(f"/proc/{pid}/fd").iterdir()}
    sockets = {name[8:-1] for name in links if name.startswith("socket:")}
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    listening = [row[1].split(":")[0] for row in rows if row[3] == "0A" and row[9] in sockets]
    assert len(listening) >= 2
    assert set(listening) == {"0100007F"}


def remembers(environment: Mapping[str, str], key: str) -> bool:
    item = {"pk": {"S": key}, "sk": {"S": "-"}}
    return "Item" in client("dynamodb", environment).get_item(TableName=environment["CATALOG_TABLE"], Key=item)


def put(environment: Mapping[str, str], key: str) -> None:
    item = {"pk": {"S": key}, "sk": {"S": "-"}}
    client("dynamodb", environment).put_item(TableName=environment["CATALOG_TABLE"], Item=item)


class Served:
    """`deltaic serve` in a separate process."""

    def __init__(self, state: Path, environment: Mapping[str, str]) -> None:
        variables = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, "serve", "--port", "0", "--state", str(state)],
            env={**variables, **environment, "COLUMNS": "200"},
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        self.first_line = self.process.stderr.readline()

    @property
    def endpoint(self) -> str:
        return next(part for part in self.first_line.split() if part.startswith("http"))

    def stop(self, number: signal.Signals, *, times: int = 1) -> tuple[int, str]:
        for _ in range(times):
            self.process.send_signal(number)
        _, rest = self.process.communicate(timeout=30)
        return self.process.returncode, rest


def token_key(environment: Mapping[str, str]) -> str:
    manager = client("secretsmanager", environment)
    value: str = manager.get_secret_value(SecretId=environment["TOKEN_KEY_SECRET"])["SecretString"]
    return value


def alive(environment: Mapping[str, str]) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(environment["AWS_ENDPOINT_URL"].rpartition(":")[2]))) == 0


def ask_env(state: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", COMMAND, "env", "--state", str(state)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def answers(endpoint: str) -> bool:
    try:
        httpx.get(f"{endpoint}/shares")
    except httpx.TransportError:
        return False
    return True


def test_serve_is_announced_survives_a_kill_and_stops_in_order(tmp_path: Path) -> None:
    served = Served(tmp_path, {})
    assert httpx.get(f"{served.endpoint}/shares").status_code == 401
    variables = running_environment(tmp_path)
    assert variables is not None
    lines = ask_env(tmp_path).stdout
    assert f"export AWS_ENDPOINT_URL={variables['AWS_ENDPOINT_URL']}\n" in lines
    assert "export CATALOG_TABLE=deltaic-dev-catalog\n" in lines
    assert f"export DELTAIC_ENDPOINT={served.endpoint}\n" in lines

    second = Served(tmp_path, {})
    assert f"is in use by process {served.process.pid}" in second.first_line
    assert second.process.wait(30) == 1
    second.process.communicate()

    put(variables, "kept")
    secret = token_key(variables)
    served.stop(signal.SIGKILL)
    # The embedded AWS and the gateway both detect that their parent has ended.
    deadline = time.monotonic() + 30
    while (alive(variables) or answers(served.endpoint)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not alive(variables)
    assert not answers(served.endpoint)

    restarted = Served(tmp_path, {})
    variables = running_environment(tmp_path)
    assert variables is not None
    assert remembers(variables, "kept")
    assert token_key(variables) == secret
    code, output = restarted.stop(signal.SIGINT, times=50)
    assert (code, output.splitlines()[-1]) == (0, "stopping ...")
    assert not alive(variables)
    assert running_environment(tmp_path) is None
    missing = ask_env(tmp_path)
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "deltaic serve" in missing.stderr


def test_serve_uses_the_aws_that_the_variables_name(stack: Stack, tmp_path: Path) -> None:
    served = Served(tmp_path, stack.environment)
    try:
        answer = httpx.get(f"{served.endpoint}/shares", headers={"Authorization": "Bearer unknown"}, timeout=30)
        assert answer.status_code == 401
        assert running_environment(tmp_path) is None
    finally:
        assert served.stop(signal.SIGTERM, times=50)[0] == 0


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, False),
        ({"AWS_REGION": "us-east-1"}, False),
        ({"AWS_PROFILE": "lake"}, True),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:4566"}, True),
        ({"AWS_ENDPOINT_URL": ""}, False),
    ],
    ids=["none", "region only", "profile", "endpoint", "empty"],
)
def test_selects_aws_checks_the_standard_variables(variables: dict[str, str], *, expected: bool) -> None:
    assert selects_aws(variables) is expected
