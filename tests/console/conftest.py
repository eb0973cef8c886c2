"""The console over a running server: the command itself, in a process of its own, and a browser without JavaScript."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deltalake
import httpx
import pyarrow as pa
import pytest
from filled_server import Entry, FilledServer

PATIENCE_SECONDS = 60
HOSTILE = '<img src=x onerror="document.title=1">'
"""As a comment, a note, a column, a cell: it is shown as it stands and nothing else."""

_TOKEN = re.compile(r'name="token" value="([^"]+)"')


@dataclass
class Visitor:
    """Whoever asks the console by plain HTTP, as a browser without JavaScript does."""

    link: str
    http: httpx.Client

    @property
    def address(self) -> str:
        return self.link.partition("/#")[0]

    @property
    def key(self) -> str:
        return self.link.partition("#")[2]

    def enter(self) -> None:
        assert self.http.post("/enter", data={"key": self.key}).status_code == 303

    def get(self, path: str, status: int = 200, /, **parameters: str) -> str:
        """Return a page, once it is not waiting any more."""
        return self._until_done(self.http.get(path, params=parameters), status)

    def post(self, path: str, status: int = 200, /, **fields: str) -> str:
        """Send a form of this console's, and return the page that answers."""
        token = _TOKEN.search(self.http.get("/shares").text)
        assert token is not None
        return self._until_done(self.http.post(path, data={**fields, "token": token[1]}), status)

    def _until_done(self, answer: httpx.Response, status: int) -> str:
        end = time.monotonic() + PATIENCE_SECONDS
        while "refresh" in answer.headers:
            assert time.monotonic() < end, answer.text
            time.sleep(0.2)
            _, _, elsewhere = answer.headers["refresh"].partition("url=")
            answer = self.http.get(elsewhere or answer.request.url)
        assert answer.status_code == status, answer.text
        return answer.text


def visitor(link: str) -> Visitor:
    address = link.partition("/#")[0]
    return Visitor(link, httpx.Client(base_url=address, headers={"Origin": address}, timeout=60))


@contextmanager
def command(environment: Mapping[str, str], *options: str) -> Iterator[str]:
    """Run `deltaic console`; gives the link that it shows."""
    line = [sys.executable, "-c", "from deltaic_ops.cli import main; main()", "console", "--no-open", *options]
    told = {**os.environ, **environment}
    with subprocess.Popen(line, env=told, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            link = running.stdout.readline().strip()
            assert link.startswith("http://127.0.0.1:"), link
            yield link
        finally:
            for number in range(50):  # at once, as a process group and a wrapper such as `uv run` send them
                running.send_signal((signal.SIGTERM, signal.SIGINT)[number % 2])
        assert running.wait(20) == 0


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilledServer]:
    """Return a server with a table that three versions and two regions make, and two recipients."""
    folder = tmp_path_factory.mktemp("console")
    entries = [
        Entry("sales", "europe", "orders", options={"history": True}),
        Entry("sales", "empty"),
        Entry("hostile", options={"comment": HOSTILE}),
    ]
    with FilledServer.running(folder, entries, {"alice": ["sales"], "bob": []}) as running:
        write_orders(folder / "orders")
        running.upload(folder / "orders", "orders")
        running.admin.grants.update("alice", "sales", partition_filter="region = 'EU'")
        yield running


def write_orders(place: Path) -> None:
    """Write a table: four orders, two more, and one taken away."""
    fields: list[Any] = [
        pa.field("id", pa.int64()),
        pa.field("region", pa.string()),
        pa.field("note", pa.string(), metadata={"comment": HOSTILE}),
    ]
    schema = pa.schema(fields)

    def rows(first: int, count: int) -> pa.Table:
        numbers = list(range(first, first + count))
        regions = ["EU" if number % 2 else "US" for number in numbers]
        made: pa.Table = pa.table({"id": numbers, "region": regions, "note": [HOSTILE] * count}, schema=schema)
        return made

    deltalake.write_deltalake(str(place), rows(1, 4), partition_by=["region"])
    deltalake.write_deltalake(str(place), rows(5, 2), mode="append")
    deltalake.DeltaTable(str(place)).delete("id = 2")


@pytest.fixture(scope="session")
def console(server: FilledServer) -> Iterator[Visitor]:
    """Return a visitor who was let in."""
    with command(server.environment) as link:
        found = visitor(link)
        with found.http:
            found.enter()
            yield found
