"""A state folder has one user at a time, and announces only a running AWS."""

import io
import json
import os
import signal
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, redirect_stderr
from pathlib import Path

import pytest
from deltaic.errors import Conflict
from deltaic_ops.local.embedded import EmbeddedAws, bind_port
from deltaic_ops.local.private import StateUnusable, folder_secret, write_private
from deltaic_ops.local.state_folder import (
    LOCK,
    RUNNING,
    announce_server,
    lock_state,
    running_environment,
    wait_for_environment,
)
from deltaic_ops.localstack.instance import Running, record_emulator
from deltaic_ops.localstack.instance import running_emulator as localstack_running

ENVIRONMENT = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_REGION": "us-east-1"}


def test_a_server_locks_its_folder_and_announces_its_environment(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with (
        lock_state(state),
        announce_server(state, ENVIRONMENT),
        pytest.raises(StateUnusable, match=rf"process {os.getpid()}.*--state"),
        lock_state(state),
    ):
        pass
    with lock_state(state):
        pass


@pytest.mark.parametrize("content", [b"\xff\xfe starting", b"0 starting", b"-1"])
def test_a_lock_without_a_valid_process_is_reported(tmp_path: Path, content: bytes) -> None:
    with lock_state(tmp_path):
        (tmp_path / LOCK).write_bytes(content)
        with (
            pytest.raises(StateUnusable, match="is still in use by child processes of a stopped server"),
            lock_state(tmp_path, seconds=0),
        ):
            pass


def test_a_secret_is_generated_once_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "root-secret"
    secret = folder_secret(path)
    path.chmod(0o644)
    assert folder_secret(path) == secret
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"two\nlines", b"zero\0"])
def test_an_invalid_secret_is_refused_with_its_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "root-secret").write_bytes(content)
    with pytest.raises(StateUnusable, match="root-secret contains no valid secret: remove it"):
        folder_secret(tmp_path / "root-secret")


def test_a_secret_behind_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("known")
    (tmp_path / "root-secret").symlink_to(tmp_path / "theirs")
    with pytest.raises(StateUnusable, match="cannot use the state folder"):
        folder_secret(tmp_path / "root-secret")


def test_waiting_for_a_locked_folder_has_a_limit(tmp_path: Path) -> None:
    with (
        lock_state(tmp_path),
        pytest.raises(StateUnusable, match=f"process {os.getpid()}"),
        lock_state(tmp_path, seconds=0),
    ):
        pass


def test_a_server_that_was_just_started_is_waited_for(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with ThreadPoolExecutor(1) as pool:
        environment = pool.submit(wait_for_environment, state, appear_seconds=60)
        with lock_state(state), announce_server(state, ENVIRONMENT):
            assert environment.result(60) == ENVIRONMENT
    assert wait_for_environment(state) is None


@pytest.mark.parametrize("saved", [None, "", "port", "99999999999", "-1"])
def test_the_embedded_aws_of_a_folder_keeps_its_port(tmp_path: Path, saved: str | None) -> None:
    if saved is not None:
        write_private(tmp_path / "port", saved)
    port = EmbeddedAws(tmp_path).port
    assert EmbeddedAws(tmp_path).port == port
    with bind_port(port) as listener:
        listener.listen()
        second_port = EmbeddedAws(tmp_path).port
    assert second_port != port
    assert EmbeddedAws(tmp_path).port == second_port


def test_a_folder_can_be_locked_after_the_previous_process(tmp_path: Path) -> None:
    def have() -> bool:
        with lock_state(tmp_path):
            return True

    with ThreadPoolExecutor(1) as pool:
        with lock_state(tmp_path):
            had = pool.submit(have)
            assert not had.done()
        assert had.result(30)


def test_a_starting_server_is_waited_for(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool, lock_state(tmp_path):
        future = pool.submit(wait_for_environment, tmp_path)
        assert not future.done()
        with announce_server(tmp_path, ENVIRONMENT):
            assert future.result(30) == ENVIRONMENT


def test_a_folder_whose_server_failed_to_start_can_be_used(tmp_path: Path) -> None:
    def serve() -> bool:
        with lock_state(tmp_path):
            return True

    output = io.StringIO()  # capsys can lose text that is written while it is read
    with redirect_stderr(output), ThreadPoolExecutor(2) as pool:
        with ExitStack() as start:
            start.enter_context(lock_state(tmp_path))
            command, server_ = pool.submit(wait_for_environment, tmp_path), pool.submit(serve)
            deadline = time.monotonic() + 30
            while output.getvalue().count("\n") < 2 and time.monotonic() < deadline:
                time.sleep(0.02)
        assert command.result(30) is None
        assert server_.result(30)
    assert output.getvalue() == f"waiting for process {os.getpid()}, which uses {tmp_path}\n" * 2


def test_a_killed_server_releases_the_folder_when_its_processes_have_ended(tmp_path: Path) -> None:
    part = "import sys; sys.stdin.read()"
    program = f"""
import subprocess, sys
from pathlib import Path
from deltaic_ops.local.state_folder import lock_state
with lock_state(Path({str(tmp_path)!r})) as lock:
    subprocess.Popen([sys.executable, "-c", {part!r}], stdin=sys.stdin, pass_fds=(lock,))
    print("held", flush=True)
    sys.stdin.read()
"""
    server = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    with server.stdin as lifeline, server.stdout as output:
        assert output.readline() == b"held\n"
        server.send_signal(signal.SIGKILL)
        server.wait()
        with pytest.raises(StateUnusable, match="child processes of a stopped server"), lock_state(tmp_path, seconds=0):
            pass
        lifeline.close()
        assert wait_for_environment(tmp_path) is None


def test_an_unused_folder_is_not_changed(tmp_path: Path) -> None:
    assert wait_for_environment(tmp_path / "state") is None
    assert list(tmp_path.iterdir()) == []


def test_a_file_instead_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(StateUnusable, match=r"cannot use the state folder .*file .*--state"),
        lock_state(tmp_path / "file"),
    ):
        pass


def test_a_running_aws_is_announced_until_it_ends(tmp_path: Path) -> None:
    assert running_environment(tmp_path) is None
    with announce_server(tmp_path, ENVIRONMENT):
        assert running_environment(tmp_path) == ENVIRONMENT
        assert json.loads((tmp_path / "aws.json").read_text()) == {"pid": os.getpid(), "environment": ENVIRONMENT}
        assert (tmp_path / "aws.json").stat().st_mode & 0o077 == 0
    assert running_environment(tmp_path) is None


def test_an_aws_whose_process_has_died_is_ignored(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    write_private(tmp_path / RUNNING, json.dumps({"pid": child.pid, "environment": ENVIRONMENT}))
    assert running_environment(tmp_path) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "3",
        '{"pid": 1',
        "{}",
        '{"pid": 1, "environment": []}',
        '{"pid": 1, "environment": "x"}',
        '{"pid": null, "environment": {}}',
        '{"pid": {}, "environment": {}}',
        '{"pid": 1000000000000000000000000000000, "environment": {}}',
        "\udcff",
    ],
)
def test_an_invalid_announcement_is_ignored(tmp_path: Path, text: str) -> None:
    (tmp_path / RUNNING).write_bytes(text.encode(errors="surrogateescape"))
    assert running_environment(tmp_path) is None


def announcement(folder: Path, **environment: str) -> Path:
    folder.mkdir(mode=0o700)
    variables = {"AWS_ENDPOINT_URL": "http://127.0.0.1:4566", **environment}
    write_private(folder / RUNNING, json.dumps({"pid": os.getpid(), "environment": variables}))
    return folder / RUNNING


def test_an_announcement_sets_no_variables_that_could_run_other_code(tmp_path: Path) -> None:
    announcement(tmp_path / "state", LD_PRELOAD="x", PATH="x", AWS_CONFIG_FILE="x", CATALOG_TABLE="c")
    assert running_environment(tmp_path / "state") == {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:4566",
        "CATALOG_TABLE": "c",
    }


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://192.0.2.1:80",
        "https://aws.example",
        "http://127.0.0.1.example:80",
        "http://127.0.0.1:80@aws.example:80",
        "http://[::ffff:192.0.2.1]:80",
        "",
        "http://[",
    ],
)
def test_an_announcement_of_another_machine_is_refused(tmp_path: Path, endpoint: str) -> None:
    announcement(tmp_path / "state", AWS_ENDPOINT_URL=endpoint)
    with pytest.raises(StateUnusable, match="was written by a server on another machine: remove it"):
        running_environment(tmp_path / "state")


def test_an_announcement_that_other_users_can_write_is_refused(tmp_path: Path) -> None:
    file = announcement(tmp_path / "state")
    assert running_environment(tmp_path / "state") is not None
    for path, mode in ((file, 0o622), (file, 0o600), (file.parent, 0o733)):
        path.chmod(mode)
        if mode != 0o600:
            with pytest.raises(StateUnusable, match="other users can write"):
                running_environment(tmp_path / "state")
    file.parent.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(file, 12_345, 12_345)
        with pytest.raises(StateUnusable, match="other users can write"):
            running_environment(tmp_path / "state")


def test_an_announcement_is_not_read_through_a_symbolic_link(tmp_path: Path) -> None:
    file = announcement(tmp_path / "state")
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert running_environment(tmp_path / "state") is None


@pytest.mark.parametrize(("endpoint", "mode"), [("http://192.0.2.1:4566", 0o600), ("http://127.0.0.1:4566", 0o602)])
def test_a_localstack_of_another_user_is_refused(tmp_path: Path, endpoint: str, mode: int) -> None:
    record_emulator(tmp_path, Running(endpoint))
    (tmp_path / "localstack" / "running.json").chmod(mode)
    with pytest.raises(Conflict, match="--state"):
        localstack_running(tmp_path)
