"""Run LocalStack in Docker Compose, from the image version in compose.yaml."""

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final

from deltaic.errors import Conflict, Unavailable

from deltaic_ops.local.embedded import bind_port, free_port, is_healthy
from deltaic_ops.localstack.instance import Running

COMPOSE: Final = Path(__file__).with_name("compose.yaml")
VERSION: Final = "4.14.0"
START_SECONDS: Final = 600.0
"""Time limit for starting the container, which includes the download of its image."""


def start(folder: Path, port: int) -> Running:
    """Start the container and wait until it is ready; if that fails, remove it and raise Unavailable."""
    port = port or free_port()
    project = f"deltaic-localstack-{port}"
    try:
        _compose(project, port, "up", "--detach", "--quiet-pull")
        _wait(project, port)
    except BaseException:  # Ctrl-C as well
        end(project)
        raise
    (folder / "run").mkdir(mode=0o700, exist_ok=True)
    return Running("docker", VERSION, f"http://127.0.0.1:{port}", "test", "test", pid=0, containers=project)


def end(project: str) -> None:
    """Remove the containers and networks of a Compose project."""
    _compose(project, 0, "down", "--volumes", "--timeout", "10", check=False)


def docker_answers() -> bool:
    """Return whether Docker with Compose is usable on this machine."""
    docker = shutil.which("docker")
    return docker is not None and all(_succeeds(docker, *command) for command in (["info"], ["compose", "version"]))


def check_port(port: int) -> None:
    """Raise Conflict if a port of 127.0.0.1 is in use."""
    try:
        bind_port(port).close()
    except OSError:
        raise Conflict(
            f"port {port} is in use: stop the program that uses it, or choose another port with --port "
            "(0 selects a free port)"
        ) from None


def _succeeds(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=20, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _wait(project: str, port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not is_healthy(port, "/_localstack/health"):
        if time.monotonic() > deadline or not _compose(project, port, "ps", "--quiet", "--status", "running"):
            log = " ".join(_compose(project, port, "logs", "--no-color", "--tail", "5").split())
            token = "" if os.environ.get("LOCALSTACK_AUTH_TOKEN") else " (LOCALSTACK_AUTH_TOKEN is not set)"
            raise Unavailable(f"LocalStack did not start{token}: {log}")
        time.sleep(1)


def _compose(project: str, port: int, *arguments: str, check: bool = True) -> str:
    done = subprocess.run(
        ["docker", "compose", "--file", str(COMPOSE), "--project-name", project, *arguments],
        env={**os.environ, "DELTAIC_PORT": str(port), "DELTAIC_PROJECT": project},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
    )
    if check and done.returncode != 0:
        raise Unavailable(f"`docker compose {arguments[0]}` failed: {done.stderr.strip()[-300:]}")
    return done.stdout
