"""Run a complete server on one machine: the embedded AWS, the template's resources and the gateway.

`deltaic serve`, the demo and the tests run `local_stack`. It starts two processes and does not change the environment
of the calling process. The gateway process has the functions' environment from its start, so
`deltaic.settings.settings()` is correct there from the first call.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from deltaic.errors import NotFound

from deltaic_ops.deploy.outputs import DEFAULT_STACK, stack_outputs
from deltaic_ops.deploy.sam_template import TEMPLATE, Template, load_template
from deltaic_ops.local.access_logs import FOLDER
from deltaic_ops.local.embedded import EmbeddedAws, bind_port
from deltaic_ops.local.private import UMASK, private_folder, private_log
from deltaic_ops.local.resources import PARAMETERS, connect, prepare
from deltaic_ops.local.state_folder import announce_server, lock_state

STOP_SECONDS = 15.0
EMBEDDED = "embedded AWS"


class StackFailed(Exception):
    """The embedded AWS or the gateway did not start, or has ended; the message names the process and its log."""


@dataclass(frozen=True, slots=True)
class Stack:
    """A running local server: the gateway and, usually, the embedded AWS."""

    endpoint: str
    """Delta Sharing endpoint for profiles, for example http://127.0.0.1:8000/delta-sharing."""
    environment: Mapping[str, str]
    """Environment variables that connect AWS tools, Spark and the CLI to the same AWS and catalog."""
    processes: Mapping[str, int]
    """Ids of the server's processes, by name."""

    @property
    def embedded(self) -> bool:
        """Return whether this server uses the embedded AWS."""
        return EMBEDDED in self.processes

    def check(self) -> None:
        """Raise StackFailed if one of the server's processes has ended."""
        for name, pid in self.processes.items():
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                raise StackFailed(f"the process of the {name} has stopped unexpectedly")


@contextmanager
def local_stack(
    state: Path,
    port: int = 0,
    *,
    parameters: Mapping[str, str] | None = None,
    path: Path = TEMPLATE,
) -> Iterator[Stack]:
    """Run the embedded AWS and the gateway, both on loopback, until the block ends.

    The gateway's port opens last, when the embedded AWS is ready and announced. `parameters` are template parameters,
    for example ResponseStreaming. Raises StateUnusable, StackFailed, TemplateError.
    """
    values = {**PARAMETERS, **(parameters or {})}
    template = load_template(path, values)
    with ExitStack() as parts:
        lock = parts.enter_context(lock_state(state))
        listener = parts.enter_context(_bind(port))
        aws = EmbeddedAws(state, lock=lock)
        environment = {**aws.environment, **template.environment}
        # The gateway loads its functions while the AWS below it starts: they meet at the first request.
        gateway = _GatewayProcess(state, environment, (path, values), listener, lock)
        parts.callback(gateway.stop)
        parts.callback(aws.stop)
        aws.start()
        clients = connect(aws.environment)  # boto3 takes as long to load as the AWS to start, so both do at once
        from botocore.exceptions import ClientError

        try:
            aws.wait()
            prepare(template, clients)
        except (RuntimeError, ClientError) as error:  # for example, the disk is full
            raise StackFailed(str(error)) from error
        variables = {**aws.environment, **_tables(template), "DELTAIC_ENDPOINT": gateway.wait_until_ready()}
        # The AWS ends with this process, so others check this process to know whether the AWS is running.
        parts.enter_context(announce_server(state, variables))
        parts.callback(gateway.stop)  # before the AWS, which its last responses need
        gateway.open()
        yield Stack(variables["DELTAIC_ENDPOINT"], variables, {EMBEDDED: aws.pid, "gateway": gateway.pid})


@contextmanager
def gateway_over(environment: Mapping[str, str], state: Path, port: int = 0) -> Iterator[Stack]:
    """Run the gateway with the AWS that these variables select, without creating resources there.

    The functions' variables (CATALOG_TABLE, TOKENS_TABLE, ...) come from `environment`, otherwise from the outputs of
    the deployed stack (DELTAIC_STACK, default `deltaic`), otherwise from the template. Without a stack, URLs are signed
    with the caller's credentials. The port opens when the functions are loaded. Raises StateUnusable, StackFailed,
    TemplateError.
    """
    template = load_template(parameters=PARAMETERS)
    outputs = {} if environment.get("CATALOG_TABLE") else _stack_variables(environment)
    variables = {**template.environment, "SIGNING_ROLE_ARN": "", "ICEBERG_BUCKET": "", **outputs, **environment}
    private_folder(state)
    with _bind(port) as listener, ExitStack() as parts:
        gateway = _GatewayProcess(state, variables, (TEMPLATE, PARAMETERS), listener)
        parts.callback(gateway.stop)
        endpoint = gateway.wait_until_ready()
        gateway.open()
        yield Stack(endpoint, {name: variables[name] for name in _tables(template)}, {"gateway": gateway.pid})


def _stack_variables(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the functions' variables from a deployed stack's outputs; empty if the stack is missing or unreadable."""
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        session = boto3.Session(
            profile_name=environment.get("AWS_PROFILE"),
            region_name=environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION"),
        )
        client = session.client("cloudformation", endpoint_url=environment.get("AWS_ENDPOINT_URL"))
        outputs = stack_outputs(client, environment.get("DELTAIC_STACK", DEFAULT_STACK))
    except (NotFound, BotoCoreError, ClientError):
        return {}
    region = {"AWS_REGION": session.region_name} if session.region_name else {}
    return {
        **region,
        "CATALOG_TABLE": outputs.catalog_table,
        "TOKENS_TABLE": outputs.tokens_table,
        "TOKEN_KEY_SECRET": outputs.token_key_secret,
        "SIGNING_ROLE_ARN": outputs.signing_role_arn,
        "ICEBERG_BUCKET": outputs.iceberg_bucket,
    }


def _bind(port: int) -> socket.socket:
    try:
        return bind_port(port)
    except OSError as error:
        raise StackFailed(
            f"cannot use port {port} on 127.0.0.1 ({error.strerror}): choose another with --port (0: any free port)"
        ) from error


def _tables(template: Template) -> Mapping[str, str]:
    names = ("CATALOG_TABLE", "TOKENS_TABLE", "TOKEN_KEY_SECRET", "SIGNING_ROLE_ARN", "ICEBERG_BUCKET")
    return {name: template.environment[name] for name in names if name in template.environment}


class _GatewayProcess:
    """The gateway's process, which inherits the bound socket, and the lock of the state folder, if any."""

    def __init__(
        self,
        state: Path,
        environment: Mapping[str, str],
        template: tuple[Path, Mapping[str, str]],
        listener: socket.socket,
        *locks: int,
    ) -> None:
        self._log = state / "gateway.log"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        arguments = ["--listener", str(listener.fileno()), "--logs", str(state / FOLDER)]
        arguments += [
            "--template",
            str(template[0]),
            *(f"--parameter={name}={value}" for name, value in template[1].items()),
        ]
        unlimited = {"STREAM_LIMIT_BYTES": "0", "PAGE_BYTES": "0"}  # without Lambda's limits, responses need no pages
        with listener, private_log(self._log) as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "deltaic_ops.local.gateway_process", *arguments],
                env={**unlimited, **inherited, **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                pass_fds=(listener.fileno(), *locks),
                umask=UMASK,
                start_new_session=True,  # Ctrl-C goes only to the parent, which stops processes in order
            )
        self.pid = self._process.pid
        self._opened = False

    def open(self) -> None:
        """Make the process open its port, and wait until it is open; raises StackFailed."""
        assert self._process.stdin is not None  # noqa: S101 -- stdin=PIPE
        self._opened = True
        with suppress(BrokenPipeError):  # it has ended, which wait_until_ready reports
            os.write(self._process.stdin.fileno(), b"open\n")
        self.wait_until_ready()

    def stop(self) -> None:
        """Stop the process when it has sent its current responses."""
        process = self._process
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        if not self._opened:
            process.terminate()  # it may still be loading its functions
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def wait_until_ready(self) -> str:
        """Wait until the functions are loaded, or the port is open; return the endpoint, or raise StackFailed."""
        assert self._process.stdout is not None  # noqa: S101 -- stdout=PIPE
        line = self._process.stdout.readline()
        message = json.loads(line) if line else {"error": "the process has ended"}
        if "error" in message:
            raise StackFailed(f"the gateway did not start: {message['error']}; read its log {self._log}")
        endpoint: str = message["endpoint"]
        return endpoint
