"""Run LocalStack in Docker Compose, from the image version in compose.yaml."""

import os
import subprocess
from pathlib import Path
from typing import Final

from deltaic.errors import Unavailable

from deltaic_ops.local.embedded import free_port

COMPOSE: Final = Path(__file__).with_name("compose.yaml")
START_SECONDS: Final = 600
"""Time limit for starting the container, which includes the download of its image."""


def start(port: int) -> str:
    """Start the container on a port of 127.0.0.1 and return its endpoint when it is healthy.

    Port 0 stands for a free one. A container that does not start is removed. Raises Unavailable with its log's end.
    """
    port = port or free_port()
    try:
        _compose(port, "up", "--detach", "--quiet-pull", "--wait", f"--wait-timeout={START_SECONDS}")
    except BaseException as error:  # Ctrl-C as well
        log = _compose(port, "logs", "--no-color", "--tail=5", check=False)
        end(port)
        if not isinstance(error, subprocess.CalledProcessError):
            raise
        token = "" if os.environ.get("LOCALSTACK_AUTH_TOKEN") else " (LOCALSTACK_AUTH_TOKEN is not set)"
        reason = " ".join(f"{error.stderr[-300:]} {log}".split())
        raise Unavailable(f"LocalStack did not start{token}: {reason}") from None
    return f"http://127.0.0.1:{port}"


def end(port: int) -> None:
    """Remove the container that listens on a port, with its networks and data."""
    _compose(port, "down", "--volumes", "--timeout=10", check=False)


def _compose(port: int, *arguments: str, check: bool = True) -> str:
    project = f"deltaic-localstack-{port}"
    try:
        done = subprocess.run(
            ["docker", "compose", f"--file={COMPOSE}", f"--project-name={project}", *arguments],
            env={**os.environ, "DELTAIC_PORT": str(port), "DELTAIC_PROJECT": project},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=check,
        )
    except FileNotFoundError:
        raise Unavailable("Docker with Compose is not available: install Docker, or use `deltaic serve`") from None
    return done.stdout
