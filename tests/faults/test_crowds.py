"""With few files to open, thousands that only hold connections and readers that stop keep no other recipient out."""

import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import pytest
from deltaic_ops.local.resources import DATA_BUCKET
from deltaic_ops.local.state import running
from filled_server import Entry, catalog_of, client_of, fill

pytestmark = pytest.mark.slow

FILES: Final = 30_000
OPEN_FILES: Final = 256
IDLE: Final = 2000
STALLED: Final = 200
SERVE: Final = "from deltaic_ops.cli import main; main()"
TABLE: Final = "/shares/lake/schemas/sales/tables/orders"
SCHEMA: Final = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'


@dataclass(frozen=True)
class Served:
    """A server that may open OPEN_FILES files in each of its processes, and a recipient's token."""

    process: subprocess.Popen[str]
    endpoint: str
    token: str

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.endpoint)
        return str(parts.hostname), int(parts.port or 0)

    def ask(self, path: str, method: str = "GET") -> httpx.Response:
        """Ask as a recipient who comes now."""
        return httpx.request(
            method,
            self.endpoint + path,
            headers={"Authorization": f"Bearer {self.token}"},
            json={} if method == "POST" else None,
            timeout=30,
        )

    def query(self) -> bytes:
        """Return the bytes of a query whose answer is long."""
        prefix = urlsplit(self.endpoint).path
        lines = [
            f"POST {prefix}{TABLE}/query HTTP/1.1",
            "Host: 127.0.0.1",
            f"Authorization: Bearer {self.token}",
            "Content-Type: application/json",
            "Content-Length: 2",
        ]
        return "\r\n".join([*lines, "", "{}"]).encode()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    state = tmp_path_factory.mktemp("crowds") / "state"
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "DELTAIC_"))}
    command = f'ulimit -n {OPEN_FILES} && exec "$@"'
    with subprocess.Popen(
        ["/bin/sh", "-c", command, "sh", sys.executable, "-c", SERVE, "serve", "--port", "0", "--state", str(state)],
        env=plain | {"COLUMNS": "200"},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            endpoint = next(word for word in process.stderr.readline().split() if word.startswith("http"))
            yield Served(process, endpoint, filled(state))
            assert process.poll() is None
        finally:
            process.terminate()


def filled(state: Path) -> str:
    """Share one table of FILES files; return the recipient's token."""
    known = running(state)
    assert known is not None
    s3 = client_of("s3", known)
    s3.put_object(Bucket=DATA_BUCKET, Key="orders/_delta_log/00000000000000000000.json", Body=log())
    return fill(catalog_of(known), [Entry("lake", "sales", "orders")], {"alice": ["lake"]})["alice"].token


def log() -> bytes:
    metadata = {"id": "orders", "format": {"provider": "parquet", "options": {}}, "schemaString": SCHEMA}
    add = {"partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True}
    actions: list[dict[str, Any]] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {**metadata, "partitionColumns": [], "configuration": {}, "createdTime": 0}},
        *({"add": {"path": f"part-{n:05}.parquet", **add}} for n in range(FILES)),
    ]
    return "".join(json.dumps(action) + "\n" for action in actions).encode()


@pytest.fixture
def held() -> Iterator[ExitStack]:
    """Return what closes a crowd's connections; this process may open as many as it takes."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = IDLE + STALLED + 500
    if before[1] != resource.RLIM_INFINITY and before[1] < wanted:
        pytest.skip(f"this process may open {before[1]} files, a crowd takes {wanted}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], wanted), before[1]))
    with ExitStack() as connections:
        yield connections
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def check(served: Served) -> None:
    listed = served.ask("/shares")
    assert listed.status_code == 200, listed.text
    assert [share["name"] for share in listed.json()["items"]] == ["lake"]
    answer = served.ask(f"{TABLE}/query", "POST")
    assert (answer.status_code, answer.text.count("\n")) == (200, FILES + 2)


def test_connections_that_never_speak(served: Served, held: ExitStack) -> None:
    check(served)
    for number in range(IDLE):
        held.enter_context(socket.create_connection(served.address, 30))
        if number % 500 == 499:
            check(served)
    check(served)
    held.close()
    check(served)


def test_readers_that_stop(served: Served, held: ExitStack) -> None:
    check(served)
    for number in range(STALLED):
        reader = held.enter_context(socket.socket())
        reader.settimeout(30)
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect(served.address)
        reader.sendall(served.query())
        if number % 50 == 49:
            check(served)
    check(served)
    held.close()
    check(served)
    assert served.process.poll() is None
