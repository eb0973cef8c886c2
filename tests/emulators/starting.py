"""Start and stop an emulator on this machine: one process group, on loopback, files in one folder."""

import os
import secrets
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from deltaic.errors import Conflict, Unavailable
from deltaic_ops.deploy.sam_template import ROOT
from deltaic_ops.local.embedded import bind_port, free_port, is_healthy
from deltaic_ops.local.private import UMASK, private_log
from deltaic_ops.localstack.instance import Running

from emulators.engines import Engine

START_SECONDS: Final = 180.0
STOP_SECONDS: Final = 5.0
LOG: Final = "emulator.log"
FUNCTION_LOGS: Final = "functions"
_CODE = (Path(__file__).parents[1], ROOT / "infra")
"""Folders from which the emulator's Python imports the parts and their dependencies."""


def start(engine: Engine, folder: Path, port: int, dynamodb_local: int = 0) -> tuple[Running, int]:
    """Start the emulator, wait until it is ready, and return it with its process id.

    Raises Conflict if the port is in use, Unavailable if the emulator does not start. `port` 0 takes a free one.
    `dynamodb_local` is the port of a DynamoDB Local for LocalStack, which has none inside.
    """
    port = port or free_port()
    try:
        bind_port(port).close()
    except OSError:
        raise Conflict(f"port {port} is in use: choose another one with --port") from None
    folder = folder.resolve()
    files = folder / "run"
    shutil.rmtree(files, ignore_errors=True)
    for name in ("home", "root", "tmp", FUNCTION_LOGS):
        (files / name).mkdir(mode=0o700, parents=True)
    # The id is the administrator's secret, because the emulator does not check signatures of headers.
    key_id = f"deltaic{secrets.token_hex(8)}"
    variables = {
        **environment(engine, files, port, key_id),
        **({"DYNAMODB_LOCAL_PORT": str(dynamodb_local)} if dynamodb_local else {}),
    }
    log = folder / LOG
    log.unlink(missing_ok=True)
    with private_log(log) as sink:
        process = subprocess.Popen(
            [str(engine.python), "-m", "emulators.parts", engine.module],
            env=variables,
            cwd=files,
            umask=UMASK,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )
    try:
        _wait(process, engine, port, log)
        return Running(f"http://127.0.0.1:{port}", key_id, secrets.token_urlsafe(24)), process.pid
    except BaseException:  # Ctrl-C as well
        end(process.pid)
        raise


def environment(engine: Engine, files: Path, port: int, key_id: str) -> dict[str, str]:
    """Return the variables of its process, which inherits only the path."""
    here = f"127.0.0.1:{port}"
    return {
        "PATH": os.pathsep.join([str(engine.python.parent), os.environ.get("PATH", os.defpath)]),
        "PYTHONPATH": os.pathsep.join(map(str, _CODE)),
        "LANG": "C.UTF-8",
        "HOME": str(files / "home"),
        "FILESYSTEM_ROOT": str(files / "root"),
        "TMPDIR": str(files / "tmp"),  # for the unpacked code of functions
        "OVERRIDE_IN_DOCKER": "0",  # otherwise it writes to /var/lib in other containers
        "GATEWAY_SERVER": "hypercorn",  # the other server always listens on all addresses
        "GATEWAY_LISTEN": here,
        "LOCALSTACK_HOST": here,
        "LOCALEMU_HOST": here,
        "LS_LOG": "warn",
        "DNS_ADDRESS": "0",
        "DISABLE_EVENTS": "1",  # sends no telemetry
        "SKIP_SSL_CERT_DOWNLOAD": "1",
        "S3_SKIP_SIGNATURE_VALIDATION": "0",
        "IAM_ENFORCEMENT": "1",
        "ROOT_ACCESS_KEYS": key_id,
        "LAMBDA_RUNTIME_EXECUTOR": "process",
        "FUNCTIONS_PYTHON": str(engine.functions_python),
        "FUNCTIONS_LOGS": str(files / FUNCTION_LOGS),
    }


def end(pid: int) -> None:
    """Stop the process group and wait for its end: with a signal, then with a kill."""
    for number, seconds in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, STOP_SECONDS)):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, number)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)  # if it is a child of this process
            if not _group_lives(pid):
                return
            time.sleep(0.05)


def _group_lives(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _wait(process: "subprocess.Popen[bytes]", engine: Engine, port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not is_healthy(port, f"/_{engine.module}/health"):
        if process.poll() is not None or time.monotonic() > deadline:
            lines = log.read_text(errors="replace").strip().splitlines()
            last = lines[-1] if lines else "it said nothing"
            raise Unavailable(f"{engine.name} did not start ({last}): see {log}")
        time.sleep(0.2)
