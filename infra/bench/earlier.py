"""Decides how an earlier version of this server stands beside this one: its checkout, over the same store and catalog.

`--before` names a checkout of this repository in which `uv sync` was run. Its gateway gets the environment that ours
gets, plain and gzipped by turns, so that what it measures is the code alone.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from bench.beside import Rival, Start
from bench.client import Client
from bench.serving import Server, Service, wait_until_loaded

NAME = "version before"
_NOT_WORSE = 1 / 1.05
_ROUNDS = 9
"""Processes differ by some 5 % among themselves."""
_PROGRAM = """
import json, sys
from pathlib import Path
import deltaic
from deltaic_ops.local.stack import gateway_over
with gateway_over(json.loads(sys.stdin.readline()), Path(sys.argv[1])) as stack:
    print(json.dumps([stack.endpoint, stack.processes["gateway"], deltaic.__file__]), flush=True)
    sys.stdin.read()
"""


def check(checkout: Path) -> None:
    """Raise RuntimeError if nothing can be started from there."""
    if not python(checkout).exists():
        raise RuntimeError(f"no environment in {checkout}: run `uv sync` there")


def rival(checkout: Path, service: Service, state: Path, *, gzip: bool) -> Rival:
    """Return the gateway of another checkout; no time, CPU or memory of ours may be 5 % above its own."""
    name = f"{NAME}, gzip" if gzip else NAME
    return Rival(name, lambda: _fresh(checkout, service, state, gzip=gzip), _promised, _ROUNDS)


def ours(service: Service, *, gzip: bool) -> Start:
    """Return what starts this version, asked alike."""

    @contextmanager
    def fresh() -> Iterator[Server]:
        with service.fresh() as server:
            yield replace(server, client=replace(server.client, gzip=gzip))

    return fresh


def _promised(name: str, _files: int) -> float | None:
    return None if name.endswith("S3 requests") else _NOT_WORSE


@contextmanager
def _fresh(checkout: Path, service: Service, state: Path, *, gzip: bool) -> Iterator[Server]:
    log = state.with_suffix(".log")
    command = [str(python(checkout)), "-c", _PROGRAM, str(state)]
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with (
        log.open("ab") as errors,
        subprocess.Popen(
            command, cwd=checkout, env=clean, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as running,
    ):
        assert running.stdin is not None  # noqa: S101 -- both are pipes
        assert running.stdout is not None  # noqa: S101
        with suppress(BrokenPipeError):  # then it says nothing either
            print(json.dumps(dict(service.environment)), file=running.stdin, flush=True)
        said = running.stdout.readline()
        if not said:
            raise RuntimeError(f"the server of {checkout} did not start; its log is {log}")
        endpoint, pid, code = json.loads(said)
        if not Path(code).is_relative_to(checkout.resolve()):
            raise RuntimeError(f"the environment of {checkout} runs the code of another checkout: run `uv sync` there")
        client = Client(endpoint, service.token, gzip=gzip)
        wait_until_loaded(client)
        yield Server(client, pid)


def python(checkout: Path) -> Path:
    """Return the interpreter of a checkout's own environment."""
    return checkout / ".venv" / "bin" / "python"
