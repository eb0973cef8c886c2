"""A working server on one machine: the embedded AWS, the template's resources in it, the gateway.

`local_stack` is what `deltaic serve`, the demo and the tests run. It starts two processes and changes nothing in the
caller's: the functions' environment is the gateway process's own, set before any of them is loaded, so
`deltaic.settings.settings()` is right there from its first call and is not touched here.
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
from deltaic_ops.local.aws_limits import Limits
from deltaic_ops.local.embedded import EmbeddedAws, bound
from deltaic_ops.local.private import UMASK, private_folder, private_log
from deltaic_ops.local.resources import PARAMETERS, connect, prepare
from deltaic_ops.local.state_folder import announced, locked

STOP_SECONDS = 15.0
EMBEDDED = "embedded AWS"


class StackFailed(Exception):
    """A part of the stack did not start, or has ended; the message says which, and where its log is."""


@dataclass(frozen=True, slots=True)
class Stack:
    """A running server."""

    endpoint: str
    """What a profile names as endpoint, e.g. http://127.0.0.1:8000/delta-sharing."""
    environment: Mapping[str, str]
    """The variables with which AWS tools, Spark and the CLI reach the same AWS and the same tables."""
    processes: Mapping[str, int]
    """The processes by name."""

    @property
    def embedded(self) -> bool:
        """Whether the AWS is the embedded one."""
        return EMBEDDED in self.processes

    def check(self) -> None:
        """Raise StackFailed if one of the processes has ended."""
        for name, pid in self.processes.items():
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                raise StackFailed(f"the {name} has ended unexpectedly")


@contextmanager
def local_stack(
    state: Path,
    port: int = 0,
    *,
    parameters: Mapping[str, str] | None = None,
    path: Path = TEMPLATE,
    limits: Limits = "none",
) -> Iterator[Stack]:
    """Run the embedded AWS and the gateway over it, both on loopback, until the block ends.

    The gateway's port opens last: whoever is answered there finds the AWS ready and announced. `parameters` are the
    template's (such as ResponseStreaming); `limits` says whose limits answers are held to. Raises StateUnusable,
    StackFailed, TemplateError.
    """
    values = {**PARAMETERS, **(parameters or {})}
    template = load_template(path, values)
    with ExitStack() as parts:
        lock = parts.enter_context(locked(state, to_serve=True))
        listener = parts.enter_context(_port(port))
        aws = EmbeddedAws(state, lock=lock)
        environment = {**aws.environment, **template.environment}
        # The gateway loads its functions while the AWS below it starts: they meet at the first request.
        gateway = _GatewayProcess(state, environment, (path, values), listener, lock, limits=limits)
        parts.callback(gateway.stop)
        parts.callback(aws.stop)
        aws.start()
        clients = connect(aws.environment)  # boto3 takes as long to load as the AWS to start, so both do at once
        from botocore.exceptions import ClientError

        try:
            aws.wait()
            prepare(template, clients)
        except (RuntimeError, ClientError) as error:  # such as of a disk that is full
            raise StackFailed(str(error)) from error
        outside = {**aws.environment, **_tables(template), "DELTAIC_ENDPOINT": gateway.answer()}
        # The AWS ends with this process, so this is the one whose life tells whether it runs.
        parts.enter_context(announced(state, aws.endpoint, os.getpid(), outside))
        parts.callback(gateway.stop)  # before the AWS that its answers need
        gateway.open()
        yield Stack(outside["DELTAIC_ENDPOINT"], outside, {EMBEDDED: aws.pid, "gateway": gateway.pid})


@contextmanager
def gateway_over(
    environment: Mapping[str, str], state: Path, port: int = 0, *, limits: Limits = "none"
) -> Iterator[Stack]:
    """Run the gateway over the AWS that the variables name; nothing is created there (`sam deploy` does that).

    Variables of the functions (CATALOG_TABLE, TOKENS_TABLE, ...) are taken from `environment`, else from the outputs of
    the deployed stack (DELTAIC_STACK, `deltaic`), else from the template; URLs are then signed as whoever serves. The
    port opens when the functions are loaded. Raises StateUnusable, StackFailed, TemplateError.
    """
    template = load_template(parameters=PARAMETERS)
    deployed = {} if environment.get("CATALOG_TABLE") else _deployed(environment)
    together = {**template.environment, "SIGNING_ROLE_ARN": "", "ICEBERG_BUCKET": "", **deployed, **environment}
    private_folder(state)
    with _port(port) as listener, ExitStack() as parts:
        gateway = _GatewayProcess(state, together, (TEMPLATE, PARAMETERS), listener, limits=limits)
        parts.callback(gateway.stop)
        endpoint = gateway.answer()
        gateway.open()
        yield Stack(endpoint, {name: together[name] for name in _tables(template)}, {"gateway": gateway.pid})


def _deployed(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return what a deployed stack says of its tables, key and role; nothing if there is none or it cannot be asked."""
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


def _port(port: int) -> socket.socket:
    """Take the gateway's port before anything is started; raises StackFailed."""
    try:
        return bound(port)
    except OSError as error:
        raise StackFailed(
            f"port {port} on 127.0.0.1 cannot be taken ({error.strerror}): choose another with --port (0: any)"
        ) from error


def _tables(template: Template) -> Mapping[str, str]:
    names = ("CATALOG_TABLE", "TOKENS_TABLE", "TOKEN_KEY_SECRET", "SIGNING_ROLE_ARN", "ICEBERG_BUCKET")
    return {name: template.environment[name] for name in names if name in template.environment}


class _GatewayProcess:
    """The gateway's process, from its start on. It is given the listener, and holds the folder's lock too, if any."""

    def __init__(
        self,
        state: Path,
        environment: Mapping[str, str],
        template: tuple[Path, Mapping[str, str]],
        listener: socket.socket,
        *locks: int,
        limits: Limits,
    ) -> None:
        self._log = state / "gateway.log"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        told = ["--listener", str(listener.fileno()), "--logs", str(state / FOLDER), "--limits", limits]
        told += [
            "--template",
            str(template[0]),
            *(f"--parameter={name}={value}" for name, value in template[1].items()),
        ]
        # Nothing here slows or ends a long answer as Lambda does, unless whoever serves wants to see that.
        unlimited = {"STREAM_LIMIT_BYTES": "0", "PAGE_BYTES": "0"} if limits == "none" else {}
        with listener, private_log(self._log) as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "deltaic_ops.local.gateway_process", *told],
                env={**unlimited, **inherited, **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                pass_fds=(listener.fileno(), *locks),
                umask=UMASK,
                start_new_session=True,  # Ctrl-C is for the parent, which knows the order of stopping
            )
        self.pid = self._process.pid
        self._opened = False

    def open(self) -> None:
        """Let it open its port; returns when it has, raises StackFailed if it cannot."""
        assert self._process.stdin is not None  # noqa: S101 -- a pipe was asked for
        self._opened = True
        with suppress(BrokenPipeError):  # then it has ended, and its answer is missing
            os.write(self._process.stdin.fileno(), b"open\n")
        self.answer()

    def stop(self) -> None:
        """Let it end what it answers, then end it."""
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

    def answer(self) -> str:
        """Wait until its functions are loaded, or its port is open; return where it serves, or raise StackFailed."""
        assert self._process.stdout is not None  # noqa: S101 -- a pipe was asked for
        line = self._process.stdout.readline()
        said = json.loads(line) if line else {"error": "it has ended"}
        if "error" in said:
            raise StackFailed(f"the gateway did not start: {said['error']}; its log is {self._log}")
        endpoint: str = said["endpoint"]
        return endpoint
