"""A minimal sharing server with one table in parquet format, whose responses tests can change."""

import gzip
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}


@dataclass
class AnyServer:
    """A server of one table, in parquet format only and without pages and end-of-stream actions."""

    endpoint: str = ""
    version: int = 0
    files: dict[str, bytes] = field(default_factory=dict)
    """File contents by the id that recipients see."""
    expired_generation: int = 0
    """Signed URLs of this generation and earlier ones are rejected."""
    generation: int = 0
    requests: list[tuple[str, str, Mapping[str, str], Any]] = field(default_factory=list)
    change: Callable[[list[Any]], list[Any]] = lambda lines: lines
    """Changes the lines of a query response."""
    override: Callable[[str, bytes], tuple[int, bytes] | None] = lambda _path, _body: None
    """Returns a status and body to use instead of the normal response, or None."""
    headers: dict[str, str] = field(default_factory=dict)
    """Headers to add to each response, or to replace."""
    gzip_suffix: str = ""
    """Responses to paths with this suffix are compressed with gzip."""

    def put(self, *ids: int) -> None:
        """Add a file with these rows, which makes a new version."""
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), sink)
        content = sink.getvalue().to_pybytes()
        self.files[hashlib.md5(repr(ids).encode(), usedforsecurity=False).hexdigest()] = content
        self.version += 1

    def query(self) -> list[Any]:
        self.generation += 1
        head = {
            "id": "t",
            "format": {"provider": "parquet"},
            "schemaString": json.dumps(SCHEMA),
            "partitionColumns": [],
        }
        return self.change(
            [
                {"protocol": {"minReaderVersion": 1}},
                {"metaData": head},
                *[
                    {"file": {"url": self.url(name), "id": name, "partitionValues": {}, "size": len(content)}}
                    for name, content in self.files.items()
                ],
            ]
        )

    def url(self, name: str) -> str:
        return f"{self.endpoint}/signed/{self.generation}/{name}"

    def answer(self, path: str, body: bytes) -> tuple[int, bytes]:
        if response := self.override(path, body):
            return response
        if path.startswith("/signed/"):
            _, _, generation, name = path.split("/", 3)
            return (403, b"") if int(generation) <= self.expired_generation else (200, self.files[name])
        if path.endswith("/query"):
            return 200, b"".join(to_json(line) + b"\n" for line in self.query())
        return (200, b"") if path.endswith("/version") else (404, b"{}")

    def profile(self, folder: Path) -> Path:
        path = folder / "any.share"
        profile = {"shareCredentialsVersion": 1, "endpoint": self.endpoint, "bearerToken": "secret-bearer"}
        path.write_text(json.dumps(profile), encoding="utf-8")
        return path


def to_json(value: Any) -> bytes:
    """Return JSON, with infinity as a number that is too large to parse."""
    return json.dumps(value).replace("Infinity", "1e999").encode()


@contextmanager
def any_server() -> Iterator[AnyServer]:
    """Run a server on this host."""
    server = AnyServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            server.requests.append((self.command, self.path, dict(self.headers), body))
            status, content = server.answer(self.path, body)
            headers = {"Delta-Table-Version": str(server.version), **server.headers}
            if server.gzip_suffix and self.path.endswith(server.gzip_suffix):
                content = gzip.compress(content)
                headers["Content-Encoding"] = "gzip"
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET  # noqa: N815 -- the library's name

        def log_message(self, *_: Any) -> None:
            """Suppress the log."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        server.endpoint = f"http://127.0.0.1:{http.server_address[1]}"
        thread = Thread(target=http.serve_forever, args=[0.01])
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()
