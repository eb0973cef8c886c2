"""LocalStack in Docker: by Compose, from one pinned image (compose.yaml)."""

import os
import subprocess
import time
from pathlib import Path
from typing import Final

from deltaic.errors import Unavailable

from deltaic_ops.local.embedded import free_port
from deltaic_ops.localstack.running import Running
from deltaic_ops.localstack.starting import healthy

COMPOSE: Final = Path(__file__).with_name("compose.yaml")
VERSION: Final = "4.14.0"
START_SECONDS: Final = 600.0
"""Its image is fetched meanwhile."""


def start(folder: Path, port: int) -> Running:
    """Start the container and return when it answers; raises Unavailable, and leaves nothing then."""
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
    """End the project's containers and networks."""
    _compose(project, 0, "down", "--volumes", "--timeout", "10", check=False)


def _wait(project: str, port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not healthy(port, "/_localstack/health"):
        if time.monotonic() > deadline or not _compose(project, port, "ps", "--quiet", "--status", "running"):
            said = " ".join(_compose(project, port, "logs", "--no-color", "--tail", "5").split())
            token = "" if os.environ.get("LOCALSTACK_AUTH_TOKEN") else " (LOCALSTACK_AUTH_TOKEN is not set)"
            raise Unavailable(f"LocalStack did not start{token}: {said}; or take --engine localemu")
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
