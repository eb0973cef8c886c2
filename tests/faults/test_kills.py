"""Test `kill -9` of processes of `deltaic serve` while operators write: saved entries must survive.

Only a kill of the embedded AWS can lose entries, and only those that were created since its last save.
"""

import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import botocore.session
import httpx
import pytest
from botocore.config import Config
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.dynamo import Dynamo
from deltaic.errors import DeltaicError
from deltaic_ops.local.state_folder import running_environment

pytestmark = pytest.mark.slow

WRITERS: Final = 2
PAUSE_SECONDS: Final = 0.05
"""Pause of a writer between shares before a kill, about as long as it takes to create one."""
WAITING_PAUSE_SECONDS: Final = 0.5
"""Pause of a writer while the test waits for saves, which happen once a second."""
SERVE: Final = "from deltaic_ops.cli import main; main()"
SERVER, AWS, GATEWAY = "server", "ministack_server", "gateway_process"
VICTIMS: Final = ([SERVER], [AWS], [GATEWAY], [SERVER, AWS, GATEWAY])


@dataclass
class SavedWork:
    """The confirmed entries, each with the number of saves before it."""

    shares: list[tuple[int, str]] = field(default_factory=list)
    tables: list[tuple[int, str]] = field(default_factory=list)
    grants: list[tuple[int, str]] = field(default_factory=list)
    tokens: list[tuple[int, str]] = field(default_factory=list)
    saves: int = 0
    pause_seconds: float = PAUSE_SECONDS

    def forget_unsaved(self) -> None:
        """Keep only entries that were certainly saved.

        Of the saves that are counted after a confirmation, the first can have ended and the second can have started
        before it. The third started after it.
        """
        for items in (self.shares, self.tables, self.grants, self.tokens):
            items[:] = [(saves, item) for saves, item in items if saves <= self.saves - 3]


def count_saves(file: Path, work: SavedWork, stop: threading.Event) -> None:
    """Count how often a file is replaced."""
    last: object = None
    while not stop.is_set():
        with suppress(FileNotFoundError):
            status = file.stat()
            if (status.st_ino, status.st_mtime_ns) != last:
                last = status.st_ino, status.st_mtime_ns
                work.saves += 1
        time.sleep(0.01)


@contextmanager
def run_server(state: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a server with a state folder, and yield its process and endpoint."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "DELTAIC_"))}
    with subprocess.Popen(
        [sys.executable, "-c", SERVE, "serve", "--port", "0", "--state", str(state)],
        env=variables | {"COLUMNS": "200"},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            line = next((line for line in lines if line.startswith("serving")), "")
            assert line, "the server has not started"
            yield process, next(part for part in line.split() if part.startswith("http"))
        finally:
            process.terminate()


def processes(server: int) -> dict[str, int]:
    """Return the process ids of a server by kind."""
    children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
    pids = {SERVER: server}
    for child in children:
        command = Path(f"/proc/{child}/cmdline").read_bytes().decode()
        pids |= {kind: int(child) for kind in (AWS, GATEWAY) if f"deltaic_ops.local.{kind}" in command}
    assert set(pids) == {SERVER, AWS, GATEWAY}
    return pids


def create_admin(environment: Mapping[str, str]) -> CatalogAdmin:
    def client(service: Any) -> Any:
        return botocore.session.get_session().create_client(
            service,
            region_name=environment["AWS_REGION"],
            endpoint_url=environment["AWS_ENDPOINT_URL"],
            aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
            config=Config(retries={"total_max_attempts": 1}, read_timeout=5),
        )

    dynamo = Dynamo(lambda: client("dynamodb"))
    return CatalogAdmin(
        environment["CATALOG_TABLE"], environment["TOKENS_TABLE"], dynamo, lambda: client("secretsmanager")
    )


def write(catalog: CatalogAdmin, prefix: str, work: SavedWork, stop: threading.Event) -> None:
    """Create shares, each with a table, a grant and a token, until `stop` is set or the server fails."""
    for number in itertools.count():
        if stop.wait(work.pause_seconds):
            return
        share = f"{prefix}n{number}"
        try:
            catalog.shares.create(share)
            work.shares.append((work.saves, share))
            catalog.schemas.create(share, "sales")
            catalog.tables.create(share, "sales", "orders", f"s3://lake/{share}")
            work.tables.append((work.saves, share))
            recipient = catalog.recipients.create(f"reader-{share}")
            catalog.grants.create(recipient.name, share)
            work.grants.append((work.saves, share))
            work.tokens.append((work.saves, catalog.tokens.create(recipient).secret))
        except DeltaicError:
            return


def check(catalog: CatalogAdmin, endpoint: str, work: SavedWork, since: str = "") -> None:
    """Check that confirmed entries exist, and that other entries are complete.

    Checks that all shares exist, and the content of those whose names start with `since`.
    """
    names = [share.name for share in catalog.shares.list()]
    assert {share for _, share in work.shares} <= set(names)
    with_tables = {share for _, share in work.tables}
    shares = [share for share in names if share.startswith(since)]
    for share in shares:
        assert catalog.shares.get(share).name == share
        tables = list(catalog.tables.list(share))
        assert [catalog.tables.get(share, "sales", table.name).location for table in tables] == [
            f"s3://lake/{share}" for _ in tables
        ]
        assert bool(tables) >= (share in with_tables)
    readers = {
        recipient.name for recipient in catalog.recipients.list() if recipient.name.startswith(f"reader-{since}")
    }
    grants = {(grant.recipient, grant.share) for share in shares for grant in catalog.grants.of_share(share)}
    assert grants == {(grant.recipient, grant.share) for name in readers for grant in catalog.grants.of_recipient(name)}
    assert {(f"reader-{share}", share) for _, share in work.grants if share.startswith(since)} <= grants
    for _, secret in work.tokens[-5:]:
        response = httpx.get(f"{endpoint}/shares", headers={"Authorization": f"Bearer {secret}"}, timeout=30)
        assert (response.status_code, len(response.json()["items"])) == (200, 1)


# Once for each of VICTIMS; more rounds only try other moments.
@pytest.mark.parametrize("rounds", [len(VICTIMS), pytest.param(4 * len(VICTIMS), marks=pytest.mark.long)])
def test_saved_entries_survive_kills_of_any_process(tmp_path: Path, rounds: int) -> None:
    state, work, generator = tmp_path / "state", SavedWork(), random.Random(4)  # noqa: S311 -- process and time of kills
    for turn in range(rounds):
        victims = VICTIMS[turn % len(VICTIMS)]
        with run_server(state) as (server, endpoint):
            environment = running_environment(state)
            assert environment is not None
            check(create_admin(environment), endpoint, work, since=f"t{turn - 1}w")
            stop = threading.Event()
            with ThreadPoolExecutor(WRITERS + 1) as pool:
                pool.submit(count_saves, state / "aws" / "state.json", work, stop)
                writers = [
                    pool.submit(write, create_admin(environment), f"t{turn}w{writer}", work, stop)
                    for writer in range(WRITERS)
                ]
                minimum = work.saves + 4 if AWS in victims else 0
                work.pause_seconds = WAITING_PAUSE_SECONDS
                while work.saves < minimum and not all(writer.done() for writer in writers):
                    time.sleep(0.05)
                work.pause_seconds = PAUSE_SECONDS
                time.sleep(generator.uniform(0.05, 1.0))
                pids = processes(server.pid)
                for kind in victims:
                    with suppress(ProcessLookupError):
                        os.kill(pids[kind], signal.SIGKILL)
                stop.set()
            if AWS in victims:
                work.forget_unsaved()
    with run_server(state) as (_, endpoint):
        environment = running_environment(state)
        assert environment is not None
        check(create_admin(environment), endpoint, work)
    assert len(work.shares) > rounds
