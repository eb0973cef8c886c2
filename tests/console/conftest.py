"""Fixtures of the console tests: `deltaic console` in a separate process, and an HTTP client."""

import os
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
"""Text for comments, notes, columns and cells that pages must escape."""


@dataclass
class Visitor:
    """A client of the console that uses plain HTTP, like a browser without JavaScript."""

    link: str
    http: httpx.Client

    @property
    def address(self) -> str:
        return self.link.partition("/#")[0]

    @property
    def key(self) -> str:
        return self.link.partition("#")[2]

    def sign_in(self) -> None:
        assert self.http.post("/enter", data={"key": self.key}).status_code == 303

    def get(self, path: str, status: int = 200, /, **parameters: str) -> str:
        """Return a page when it no longer refreshes itself."""
        return self._wait_until_done(self.http.get(path, params=parameters), status)

    def post(self, path: str, status: int = 200, /, **fields: str) -> str:
        """Submit a form, and return the resulting page."""
        return self._wait_until_done(self.http.post(path, data=fields), status)

    def _wait_until_done(self, response: httpx.Response, status: int) -> str:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while "refresh" in response.headers or "/outcome" in response.headers.get("location", ""):
            assert time.monotonic() < deadline, response.text
            time.sleep(0.2 * ("refresh" in response.headers))
            response = self.http.get(response.headers.get("location", response.request.url))
        assert response.status_code == status, response.text
        return response.text


def open_visitor(link: str) -> Visitor:
    address = link.partition("/#")[0]
    return Visitor(link, httpx.Client(base_url=address, headers={"Origin": address}, timeout=60))


@contextmanager
def run_console(environment: Mapping[str, str], *options: str) -> Iterator[str]:
    """Run `deltaic console`, and yield the link that it prints."""
    arguments = [sys.executable, "-c", "from deltaic_ops.cli import main; main()", "console", "--no-open", *options]
    variables = {**os.environ, **environment}
    with subprocess.Popen(arguments, env=variables, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            link = process.stdout.readline().strip()
            assert link.startswith("http://127.0.0.1:"), link
            yield link
        finally:
            for index in range(50):  # repeated signals, as from a process group and a wrapper such as `uv run`
                process.send_signal((signal.SIGTERM, signal.SIGINT)[index % 2])
        assert process.wait(20) == 0


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilledServer]:
    """Return a server with a table of three versions and two regions, and two recipients."""
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


def write_orders(folder: Path) -> None:
    """Write a table: create four orders, add two, delete one."""
    fields: list[Any] = [
        pa.field("id", pa.int64()),
        pa.field("region", pa.string()),
        pa.field("note", pa.string(), metadata={"comment": HOSTILE}),
    ]
    schema = pa.schema(fields)

    def rows(first: int, count: int) -> pa.Table:
        numbers = list(range(first, first + count))
        regions = ["EU" if number % 2 else "US" for number in numbers]
        table: pa.Table = pa.table({"id": numbers, "region": regions, "note": [HOSTILE] * count}, schema=schema)
        return table

    deltalake.write_deltalake(str(folder), rows(1, 4), partition_by=["region"])
    deltalake.write_deltalake(str(folder), rows(5, 2), mode="append")
    deltalake.DeltaTable(str(folder)).delete("id = 2")


@pytest.fixture(scope="session")
def console(server: FilledServer) -> Iterator[Visitor]:
    """Return a visitor after sign-in."""
    with run_console(server.environment) as link:
        visitor = open_visitor(link)
        with visitor.http:
            visitor.sign_in()
            yield visitor
