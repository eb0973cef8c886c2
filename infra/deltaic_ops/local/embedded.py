"""The embedded AWS: one MiniStack process that enforces signatures, roles and policies."""

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
    kept_secret,
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
"""The exit code of a process whose state cannot be read; the last line of its log says why."""


def free_port() -> int:
    """Return a loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def bound(port: int = 0) -> socket.socket:
    """Take a loopback port (0: a free one); it refuses connections until the socket listens. Raises OSError."""
    # asyncio sends at once (TCP_NODELAY) only where a socket names its protocol.
    taken = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        # The connections that an earlier server has closed must not keep the port. Two sockets may then take it before
        # one of them listens; for the other, listening is an OSError.
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
    except (OSError, OverflowError):
        taken.close()
        raise
    return taken


def answers(port: int, path: str) -> bool:
    """Return whether an emulator answers at its health address, with an object in JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status == http.client.OK and isinstance(json.loads(answer.read()), dict)
    except (OSError, ValueError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _kept_port(path: Path) -> int:
    """Return the port that was taken before, if it is free, else another: what other shells were told shall hold."""
    with suppress(OSError, OverflowError, ValueError), bound(int(read_private(path))) as before:
        return int(before.getsockname()[1])
    port = free_port()
    try:
        write_private(path, str(port))
    except OSError as error:
        raise unusable(path.parent, error) from error
    return port


class EmbeddedAws:
    """One MiniStack process on loopback, with `AUTH=true` and its state below a folder.

    Signatures and expiry of signed URLs, roles, session policies and the permissions of each function's own role are
    enforced as AWS does. Objects are on disk when a write is answered, tables, secrets and roles within a second
    (saved_state.py). Its administrator's secret is the folder's own.
    """

    def __init__(self, state: Path, *, lock: int | None = None, persistent: bool = True) -> None:
        """`lock` is the descriptor of the folder's lock (state.py), which the process holds too until it has ended.

        What is not `kept` is gone when the process ends: for tests, whose many tables nobody reads again.

        Raises StateUnusable if the folder cannot be used.
        """
        self.state = state
        private_folder(state)
        self.port = _kept_port(state / "port")
        self._log = state / "ministack.log"
        self._scratch = state / "tmp"
        self._secret = kept_secret(state / "root-secret")
        self._locks = () if lock is None else (lock,)
        self._options = () if persistent else (FORGET,)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """The value of AWS_ENDPOINT_URL."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process; 0 while it does not run."""
        return self._process.pid if self._process is not None else 0

    @property
    def environment(self) -> Mapping[str, str]:
        """The ordinary AWS variables with which any AWS tool reaches this one as its administrator."""
        return administrator(self.endpoint, ROOT_KEY_ID, self._secret)

    def start(self) -> None:
        """Start the process; it answers a moment later (`wait`)."""
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
            # Each function's process has its layers unpacked there, 230 MB, and one that is killed leaves them.
            "TMPDIR": str(self._scratch),
            # Listeners for services that nobody here uses, which would take ports beyond loopback.
            "IOT_MTLS_ENABLED": "0",
            "SFTP_ENABLED": "0",
            # Functions run by the embedded AWS start `python3.x` from the PATH: ours first.
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
                stdin=subprocess.PIPE,  # closed when this process ends, however it does: the other one follows
                stdout=sink,
                stderr=sink,
                start_new_session=True,
                pass_fds=self._locks,  # if this process is killed, the folder is free when the other has ended
            )

    def wait(self) -> None:
        """Return when it answers; raises StateUnusable if its state cannot be read, RuntimeError with the log's end."""
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not answers(self.port, HEALTH):
            if self._process is None or self._process.poll() is not None or time.monotonic() > deadline:
                tail = self._log.read_text(errors="replace")[-2000:]
                if self._process is not None and self._process.returncode == UNUSABLE:
                    raise StateUnusable(tail.rstrip().rpartition("\n")[2])
                raise RuntimeError(f"the embedded AWS did not start on {self.endpoint}; its log ends with:\n{tail}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop the process so that it writes its state; safe to call twice."""
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
