"""Refusals of `deltaic localstack`, and the record of an emulator in a state folder."""

import json
import os
import socket
from pathlib import Path

import pytest
import yaml
from deltaic_ops.cli import app
from deltaic_ops.cli.aws_selection import GlobalOptions, connection
from deltaic_ops.deploy.intrinsics import read
from deltaic_ops.deploy.outputs import reachable_endpoint
from deltaic_ops.deploy.sam import translate
from deltaic_ops.deploy.sam_template import TEMPLATE
from deltaic_ops.localstack import containers, instance
from deltaic_ops.localstack.instance import Running
from emulators import engines, starting
from emulators.engines import ENGINES, LOCALEMU
from typer.testing import CliRunner, Result


def deltaic(state: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["--state", str(state), *arguments])


def test_deploy_without_a_running_localstack_is_refused(tmp_path: Path) -> None:
    refused = deltaic(tmp_path / "s", "localstack", "deploy")
    assert refused.exit_code == 1
    assert "no LocalStack is up" in refused.stderr
    assert "deltaic localstack up" in refused.stderr
    assert deltaic(tmp_path / "s", "localstack", "status").exit_code == 1
    assert json.loads(deltaic(tmp_path / "s", "localstack", "status", "--json").stdout) == {"up": False}


def test_a_machine_without_docker_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    refused = deltaic(tmp_path / "s", "localstack", "up")
    assert refused.exit_code == 1
    assert "Docker with Compose is not available" in refused.stderr
    assert "deltaic serve`" in refused.stderr


def test_a_failed_start_is_reported_with_the_log_and_removes_the_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script in place of Docker, which is not on every machine: `up` fails, and `logs` prints a line."""
    docker = tmp_path / "docker"
    docker.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n'
        'case "$*" in *" up "*) echo port is already allocated >&2; exit 1;; *" logs "*) echo license missing;; esac\n'
    )
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv("LOCALSTACK_AUTH_TOKEN", raising=False)
    refused = deltaic(tmp_path / "s", "localstack", "up")
    assert refused.exit_code == 1
    assert "(LOCALSTACK_AUTH_TOKEN is not set): port is already allocated license missing" in refused.stderr
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [next(word for word in line.split() if word in {"up", "logs", "down"}) for line in calls] == [
        "up",
        "logs",
        "down",
    ]


def test_down_without_a_running_localstack_is_reported(tmp_path: Path) -> None:
    ended = deltaic(tmp_path / "s", "localstack", "down")
    assert ended.exit_code == 0
    assert "LocalStack was not running" in ended.stderr
    assert (tmp_path / "s").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_the_packages_of_an_emulator_include_its_version(engine: engines.Engine) -> None:
    packages = Path(engines.__file__).with_name(f"{engine.name}.txt").read_text()
    assert f"\n{engine.name}=={engine.version} " in packages


def test_commands_use_the_running_emulator_until_its_port_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name in ("CATALOG_TABLE", "TOKENS_TABLE"):  # nobody answers at the port below
        monkeypatch.setenv(name, "table")
    state = tmp_path / "s"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        emulator = Running(f"http://127.0.0.1:{listener.getsockname()[1]}", "id", "secret")
        instance.record_emulator(state, emulator)
        assert instance.running_emulator(state) == emulator
        assert connection(GlobalOptions(state=state)).environment["AWS_ENDPOINT_URL"] == emulator.endpoint
        repeated = deltaic(state, "localstack", "up", "--json")
        assert (repeated.exit_code, json.loads(repeated.stdout)) == (0, {"up": True, "endpoint": emulator.endpoint})
        assert (state / "localstack" / "running.json").stat().st_mode & 0o077 == 0
    assert instance.running_emulator(state) is None
    assert deltaic(state, "localstack", "status").exit_code == 1


@pytest.mark.parametrize(
    ("aws", "host"),
    [
        ("", "https://a1.execute-api.eu-west-1.amazonaws.com/delta-sharing"),
        ("https://dynamodb.eu-west-1.amazonaws.com", "https://a1.execute-api.eu-west-1.amazonaws.com/delta-sharing"),
        ("http://127.0.0.1:4566/", "http://127.0.0.1:4566/_aws/execute-api/a1/delta-sharing"),
    ],
)
def test_the_endpoint_of_a_stack_is_a_path_on_the_emulator(aws: str, host: str) -> None:
    assert reachable_endpoint("https://a1.execute-api.eu-west-1.amazonaws.com/delta-sharing", aws) == host


def test_a_custom_domain_is_not_changed() -> None:
    endpoint = "https://shares.example/delta-sharing"
    assert reachable_endpoint(endpoint, "http://127.0.0.1:4566") == endpoint


def test_the_container_is_pinned_and_listens_on_loopback() -> None:
    document = yaml.safe_load(containers.COMPOSE.read_text())
    [service] = document["services"].values()
    assert service["image"].startswith("localstack/localstack-pro:4.")
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert service["environment"]["ENFORCE_IAM"] == "1"
    assert service["environment"]["LOCALSTACK_AUTH_TOKEN"] == "${LOCALSTACK_AUTH_TOKEN:-}"


def test_the_template_can_be_transformed_before_it_is_deployed() -> None:
    document = read(TEMPLATE)
    for name, resource in document["Resources"].items():
        for key in {"CodeUri", "ContentUri"} & resource.get("Properties", {}).keys():
            resource["Properties"][key] = f"s3://artifacts/{name}"  # as `sam package` leaves it
    template = translate(document, {"DataBuckets": "arn:aws:s3:::lake"})
    assert "Transform" not in template
    assert {definition["Type"] for definition in template["Resources"].values()} >= {
        "AWS::Lambda::Alias",
        "AWS::ApiGateway::RestApi",
    }
    assert not [
        definition
        for definition in template["Resources"].values()
        if definition["Type"].startswith("AWS::Serverless::")
    ]
    layers = [
        definition for definition in template["Resources"].values() if definition["Type"] == "AWS::Lambda::LayerVersion"
    ]
    assert {"S3Bucket": "artifacts", "S3Key": "DeltaicLayer"} in [
        definition["Properties"]["Content"] for definition in layers
    ]
    json.dumps(template)  # as it is written


def test_an_emulator_uses_only_its_folder_and_loopback(tmp_path: Path) -> None:
    environment = starting.environment(LOCALEMU, tmp_path, 4570, "key")
    assert {Path(environment[name]).parent for name in ("HOME", "TMPDIR", "FILESYSTEM_ROOT")} == {tmp_path}
    assert (environment["GATEWAY_SERVER"], environment["GATEWAY_LISTEN"]) == ("hypercorn", "127.0.0.1:4570")
    assert (environment["IAM_ENFORCEMENT"], environment["ROOT_ACCESS_KEYS"]) == ("1", "key")
    assert environment["S3_SKIP_SIGNATURE_VALIDATION"] == "0"
    assert not [name for name in environment if name.startswith("AWS_")]
