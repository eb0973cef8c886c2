"""Client of Iceberg's REST catalog by plain HTTP, which also reads files from the store."""

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
    """Client for the catalog of one share, as one recipient."""

    recipient: Recipient
    share: str

    @property
    def namespaces(self) -> str:
        return f"/v1/shares/{self.share}/namespaces"

    def table(self, name: str) -> str:
        return f"{self.namespaces}/default/tables/{name}"

    def load(self, name: str, **headers: str) -> "Loaded":
        """Load a table, which must exist."""
        reply = self.recipient.get(self.table(name), **headers)
        assert reply.status == 200, reply.body
        return Loaded(self, json.loads(reply.body), reply)

    def sign(self, loaded: "Loaded", uri: str, method: str = "GET", **headers: str) -> Reply:
        """Request a signature as clients do, at the endpoint of a loaded table."""
        sent = {name: [value] for name, value in headers.items()}
        body = {"method": method, "region": "us-east-1", "uri": uri, "headers": sent}
        return self.recipient.post(f"/{loaded.config['s3.signer.endpoint']}", body)


@dataclass(frozen=True)
class Loaded:
    """Loaded table."""

    catalog: Catalog
    document: dict[str, Any]
    reply: Reply

    @property
    def config(self) -> dict[str, str]:
        config: dict[str, str] = self.document["config"]
        return config

    @property
    def metadata(self) -> dict[str, Any]:
        metadata: dict[str, Any] = self.document["metadata"]
        return metadata

    @property
    def snapshot(self) -> dict[str, Any]:
        """Current snapshot."""
        current = self.metadata["current-snapshot-id"]
        return next(snapshot for snapshot in self.metadata["snapshots"] if snapshot["snapshot-id"] == current)

    @property
    def s3(self) -> Any:
        """Create an S3 client with the vended credentials."""
        key, secret, token = (
            self.config[f"s3.{name}"] for name in ("access-key-id", "secret-access-key", "session-token")
        )
        session = boto3.Session(key, secret, token, region_name=self.config["s3.region"])
        return session.client("s3", endpoint_url=self.config["s3.endpoint"])

    def url(self, uri: str) -> str:
        """Return the URL of an object before it is signed."""
        return f"{self.config['s3.endpoint']}/{uri.removeprefix('s3://')}"

    def read(self, uri: str) -> bytes:
        """Read an object with a signed request."""
        reply = self.catalog.sign(self, self.url(uri))
        assert reply.status == 200, reply.body
        return follow(json.loads(reply.body)).body


class SignedFiles(PyArrowFileIO):
    """File IO of pyiceberg that reads each file with a signed request, which PyArrow does not support."""

    def __init__(self, loaded: Loaded, folder: Path) -> None:
        super().__init__()
        self._loaded = loaded
        self._folder = folder

    def new_input(self, location: str) -> PyArrowFile:
        """Download a file, and return the copy."""
        path = self._folder / location.removeprefix("s3://").replace("/", "_")
        path.write_bytes(self._loaded.read(location))
        return super().new_input(str(path))


def follow(signed: dict[str, Any], method: str = "GET", **headers: str) -> Reply:
    """Send a signed request."""
    url = urlsplit(signed["uri"])
    sent = {name: ", ".join(values) for name, values in signed["headers"].items()} | headers
    return fetch(url.netloc, method, url.path, None, sent)


def refused(reply: Reply, status: int, kind: str, text: str = "") -> None:
    """Assert that a reply is an error in Iceberg's format."""
    assert reply.status == status, (reply.status, reply.body)
    assert reply.headers["content-type"] == "application/json"
    error = json.loads(reply.body)["error"]
    assert (error["type"], error["code"]) == (kind, status), error
    assert text in error["message"], error
