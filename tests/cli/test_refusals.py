"""Exit codes and messages: 1 for a refused request, 2 for a usage error; JSON on request."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltaic_ops.local.embedded import free_port
from deltaic_pipeline.publish import main as publish

if TYPE_CHECKING:
    from cli.conftest import Deltaic

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("line", "code"),
    [
        pytest.param("share create VACCINE_share", "RESOURCE_ALREADY_EXISTS", id="exists"),
        pytest.param("share create a/b", "INVALID_PARAMETER_VALUE", id="name"),
        pytest.param("share show nothing", "RESOURCE_DOES_NOT_EXIST", id="absent"),
        pytest.param("share delete vaccine_share", "CONFLICT", id="children"),
        pytest.param("schema delete vaccine_share.acme", "CONFLICT", id="schema-children"),
        pytest.param("table create vaccine_share.acme.t --location /tmp/x", "INVALID_PARAMETER_VALUE", id="location"),
        pytest.param("table list vaccine_share.none", "RESOURCE_DOES_NOT_EXIST", id="schema"),
        pytest.param("grant create bob vaccine_share", "RESOURCE_DOES_NOT_EXIST", id="recipient"),
        pytest.param("grant revoke alice other", "RESOURCE_DOES_NOT_EXIST", id="grant"),
        pytest.param("token revoke alice none", "RESOURCE_DOES_NOT_EXIST", id="token"),
        pytest.param("storage delete none", "RESOURCE_DOES_NOT_EXIST", id="storage"),
    ],
)
def test_a_refused_request_exits_with_1_and_a_message(filled: Deltaic, line: str, code: str) -> None:
    people = filled(line)
    assert (people.exit_code, people.stdout) == (1, "")
    assert people.stderr.startswith("refused: ")
    scripts = filled(f"{line} --json")
    assert (scripts.exit_code, scripts.stdout) == (1, "")
    body = json.loads(scripts.stderr)
    assert body["errorCode"] == code
    assert f"refused: {body['message']}\n" == people.stderr


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("shares list", id="noun"),
        pytest.param("share make x", id="verb"),
        pytest.param("share create", id="argument"),
        pytest.param("share create x --colour red", id="option"),
        pytest.param("share create x --property owner", id="property"),
        pytest.param("schema create vaccine_share", id="schema"),
        pytest.param("schema create .acme", id="schema-share"),
        pytest.param("table create acme.patients --location s3://bucket/x", id="table"),
        pytest.param("table create s.d.t", id="location"),
        pytest.param("table create s.d.t --location s3://bucket/x --start-version -1", id="version"),
        pytest.param("table update s.d.t --auxiliary s3://bucket/x --no-auxiliary", id="auxiliary"),
        pytest.param("table update s.d.t --partition-filter 'a = 1' --no-partition-filter", id="filter or none"),
        pytest.param("table update s.d.t --hide-columns a --no-hide-columns", id="hidden or none"),
        pytest.param("grant update a s --partition-filter 'a = 1' --no-partition-filter", id="grant's filter or none"),
        pytest.param("grant update a s", id="nothing to change"),
        pytest.param("token create alice --expires soon", id="duration"),
        pytest.param("token create alice --expires 90", id="unit"),
        pytest.param("token rotate alice --overlap=-1d", id="overlap"),
        pytest.param("storage create m --access-key-id AKIDEXAMPLE", id="half-a-key"),
        pytest.param("storage create m --secret-access-key-stdin", id="other-half"),
        pytest.param("grant list --recipient a --share b", id="both"),
        pytest.param("share list --stack", id="no stack"),
        pytest.param("share list --profile x", id="the older name of the AWS profile behind a command"),
        pytest.param("share show -- x --stack y", id="behind --"),
    ],
)
def test_a_usage_error_exits_with_2_before_any_request_to_aws(nowhere: Deltaic, line: str) -> None:
    result = nowhere(line)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Usage: " in result.stderr


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("model version add m three", "'VERSION': 'three' is not a whole number: write digits, such as 3"),
        ("pull a b --every x", "'--every': 'x' is not a number: write digits, such as 1.5"),
        ("table create s.d.t --start-version -1", "'--start-version': -1 is too small: write 0 or more"),
        ("serve --port 65536", "'--port': 65536 is too large: write 65535 or less"),
        ("table create s.d.t --format csv", "'--format': 'csv' is not one of 'delta', 'iceberg'."),
    ],
)
def test_an_invalid_value_is_refused_in_plain_words(nowhere: Deltaic, line: str, message: str) -> None:
    assert nowhere(line).stderr.endswith(f"\nError: Invalid value for {message}\n")


@pytest.mark.parametrize(("typed", "meant"), [("shares", "share"), ("Grants", "grant"), ("pipelin", "pipeline")])
def test_a_misspelled_command_suggests_the_nearest(nowhere: Deltaic, typed: str, meant: str) -> None:
    result = nowhere(f"{typed} list")
    assert (result.exit_code, f"'{typed}': did you mean {meant}?" in result.stderr) == (2, True), result.stderr
    assert "did you mean" not in nowhere("xyzzy list").stderr


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("share show vacine_share", "share 'vacine_share' not found: did you mean vaccine_share?"),
        ("schema show vaccine_share.acne", "schema 'vaccine_share.acne' not found: did you mean acme?"),
        ("table show vaccine_share.acme.patient", "'vaccine_share.acme.patient' not found: did you mean patients?"),
        ("table show vaccine_share.acne.patients", "schema 'vaccine_share.acne' not found: did you mean acme?"),
        ("table delete vacine_share.acme.patients", "share 'vacine_share' not found: did you mean vaccine_share?"),
        ("grant create alcie vaccine_share", "recipient 'alcie' not found: did you mean alice?"),
        (
            "grant create vaccine_share alice",
            "share 'alice' not found: 'alice' is a recipient. Write RECIPIENT before SHARE",
        ),
        ("token create alcie", "recipient 'alcie' not found: did you mean alice?"),
        ("storage show mino", "storage 'mino' not found: did you mean minio?"),
        ("table show vaccine_share.acme.xyzzy", "table 'vaccine_share.acme.xyzzy' not found"),
        ("view show vaccine_share.acme.patients", "view 'vaccine_share.acme.patients' not found"),
    ],
)
def test_a_misspelled_name_suggests_the_nearest_existing_name(filled: Deltaic, line: str, message: str) -> None:
    result = filled(line)
    assert (result.exit_code, result.stderr.endswith(f"{message}\n")) == (1, True), result.stderr
    assert json.loads(filled(f"{line} --json").stderr)["message"].endswith(message)


def test_a_missing_server_prints_one_line_without_a_traceback(deltaic: Deltaic) -> None:
    endpoint = f"http://127.0.0.1:{free_port()}"
    result = deltaic("share list", AWS_ENDPOINT_URL=endpoint)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"refused: no response from {endpoint} (from AWS_ENDPOINT_URL)")
    assert 'eval "$(deltaic env)"' in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_missing_tables_print_one_line_without_a_traceback(deltaic: Deltaic) -> None:
    result = deltaic("share list --json", CATALOG_TABLE="no-such-table")
    assert result.exit_code == 1
    assert json.loads(result.stderr)["errorCode"] == "RESOURCE_DOES_NOT_EXIST"


def test_an_unknown_aws_profile_prints_one_line_without_a_traceback(deltaic: Deltaic) -> None:
    for line in (
        "--aws-profile no-such-profile share list",
        "--profile no-such-profile share list",
        "share list --aws-profile no-such-profile",
        "share --aws-profile=no-such-profile list",
        "token create alice --profile alice.share --aws-profile no-such-profile",
    ):
        result = deltaic(line)
        assert (result.exit_code, "(no-such-profile)" in result.stderr) == (1, True), result.stderr
        assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "url", ["nonsense", "http://", "http://[", "http://a:b", "http://127.0.0.1:99999", "http://a b"]
)
def test_an_invalid_endpoint_is_refused_with_its_value(deltaic: Deltaic, url: str) -> None:
    for result in (
        deltaic(f"--endpoint-url {shlex.quote(url)} share list"),
        deltaic("share list", AWS_ENDPOINT_URL=url),
        deltaic(f"storage create minio --endpoint {shlex.quote(url)}"),
    ):
        assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)
        assert f"'{url}' is not an endpoint: write https://host" in result.stderr


@pytest.mark.parametrize(
    "state",
    [
        pytest.param("file", id="file"),
        pytest.param("file/below", id="below-a-file"),
        pytest.param("x" * 300, id="300-letters"),
        pytest.param("/proc/state", id="unwritable"),
        pytest.param("lock-is-a-folder", id="lock"),
    ],
)
def test_an_invalid_state_folder_prints_one_line(nowhere: Deltaic, tmp_path: Path, state: str) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "lock-is-a-folder" / "lock").mkdir(parents=True)
    for line in (f"--state {tmp_path / state} share list --json", f"env --state {tmp_path / state}"):
        result = nowhere(line)
        assert (result.exit_code, result.stdout) == (1, "")
        assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [
        pytest.param(["--state", "file"], {}, id="state-is-a-file"),
        pytest.param(["--state", "log-is-a-folder"], {}, id="log-cannot-be-written"),
        pytest.param([], {"AWS_ENDPOINT_URL": "http://["}, id="no-endpoint"),
        pytest.param([], {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, id="an-aws-that-has-ended"),
    ],
)
def test_a_server_that_cannot_start_prints_one_line(
    tmp_path: Path, arguments: list[str], variables: dict[str, str]
) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "log-is-a-folder" / "gateway.log").mkdir(parents=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "DELTAIC_"))}
    command: list[str | Path] = [Path(sys.executable).with_name("deltaic"), "serve", "--port", "0", *arguments]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment | variables, capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1


def test_a_message_with_line_breaks_is_printed_as_one_line(nowhere: Deltaic) -> None:
    result = nowhere("--profile 'a\nb' share list")
    assert result.exit_code == 1
    assert "(a b)" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("line", [["--help"], ["share", "list", "--help"]], ids=" ".join)
def test_a_closed_terminal_prints_one_line(line: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [Path(sys.executable).with_name("deltaic"), *line],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.startswith("refused: a file cannot be used (No space left on device)")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("wait", ["nan", "inf", "-1", "1e300", "soon"])
def test_the_option_for_waiting_needs_a_number_of_seconds(wait: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        publish(["--from", "x.csv", "--format", "csv", "--to", "s3://bucket/x", f"--wait={wait}"])
    assert ended.value.code == 2
    assert "Error: Invalid value for '--wait': '" in capsys.readouterr().err


SCRIPT = str(Path(sys.executable).with_name("deltaic"))


@pytest.mark.parametrize(
    ("call", "path", "variables", "hint"),
    [
        pytest.param("deltaic", str(Path(SCRIPT).parent), {}, "deltaic", id="on the PATH"),
        pytest.param(SCRIPT, "/usr/bin:/bin", {}, SCRIPT, id="by its path"),
        # uv puts the environment's folder on the PATH of its command only.
        pytest.param(
            "deltaic", str(Path(SCRIPT).parent), {"UV_RUN_RECURSION_DEPTH": "1"}, "uv run deltaic", id="by uv run"
        ),
    ],
)
def test_hints_show_the_command_as_it_was_called(
    tmp_path: Path, call: str, path: str, variables: dict[str, str], hint: str
) -> None:
    def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
        here = {"HOME": str(tmp_path), "PATH": path, "AWS_EC2_METADATA_DISABLED": "true", **variables}
        program = shutil.which(call, path=path) or call
        return subprocess.run(
            [program, *arguments], env=here, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
        )

    assert f"`{hint} serve`" in run_command("share", "list").stderr
    assert f"Usage: {hint} share [OPTIONS]" in run_command("share", "lisst").stderr
    assert f"\n  {hint} share create vaccine_share" in run_command("share", "create", "--help").stdout
    (tmp_path / "empty.yaml").write_text("")
    assert f"`{hint} pipeline schema`" in run_command("pipeline", "check", "empty.yaml").stdout


def test_data_that_looks_like_a_hint_is_not_changed(filled: Deltaic) -> None:
    filled.done("share update vaccine_share --comment 'see deltaic share list'")
    output = filled("share show vaccine_share", UV_RUN_RECURSION_DEPTH="1")
    scripted = filled("share show vaccine_share --json", UV_RUN_RECURSION_DEPTH="1")
    assert "see deltaic share list" in output.stdout
    assert json.loads(scripted.stdout)["comment"] == "see deltaic share list"
