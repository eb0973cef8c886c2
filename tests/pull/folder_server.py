"""A minimal OpenSharing server with one volume, shared by S3 credentials or signed URLs."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pull.any_server import AnyServer, any_server, to_json

ROUTE = "/shares/s/schemas/d/volumes/v"


@dataclass
class Folder:
    """The volume: its description, credentials and objects."""

    server: AnyServer
    description: dict[str, Any] = field(default_factory=lambda: {"name": "v", "accessModes": ["url"]})
    credentials: Mapping[str, Any] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    downloads: list[str] = field(default_factory=list)
    page_size: int = 2
    has_etags: bool = True

    def answer(self, path: str, body: bytes) -> tuple[int, bytes] | None:
        path, _, query = path.partition("?")
        if path == ROUTE:
            return 200, json.dumps(self.description).encode()
        if path == f"{ROUTE}/temporary-volume-credentials" and self.credentials:
            return 200, to_json(self.credentials)
        if path == f"{ROUTE}/files":
            return 200, json.dumps(self._sign(json.loads(body)) if body else self._list(query)).encode()
        if path.startswith("/object/"):
            return self._object(bytes.fromhex(path.rpartition("/")[2]).decode())
        return None

    def _list(self, query: str) -> Any:
        start = int(query.rpartition("pageToken=")[2]) if "pageToken=" in query else 0
        names = sorted(self.objects)
        page = {"items": [self._item(name) for name in names[start : start + self.page_size]]}
        has_more = start + self.page_size < len(names)
        return page | ({"nextPageToken": str(start + self.page_size)} if has_more else {})

    def _sign(self, body: Any) -> Any:
        names = [name for name in body["paths"] if name in self.objects]
        items = [self._item(name) | {"url": f"{self.server.endpoint}/object/{name.encode().hex()}"} for name in names]
        return {"items": items, "expirationTime": 9_999_999_999_999}

    def _item(self, name: str) -> dict[str, Any]:
        content = self.objects[name]
        return {"name": name, "size": len(content), "etag": etag(content) if self.has_etags else ""}

    def _object(self, name: str) -> tuple[int, bytes]:
        headers = self.server.requests[-1][2]
        content = self.objects[name]
        if headers.get("If-Match") != etag(content):
            return 412, b""
        self.downloads.append(name)
        start = int(headers.get("Range", "bytes=0-")[6:-1])
        return (206 if start else 200), content[start:]


def etag(content: bytes) -> str:
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'


@contextmanager
def folder_server() -> Iterator[Folder]:
    with any_server() as server:
        folder = Folder(server)
        server.override = folder.answer
        yield folder
