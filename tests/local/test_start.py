"""A server's port opens when the server is ready, and earlier clients wait."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from deltaic_ops.local.embedded import bind_port, free_port
from deltaic_ops.local.stack import local_stack
from deltaic_ops.local.state_folder import LOCK, lock_state, running_environment, wait_for_environment
from filled_server import Entry, catalog_of, fill

pytestmark = pytest.mark.slow

SECONDS = 120
SMALL = Path(__file__).parent / "small"
DELTAIC = [sys.executable, "-c", "from deltaic_ops.cli import main; main()"]
Process = subprocess.Popen[str]


@dataclass(frozen=True)
class StateFolder:
    """A state folder without a server, with one share and the token of its recipient."""

    state: Path
    token: str

    def shares(self, connection: http.client.HTTPConnection) -> list[str]:
        """List the shares as the recipient."""
        connection.request("GET", "/delta-sharing/shares", headers={"Authorization": f"Bearer {self.token}"})
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body
        return [share["name"] for share in json.loads(body)["items"]]

    def log(self) -> str:
        """Return the content of the lock."""
        lock = self.state / LOCK
        return lock.read_text() if lock.exists() else ""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> StateFolder:
    state = tmp_path_factory.mktemp("filled") / "state"
    with local_stack(state) as stack:
        readers = fill(catalog_of(stack.environment), [Entry("kept")], {"reader": ["kept"]})
        return StateFolder(state, readers["reader"].token)


@pytest.fixture
def state_folder(filled: StateFolder, tmp_path: Path) -> StateFolder:
    return StateFolder(shutil.copytree(filled.state, tmp_path / "state"), filled.token)


@contextmanager
def started(*command: str, environment: Mapping[str, str] | None = None) -> Iterator[Process]:
    """Start a process and end it, if it has not, as Ctrl-C does."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "DELTAIC_"))}
    with subprocess.Popen(
        command,
        env={**variables, **(environment or {}), "COLUMNS": "200", "AWS_EC2_METADATA_DISABLED": "true"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=SECONDS)


def serving(state: Path, port: int = 0) -> list[str]:
    return [*DELTAIC, "serve", "--state", str(state), "--port", str(port)]


def done(process: Process) -> tuple[int, str, str]:
    stdout, err = process.communicate(timeout=SECONDS)
    return process.returncode, stdout, err


def line(process: Process) -> str:
    """Return the next line on standard error."""
    assert process.stderr is not None
    return process.stderr.readline()


def until(true: Callable[[], object], process: Process) -> None:
    """Wait until something is true of a process that runs."""
    deadline = time.monotonic() + SECONDS
    while not true():
        assert process.poll() is None, done(process)
        assert time.monotonic() < deadline
        time.sleep(0.001)


def children(process: Process) -> list[str]:
    return Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()


@contextmanager
def first_connection(port: int, process: Process) -> Iterator[http.client.HTTPConnection]:
    """Knock until the door opens; what is not open refuses, and nothing else is an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)

    def is_open() -> bool:
        try:
            connection.connect()
        except ConnectionRefusedError:
            return False
        return True

    with closing(connection):
        until(is_open, process)
        yield connection


def test_the_port_opens_after_the_server_is_announced_and_ready(state_folder: StateFolder) -> None:
    port = free_port()
    with started(*serving(state_folder.state, port)) as server, first_connection(port, server) as connection:
        environment = running_environment(state_folder.state)  # at once: before anything is asked
        assert environment is not None
        assert environment["DELTAIC_ENDPOINT"] == f"http://127.0.0.1:{port}/delta-sharing"
        assert state_folder.shares(connection) == ["kept"]


def test_a_selected_aws_is_ready_before_the_port_opens(state_folder: StateFolder, tmp_path: Path) -> None:
    port = free_port()
    with (
        local_stack(state_folder.state) as stack,
        started(*serving(tmp_path / "gateway", port), environment=stack.environment) as server,
        first_connection(port, server) as connection,
    ):
        assert state_folder.shares(connection) == ["kept"]


def test_the_gateway_opens_its_port_on_request_after_its_functions_are_loaded(tmp_path: Path) -> None:
    template = shutil.copytree(SMALL, tmp_path / "small") / "template.yaml"
    go = tmp_path / "go"
    wait = f"import pathlib, time\nwhile not pathlib.Path({str(go)!r}).exists():\n    time.sleep(0.01)\n"
    slow = template.parent / "echo" / "app.py"
    slow.write_text(wait + slow.read_text())
    with bind_port() as listener:
        address = listener.getsockname()
        gateway = gateway_process(template, listener)
    with gateway:
        assert gateway.stdin is not None
        assert gateway.stdout is not None
        refused(address)
        go.touch()
        assert json.loads(gateway.stdout.readline()) == {"endpoint": f"http://127.0.0.1:{address[1]}/small"}
        refused(address)
        gateway.stdin.write("open\n")
        gateway.stdin.flush()
        gateway.stdout.readline()
        connection = http.client.HTTPConnection(address[0], address[1], timeout=SECONDS)
        connection.request("GET", "/small/echo/fixed", headers={"Authorization": "Bearer alice"})
        assert connection.getresponse().status == 200
        connection.close()
    assert gateway.returncode == 0


def test_a_function_that_cannot_be_loaded_is_reported(tmp_path: Path) -> None:
    template = shutil.copytree(SMALL, tmp_path / "small") / "template.yaml"
    (template.parent / "echo" / "app.py").write_text("import nothing_like_it")
    with bind_port() as listener:
        gateway = gateway_process(template, listener)
    with gateway:
        assert gateway.stdout is not None
        message = json.loads(gateway.stdout.readline())
        assert message == {"error": "ModuleNotFoundError: No module named 'nothing_like_it'"}
    assert gateway.returncode == 1


def gateway_process(template: Path, listener: socket.socket) -> Process:
    number = listener.fileno()
    command = [sys.executable, "-m", "deltaic_ops.local.gateway_process", "--template", str(template)]
    return subprocess.Popen(
        [*command, "--listener", str(number)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        pass_fds=[number],
    )


def refused(address: tuple[str, int]) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


def test_a_port_in_use_is_reported_before_anything_starts(tmp_path: Path) -> None:
    with bind_port() as listener:
        listener.listen()
        port = listener.getsockname()[1]
        with started(*serving(tmp_path, port)) as server:
            code, _, errors = done(server)
    assert code == 1
    assert (
        errors == f"cannot use port {port} on 127.0.0.1 (Address already in use): choose another with --port "
        "(0: any free port)\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == [LOCK]


def test_a_port_that_another_server_opens_in_the_meantime_ends_the_start(tmp_path: Path) -> None:
    with bind_port() as listener:
        port = listener.getsockname()[1]
        with started(*serving(tmp_path, port)) as server:
            until(lambda: children(server), server)
            listener.listen()
            code, _, errors = done(server)
    assert (code, errors.count("\n")) == (1, 1)
    assert f"port {port}: Address already in use" in errors
    assert wait_for_environment(tmp_path) is None


def test_commands_wait_for_a_starting_server(state_folder: StateFolder) -> None:
    command = [*DELTAIC, "--state", str(state_folder.state)]
    with (
        stopped_while_starting(state_folder) as server,
        started(*command, "env") as env,
        started(*command, "share", "list", "--json") as shares,
        started(*command, "recipient", "create", "late", "--json") as recipient,
    ):
        commands = [env, shares, recipient]
        waits = f"waiting for process {server.pid}, which uses {state_folder.state}\n"
        assert [line(each) for each in commands] == [waits] * 3
        server.send_signal(signal.SIGCONT)
        with ThreadPoolExecutor(3) as pool:
            ended = list(pool.map(done, commands))
        assert [(code, errors) for code, _, errors in ended] == [(0, "")] * 3
        endpoint = line(server).split()[1]
        assert f"export DELTAIC_ENDPOINT={endpoint}\n" in ended[0][1]
        assert "export AWS_ALLOW_HTTP=true\n" in ended[0][1]
        assert [share["name"] for share in json.loads(ended[1][1])] == ["kept"]
        assert json.loads(ended[2][1])["name"] == "late"


def test_commands_that_waited_for_a_failed_start_report_that_no_server_is_running(state_folder: StateFolder) -> None:
    command = [*DELTAIC, "--state", str(state_folder.state)]
    with (
        stopped_while_starting(state_folder) as server,
        started(*command, "env") as env,
        started(*command, "share", "list") as shares,
    ):
        for each in (env, shares):
            assert line(each).startswith(f"waiting for process {server.pid}")
        server.kill()
        server.wait()
        for each in (env, shares):
            code, output, errors = done(each)
            assert (code, output, errors.count("\n")) == (1, "", 1)
            assert f"no local server is running in {state_folder.state}" in errors
            assert "deltaic serve" in errors


@contextmanager
def stopped_while_starting(state_folder: StateFolder) -> Iterator[Process]:
    """Start a server, and stop its process when it reports that it is starting."""
    with started(*serving(state_folder.state)) as server:
        until(state_folder.log, server)
        server.send_signal(signal.SIGSTOP)
        yield server


def test_a_waiting_or_starting_server_stops_at_once(state_folder: StateFolder) -> None:
    with lock_state(state_folder.state), started(*serving(state_folder.state)) as server:
        message = line(server)
        for number in range(50):
            server.send_signal((signal.SIGTERM, signal.SIGINT)[number % 2])
        assert done(server) == (130, "", "stopped\n")
    assert message == f"waiting for process {os.getpid()}, which uses {state_folder.state}\n"
    with started(*serving(state_folder.state)) as server:
        until(lambda: len(children(server)) == 2, server)
        for number in range(50):
            server.send_signal((signal.SIGINT, signal.SIGTERM)[number % 2])
        assert done(server) == (130, "", "stopped\n")
    with lock_state(state_folder.state):
        assert running_environment(state_folder.state) is None


def test_a_server_that_is_killed_at_its_start_releases_the_folder(state_folder: StateFolder) -> None:
    port = free_port()
    reached: list[Callable[[Process], object]] = [
        lambda server: len(children(server)) >= 1,
        lambda server: len(children(server)) >= 2,
        lambda server: any(map(answers, children(server))),
        lambda _: running_environment(state_folder.state),
    ]
    for phase in reached:
        with started(*serving(state_folder.state, port)) as server:
            until(partial(phase, server), server)
            server.kill()
            server.wait()
    with lock_state(state_folder.state):
        pass  # what the last of them started has ended too, and answers on the port no more
    with started(*serving(state_folder.state, port)) as server, first_connection(port, server) as connection:
        assert state_folder.shares(connection) == ["kept"]


def answers(pid: str) -> bool:
    """Return whether a process is an embedded AWS that accepts connections."""
    variables = dict(pair.split("=", 1) for pair in Path(f"/proc/{pid}/environ").read_text().split("\0") if "=" in pair)
    if "GATEWAY_PORT" not in variables:
        return False
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(variables["GATEWAY_PORT"]))) == 0
