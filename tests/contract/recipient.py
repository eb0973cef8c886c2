"""Send requests as a recipient, and parse responses line by line."""

import gzip
import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final
from urllib.parse import urlsplit

Line = dict[str, Any]

JSON: Final = "application/json; charset=utf-8"
NDJSON: Final = "application/x-ndjson; charset=utf-8"
CAPABILITIES: Final = "delta-sharing-capabilities"
TIMEOUT_SECONDS: Final = 120


@dataclass(frozen=True)
class Reply:
    """A response."""

    status: int
    headers: Mapping[str, str]
    """Lower-cased names."""
    body: bytes
    """Unpacked."""

    @property
    def json(self) -> Any:
        """The one JSON document of the answer: ASCII, on a single line, as the Python client needs it."""
        assert self.headers["content-type"] == JSON
        assert self.body.isascii()
        assert b"\n" not in self.body
        return json.loads(self.body)

    @cached_property
    def lines(self) -> list[Line]:
        """Return the lines of a 200: ASCII, each with a line break and one object of one key."""
        assert (self.status, self.headers["content-type"]) == (200, NDJSON), self.body[:500]
        assert self.body.endswith(b"\n")
        assert self.body.isascii()
        lines_ = [json.loads(line) for line in self.body.split(b"\n")[:-1]]
        assert all(isinstance(line, dict) and len(line) == 1 for line in lines_), lines_
        return lines_

    @property
    def kinds(self) -> list[str]:
        """Return the kind of each line: `protocol`, `metaData`, `file`, `endStreamAction`, ..."""
        return [next(iter(line)) for line in self.lines]

    def only(self, *kinds: str) -> list[Line]:
        """Return the contents of the lines of these kinds, in order."""
        return [line[kind] for line in self.lines for kind in kinds if kind in line]

    @property
    def version(self) -> int:
        """The header Delta-Table-Version."""
        return int(self.headers["delta-table-version"])

    @property
    def end(self) -> Line:
        """The endStreamAction, which is the last line."""
        last: Line = self.lines[-1]["endStreamAction"]
        return last

    def refused(self, status: int, code: str, *texts: str) -> None:
        """Assert that this is a refusal in the protocol's shape whose message holds the texts."""
        assert self.status == status, (self.status, self.body[:500])
        body = self.json
        assert [name for name in body if name != "error"] == ["errorCode", "message"]  # that is Iceberg's
        assert body["errorCode"] == code, body
        for text in texts:
            assert text in body["message"], body["message"]


@dataclass(frozen=True)
class Recipient:
    """A client with a profile that sends exactly the given requests."""

    endpoint: str
    token: str | None
    headers: Mapping[str, str] | None = None
    """Sent with every request; a header of a request goes before."""

    def with_headers(self, **headers: str) -> "Recipient":
        """Return the same recipient with other headers on every request; `_` stands for `-`."""
        return replace(self, headers={name.replace("_", "-"): value for name, value in headers.items()})

    def ask(self, method: str, target: str, body: bytes | None = None, /, **headers: str) -> Reply:
        """Send a request; `target` follows the endpoint, not encoded (`_` in header names means `-`)."""
        address = urlsplit(self.endpoint)
        sent = {"authorization": f"Bearer {self.token}"} if self.token is not None else {}
        sent |= {name.lower(): value for name, value in (self.headers or {}).items()}
        sent |= {name.replace("_", "-").lower(): value for name, value in headers.items()}
        return fetch(address.netloc, method, address.path + target, body, sent)

    def get(self, target: str, **headers: str) -> Reply:
        return self.ask("GET", target, None, **headers)

    def post(self, target: str, body: Any, **headers: str) -> Reply:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers.setdefault("content_type", "application/json")
        return self.ask("POST", target, content, **headers)


@dataclass(frozen=True)
class Table:
    """A table as a recipient names it, and the calls on it."""

    recipient: Recipient
    share: str
    schema: str
    name: str

    @property
    def path(self) -> str:
        return f"/shares/{self.share}/schemas/{self.schema}/tables/{self.name}"

    def with_capabilities(self, capabilities: str | None = None, **headers: str) -> "Table":
        """Return the same table, asked with these headers."""
        if capabilities is not None:
            headers[CAPABILITIES] = capabilities
        return replace(self, recipient=self.recipient.with_headers(**headers))

    def at(self, parameters: str = "") -> Reply:
        """GET .../version."""
        return self.recipient.get(f"{self.path}/version{parameters}")

    def metadata(self, parameters: str = "") -> Reply:
        """GET .../metadata."""
        return self.recipient.get(f"{self.path}/metadata{parameters}")

    def query(self, body: Any = None, **fields: Any) -> Reply:
        """POST .../query."""
        return self.recipient.post(f"{self.path}/query", fields if body is None else body)

    def changes(self, parameters: str = "") -> Reply:
        """GET .../changes."""
        return self.recipient.get(f"{self.path}/changes{parameters}")


def fetch(netloc: str, method: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> Reply:
    """Send one request with these headers, Host and Content-Length, on a new connection."""
    connection = http.client.HTTPConnection(netloc, timeout=TIMEOUT_SECONDS)
    try:
        connection.putrequest(method, target, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value.encode("latin-1"))
        if body is not None:
            connection.putheader("content-length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    headers_ = {name.lower(): value for name, value in answer.getheaders()}
    if headers_.get("content-encoding") == "gzip":
        content = gzip.decompress(content)
    return Reply(answer.status, headers_, content)


def download(url: str, span: tuple[int, int] | None = None) -> Reply:
    """GET what a signed URL names, as readers do: no Authorization; `span` asks for a range, both ends included."""
    address = urlsplit(url)
    headers = {"accept-encoding": "gzip,deflate"}
    if span is not None:
        headers["range"] = f"bytes={span[0]}-{span[1]}"
    return fetch(address.netloc, "GET", f"{address.path}?{address.query}", None, headers)


def data_url(line: Line) -> str:
    """Return the signed URL of a file line's content, in either format."""
    if "url" in line:
        return str(line["url"])
    ((_, action),) = line["deltaSingleAction"].items()
    return str(action["path"])
