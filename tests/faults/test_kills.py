"""`kill -9` of any process of `deltaic serve`, again and again while operators write: what was saved is there.

Only a kill of the embedded AWS may lose something: what was answered since its last save.
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

ROUNDS: Final = 8
WRITERS: Final = 2
SERVE: Final = "from deltaic_ops.cli import main; main()"
SERVER, AWS, GATEWAY = "server", "ministack_server", "gateway_process"
VICTIMS: Final = ([SERVER], [AWS], [GATEWAY], [SERVER, AWS, GATEWAY])


@dataclass
class Answered:
    """What operators were told is done, each with the number of saves that were seen before it."""

    shares: list[tuple[int, str]] = field(default_factory=list)
    tables: list[tuple[int, str]] = field(default_factory=list)
    grants: list[tuple[int, str]] = field(default_factory=list)
    tokens: list[tuple[int, str]] = field(default_factory=list)
    saves: int = 0

    def forget_unsaved(self) -> None:
        """Keep what was surely saved.

        The first save that is seen after an answer may have been done before it, and the next one begun: the third was
        begun after it.
        """
        for items in (self.shares, self.tables, self.grants, self.tokens):
            items[:] = [(saves, item) for saves, item in items if saves <= self.saves - 3]


def watch(file: Path, answered: Answered, stop: threading.Event) -> None:
    """Count how often a file is seen to be replaced."""
    seen: object = None
    while not stop.is_set():
        with suppress(FileNotFoundError):
            found = file.stat()
            if (found.st_ino, found.st_mtime_ns) != seen:
                seen = found.st_ino, found.st_mtime_ns
                answered.saves += 1
        time.sleep(0.01)


@contextmanager
def served(state: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a server over the folder; yields it and its endpoint, and returns when nothing of it is left."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "DELTAIC_"))}
    with subprocess.Popen(
        [sys.executable, "-c", SERVE, "serve", "--port", "0", "--state", str(state)],
        env=plain | {"COLUMNS": "200"},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            line = next((line for line in lines if line.startswith("serving")), "")
            assert line, "the server has not started"
            yield process, next(word for word in line.split() if word.startswith("http"))
        finally:
            process.terminate()


def processes(server: int) -> dict[str, int]:
    """Return the server's processes by what they are."""
    children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
    found = {SERVER: server}
    for child in children:
        told = Path(f"/proc/{child}/cmdline").read_bytes().decode()
        found |= {kind: int(child) for kind in (AWS, GATEWAY) if f"deltaic_ops.local.{kind}" in told}
    assert set(found) == {SERVER, AWS, GATEWAY}
    return found


def admin(known: Mapping[str, str]) -> CatalogAdmin:
    def client(service: Any) -> Any:
        return botocore.session.get_session().create_client(
            service,
            region_name=known["AWS_REGION"],
            endpoint_url=known["AWS_ENDPOINT_URL"],
            aws_access_key_id=known["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=known["AWS_SECRET_ACCESS_KEY"],
            config=Config(retries={"total_max_attempts": 1}, read_timeout=5),
        )

    dynamo = Dynamo(lambda: client("dynamodb"))
    return CatalogAdmin(known["CATALOG_TABLE"], known["TOKENS_TABLE"], dynamo, lambda: client("secretsmanager"))


def write(catalog: CatalogAdmin, prefix: str, answered: Answered, stop: threading.Event) -> None:
    """Make shares with a table, a grant and a token each, until told to stop or nobody answers."""
    for number in itertools.count():
        if stop.is_set():
            return
        share = f"{prefix}n{number}"
        try:
            catalog.shares.create(share)
            answered.shares.append((answered.saves, share))
            catalog.schemas.create(share, "sales")
            catalog.tables.create(share, "sales", "orders", f"s3://lake/{share}")
            answered.tables.append((answered.saves, share))
            recipient = catalog.recipients.create(f"reader-{share}")
            catalog.grants.create(recipient.name, share)
            answered.grants.append((answered.saves, share))
            answered.tokens.append((answered.saves, catalog.tokens.create(recipient).secret))
        except DeltaicError:
            return


def check(catalog: CatalogAdmin, endpoint: str, answered: Answered, since: str = "") -> None:
    """Compare with what was answered; what was not answered may be there, but then it is whole.

    All shares are looked for, and those whose names begin as told are looked into.
    """
    listed = [share.name for share in catalog.shares.list()]
    assert {share for _, share in answered.shares} <= set(listed)
    with_tables = {share for _, share in answered.tables}
    there = [share for share in listed if share.startswith(since)]
    for share in there:
        assert catalog.shares.get(share).name == share
        tables = list(catalog.tables.list(share))
        assert [catalog.tables.get(share, "sales", table.name).location for table in tables] == [
            f"s3://lake/{share}" for _ in tables
        ]
        assert bool(tables) >= (share in with_tables)
    readers = {
        recipient.name for recipient in catalog.recipients.list() if recipient.name.startswith(f"reader-{since}")
    }
    granted = {(grant.recipient, grant.share) for share in there for grant in catalog.grants.of_share(share)}
    assert granted == {
        (grant.recipient, grant.share) for name in readers for grant in catalog.grants.of_recipient(name)
    }
    assert {(f"reader-{share}", share) for _, share in answered.grants if share.startswith(since)} <= granted
    for _, secret in answered.tokens[-5:]:
        answer = httpx.get(f"{endpoint}/shares", headers={"Authorization": f"Bearer {secret}"}, timeout=30)
        assert (answer.status_code, len(answer.json()["items"])) == (200, 1)


def test_what_was_saved_outlives_kills_of_any_process(tmp_path: Path) -> None:
    state, answered, chance = tmp_path / "state", Answered(), random.Random(4)  # noqa: S311 -- which process, and when
    for turn in range(ROUNDS):
        victims = VICTIMS[turn % len(VICTIMS)]
        with served(state) as (server, endpoint):
            known = running_environment(state)
            assert known is not None
            check(admin(known), endpoint, answered, since=f"t{turn - 1}w")
            stop = threading.Event()
            with ThreadPoolExecutor(WRITERS + 1) as pool:
                pool.submit(watch, state / "aws" / "state.json", answered, stop)
                writers = [
                    pool.submit(write, admin(known), f"t{turn}w{writer}", answered, stop) for writer in range(WRITERS)
                ]
                enough = answered.saves + 4 if AWS in victims else 0
                while answered.saves < enough and not all(writer.done() for writer in writers):
                    time.sleep(0.05)
                time.sleep(chance.uniform(0.05, 1.0))
                found = processes(server.pid)
                for kind in victims:
                    with suppress(ProcessLookupError):
                        os.kill(found[kind], signal.SIGKILL)
                stop.set()
            if AWS in victims:
                answered.forget_unsaved()
    with served(state) as (_, endpoint):
        known = running_environment(state)
        assert known is not None
        check(admin(known), endpoint, answered)
    assert len(answered.shares) > ROUNDS
