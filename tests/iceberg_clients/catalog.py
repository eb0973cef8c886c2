"""Asks Iceberg's REST catalog by plain HTTP, and reads the store with what it answers."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
from contract.recipient import Recipient, Reply, fetch
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO


@dataclass(frozen=True)
class Catalog:
    """The catalog of one share, as one recipient asks it."""

    recipient: Recipient
    share: str

    @property
    def namespaces(self) -> str:
        return f"/v1/shares/{self.share}/namespaces"

    def table(self, name: str) -> str:
        return f"{self.namespaces}/default/tables/{name}"

    def load(self, name: str, **headers: str) -> "Loaded":
        """Load a table; it must be there."""
        reply = self.recipient.get(self.table(name), **headers)
        assert reply.status == 200, reply.body
        return Loaded(self, json.loads(reply.body), reply)

    def sign(self, loaded: "Loaded", uri: str, method: str = "GET", **headers: str) -> Reply:
        """Ask for a signature as clients do, at the endpoint that a loaded table names."""
        sent = {name: [value] for name, value in headers.items()}
        asked = {"method": method, "region": "us-east-1", "uri": uri, "headers": sent}
        return self.recipient.post(f"/{loaded.config['s3.signer.endpoint']}", asked)


@dataclass(frozen=True)
class Loaded:
    """A table as it was loaded."""

    catalog: Catalog
    document: dict[str, Any]
    reply: Reply

    @property
    def config(self) -> dict[str, str]:
        found: dict[str, str] = self.document["config"]
        return found

    @property
    def metadata(self) -> dict[str, Any]:
        found: dict[str, Any] = self.document["metadata"]
        return found

    @property
    def snapshot(self) -> dict[str, Any]:
        """The current one."""
        return next(
            one for one in self.metadata["snapshots"] if one["snapshot-id"] == self.metadata["current-snapshot-id"]
        )

    @property
    def s3(self) -> Any:
        """The store, with the credentials that came along."""
        key, secret, token = (
            self.config[f"s3.{name}"] for name in ("access-key-id", "secret-access-key", "session-token")
        )
        session = boto3.Session(key, secret, token, region_name=self.config["s3.region"])
        return session.client("s3", endpoint_url=self.config["s3.endpoint"])

    def url(self, uri: str) -> str:
        """Return where a client asks for an object, before it is signed."""
        return f"{self.config['s3.endpoint']}/{uri.removeprefix('s3://')}"

    def read(self, uri: str) -> bytes:
        """Read an object by a signed request."""
        reply = self.catalog.sign(self, self.url(uri))
        assert reply.status == 200, reply.body
        return follow(json.loads(reply.body)).body


class SignedFiles(PyArrowFileIO):
    """The files of pyiceberg's own reader, each fetched by a signed request: PyArrow itself knows none."""

    def __init__(self, loaded: Loaded, folder: Path) -> None:
        super().__init__()
        self._loaded = loaded
        self._folder = folder

    def new_input(self, location: str) -> PyArrowFile:
        """Fetch a file, and return the copy."""
        path = self._folder / location.removeprefix("s3://").replace("/", "_")
        path.write_bytes(self._loaded.read(location))
        return super().new_input(str(path))


def follow(signed: dict[str, Any], method: str = "GET", **headers: str) -> Reply:
    """Send what was signed."""
    place = urlsplit(signed["uri"])
    sent = {name: ", ".join(values) for name, values in signed["headers"].items()} | headers
    return fetch(place.netloc, method, place.path, None, sent)


def refused(reply: Reply, status: int, kind: str, text: str = "") -> None:
    """Assert that this is a refusal in Iceberg's shape."""
    assert reply.status == status, (reply.status, reply.body)
    assert reply.headers["content-type"] == "application/json"
    error = json.loads(reply.body)["error"]
    assert (error["type"], error["code"]) == (kind, status), error
    assert text in error["message"], error
