"""An OpenSharing server by another hand, with one volume: by credentials of a real S3, or by URLs of its own."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pull.any_server import AnyServer, any_server, dumped

ROUTE = "/shares/s/schemas/d/volumes/v"


@dataclass
class Folder:
    """The volume: what is behind its URLs, and how it is told."""

    server: AnyServer
    told: dict[str, Any] = field(default_factory=lambda: {"name": "v", "accessModes": ["url"]})
    credentials: Mapping[str, Any] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    fetched: list[str] = field(default_factory=list)
    page: int = 2
    tells_etags: bool = True

    def answer(self, path: str, body: bytes) -> tuple[int, bytes] | None:
        path, _, query = path.partition("?")
        if path == ROUTE:
            return 200, json.dumps(self.told).encode()
        if path == f"{ROUTE}/temporary-volume-credentials" and self.credentials:
            return 200, dumped(self.credentials)
        if path == f"{ROUTE}/files":
            return 200, json.dumps(self._signed(json.loads(body)) if body else self._listed(query)).encode()
        if path.startswith("/object/"):
            return self._object(bytes.fromhex(path.rpartition("/")[2]).decode())
        return None

    def _listed(self, query: str) -> Any:
        start = int(query.rpartition("pageToken=")[2]) if "pageToken=" in query else 0
        names = sorted(self.objects)
        found = {"items": [self._item(name) for name in names[start : start + self.page]]}
        more = start + self.page < len(names)
        return found | ({"nextPageToken": str(start + self.page)} if more else {})

    def _signed(self, asked: Any) -> Any:
        found = [name for name in asked["paths"] if name in self.objects]
        items = [self._item(name) | {"url": f"{self.server.endpoint}/object/{name.encode().hex()}"} for name in found]
        return {"items": items, "expirationTime": 9_999_999_999_999}

    def _item(self, name: str) -> dict[str, Any]:
        content = self.objects[name]
        return {"name": name, "size": len(content), "etag": etag(content) if self.tells_etags else ""}

    def _object(self, name: str) -> tuple[int, bytes]:
        headers = self.server.asked[-1][2]
        content = self.objects[name]
        if headers.get("If-Match") != etag(content):
            return 412, b""
        self.fetched.append(name)
        start = int(headers.get("Range", "bytes=0-")[6:-1])
        return (206 if start else 200), content[start:]


def etag(content: bytes) -> str:
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'


@contextmanager
def folder_server() -> Iterator[Folder]:
    with any_server() as server:
        folder = Folder(server)
        server.told = folder.answer
        yield folder
