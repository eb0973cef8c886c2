"""Run the embedded AWS: a MiniStack process that enforces signatures, roles and policies."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from deltaic_ops.local.aws_variables import administrator
from deltaic_ops.local.private import (
    UMASK,
    StateUnusable,
    folder_secret,
    private_folder,
    private_log,
    read_private,
    unusable,
    write_private,
)
from deltaic_ops.local.request_guard import HEALTH

ROOT_KEY_ID = "deltaicroot"
START_TIMEOUT_SECONDS = 60.0
STOP_TIMEOUT_SECONDS = 20.0
FORGET = "--forget"
UNUSABLE: Final = 3
"""Exit code of the MiniStack process if it cannot read its state; the last line of its log is the reason."""


def free_port() -> int:
    """Return a free loopback port, which another program can take before it is used."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def bind_port(port: int = 0) -> socket.socket:
    """Bind a socket to a loopback port, or to a free port for 0; raises OSError."""
    # asyncio sets TCP_NODELAY only on sockets with an explicit protocol.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        # Closed connections of an earlier server must not block the port. Two sockets can then bind the same port, and
        # the second one to listen fails with an OSError.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
    except (OSError, OverflowError):
        listener.close()
        raise
    return listener


def is_healthy(port: int, path: str) -> bool:
    """Return whether an emulator's health check on this port returns a JSON object."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status == http.client.OK and isinstance(json.loads(response.read()), dict)
    except (OSError, ValueError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _stable_port(path: Path) -> int:
    """Return the port of the previous run if it is free, so that AWS variables in other shells stay valid."""
    with suppress(OSError, OverflowError, ValueError), bind_port(int(read_private(path))) as listener:
        return int(listener.getsockname()[1])
    port = free_port()
    try:
        write_private(path, str(port))
    except OSError as error:
        raise unusable(path.parent, error) from error
    return port


class EmbeddedAws:
    """A MiniStack process on a loopback port, with `AUTH=true` and its state in a folder.

    It enforces signatures and expiry of signed URLs, roles, session policies and the permissions of each function's
    role as AWS does. A write of an object returns when it is on disk; tables, secrets and roles are saved within a
    second (saved_state.py). Each folder has its own secret access key for the administrator.
    """

    def __init__(self, state: Path, *, lock: int | None = None, persistent: bool = True) -> None:
        """Prepare the state folder; raises StateUnusable if that fails.

        `lock` is the descriptor of the folder's lock (state_folder.py), which the process holds until it ends.
        Without `persistent`, only objects are written to disk, which is faster for tests.
        """
        self.state = state
        private_folder(state)
        self.port = _stable_port(state / "port")
        self._log = state / "ministack.log"
        self._scratch = state / "tmp"
        self._secret = folder_secret(state / "root-secret")
        self._locks = () if lock is None else (lock,)
        self._options = () if persistent else (FORGET,)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """URL of the embedded AWS, for AWS_ENDPOINT_URL."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Id of the MiniStack process; 0 while it is not running."""
        return self._process.pid if self._process is not None else 0

    @property
    def environment(self) -> Mapping[str, str]:
        """AWS environment variables that connect tools to the embedded AWS as its administrator."""
        return administrator(self.endpoint, ROOT_KEY_ID, self._secret)

    def start(self) -> None:
        """Start the MiniStack process without waiting until it is ready; see `wait`."""
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
            **self.environment,
            "AUTH": "true",
            "GATEWAY_PORT": str(self.port),
            "BIND_HOST": "127.0.0.1",
            "MINISTACK_HOST": "127.0.0.1",
            "PERSIST_STATE": "0",  # saved_state.py saves more often
            "S3_PERSIST": "1",
            "S3_DATA_DIR": str(self.state / "s3"),
            "LAMBDA_EXECUTOR": "local",
            "LOG_LEVEL": "WARNING",
            # Each function's process unpacks its layers there, 230 MB, and leaves them if it is killed.
            "TMPDIR": str(self._scratch),
            # Unused services, whose listeners would open ports on all interfaces.
            "IOT_MTLS_ENABLED": "0",
            "SFTP_ENABLED": "0",
            # The embedded AWS starts functions with `python3.x` from the PATH: find this Python first.
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        }
        del environment["AWS_ENDPOINT_URL"]
        shutil.rmtree(self._scratch, ignore_errors=True)
        private_folder(self._scratch)
        with private_log(self._log) as sink:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "deltaic_ops.local.ministack_server", str(self.state / "aws"), *self._options],
                env=environment,
                umask=UMASK,
                stdin=subprocess.PIPE,  # closes when this process ends or is killed, which stops the other process
                stdout=sink,
                stderr=sink,
                start_new_session=True,
                pass_fds=self._locks,  # if this process is killed, the folder stays locked until the other one ends
            )

    def wait(self) -> None:
        """Wait until the embedded AWS is ready; raises StateUnusable (bad state) or RuntimeError (did not start)."""
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not is_healthy(self.port, HEALTH):
            if self._process is None or self._process.poll() is not None or time.monotonic() > deadline:
                tail = self._log.read_text(errors="replace")[-2000:]
                if self._process is not None and self._process.returncode == UNUSABLE:
                    raise StateUnusable(tail.rstrip().rpartition("\n")[2])
                raise RuntimeError(f"the embedded AWS did not start on {self.endpoint}; its log ends with:\n{tail}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Let the MiniStack process save its state, and stop it; a second call does nothing."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            self.start()
            self.wait()
        except BaseException:  # Ctrl-C as well
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
