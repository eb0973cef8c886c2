"""Refusals of `deltaic localstack`, and the record of an emulator in a state folder."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from deltaic.errors import Conflict
from deltaic_ops.cli import app
from deltaic_ops.cli.aws_selection import GlobalOptions, connection
from deltaic_ops.deploy.intrinsics import read
from deltaic_ops.deploy.outputs import reachable_endpoint
from deltaic_ops.deploy.sam import translate
from deltaic_ops.deploy.sam_template import TEMPLATE
from deltaic_ops.localstack import containers, instance
from deltaic_ops.localstack.instance import Deployed, Running, deployed_stack, process_start, write_record
from emulators import engines, starting
from emulators.engines import ENGINES, LOCALEMU
from typer.testing import CliRunner, Result


def deltaic(state: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["--state", str(state), *arguments])


def here(pid: int) -> Running:
    return Running("localemu", "1.3.2", "http://127.0.0.1:9", "id", "secret", pid, process_start(pid))


def test_deploy_without_a_running_localstack_is_refused(tmp_path: Path) -> None:
    refused = deltaic(tmp_path / "s", "localstack", "deploy")
    assert refused.exit_code == 1
    assert "no LocalStack is up" in refused.stderr
    assert "deltaic localstack up" in refused.stderr
    assert deltaic(tmp_path / "s", "localstack", "status").exit_code == 1
    assert json.loads(deltaic(tmp_path / "s", "localstack", "status", "--json").stdout) == {"up": False}


def test_a_port_in_use_is_reported_before_docker_is_called(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = str(listener.getsockname()[1])
        refused = deltaic(tmp_path / "s", "localstack", "up", "--port", port)
    assert refused.exit_code == 1
    assert f"port {port} is in use" in refused.stderr
    assert "--port" in refused.stderr


def test_down_without_a_running_localstack_is_reported(tmp_path: Path) -> None:
    ended = deltaic(tmp_path / "s", "localstack", "down")
    assert ended.exit_code == 0
    assert "nothing was up; the build stays" in ended.stderr
    assert (tmp_path / "s").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_the_packages_of_an_emulator_include_its_version(engine: engines.Engine) -> None:
    packages = Path(engines.__file__).with_name(f"{engine.name}.txt").read_text()
    assert f"\n{engine.name}=={engine.version} " in packages


def test_two_localstack_commands_cannot_run_at_once(tmp_path: Path) -> None:
    with (
        instance.lock_folder(tmp_path / "s"),
        pytest.raises(Conflict, match="another `deltaic localstack` command is running"),
    ):
        instance.lock_folder(tmp_path / "s").__enter__()


def test_commands_use_the_running_emulator_until_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")  # nobody answers at the address below, however often it is asked
    state = tmp_path / "s"
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    try:
        with instance.lock_folder(state):
            write_record(state, here(sleeper.pid))
            write_record(state, Deployed("deltaic", "http://127.0.0.1:9/x", "a.share"))
        assert instance.running_emulator(state) == here(sleeper.pid)
        assert connection(GlobalOptions(state=state)).environment["AWS_ENDPOINT_URL"] == "http://127.0.0.1:9"
        repeated = deltaic(state, "localstack", "up", "--json")
        assert (repeated.exit_code, json.loads(repeated.stdout)["pid"]) == (0, sleeper.pid)
        refused = deltaic(state, "localstack", "down")
        assert (refused.exit_code, sleeper.poll()) == (1, None)
        assert "localemu does not run in Docker: stop it with the tool that started it" in refused.stderr
        assert (state / "localstack" / "running.json").stat().st_mode & 0o077 == 0
    finally:
        starting.end(sleeper.pid)
    assert sleeper.poll() is not None
    assert (instance.running_emulator(state), deployed_stack(state)) == (None, None)


def test_a_process_with_a_reused_id_is_not_the_emulator(tmp_path: Path) -> None:
    with instance.lock_folder(tmp_path / "s"):
        write_record(
            tmp_path / "s", Running("localemu", "1", "http://127.0.0.1:9", "i", "s", os.getpid(), "another day")
        )
    assert instance.running_emulator(tmp_path / "s") is None
    assert deltaic(tmp_path / "s", "localstack", "down").exit_code == 0  # which would have ended this very process


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
    assert service["image"].endswith(f":{containers.VERSION}")
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
