"""Send requests to a sharing server with a recipient's token, and parse the responses."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import quote

import httpx

from delta_sharing_conformance.untrusted_http import ACCEPT_ENCODING, read_response, url_request

FEATURES = (
    "columnmapping,deletionvectors,geospatial,timestampntz,typewidening,v2checkpoint,vacuumprotocolcheck,"
    "variantshredding,varianttype"
)
"""Table features that a client can announce in readerfeatures (Delta protocol, "Table Features")."""

CAPABILITIES = "delta-sharing-capabilities"
PARQUET = "responseformat=parquet"
DELTA = f"responseformat=delta;readerfeatures={FEATURES}"
BOTH = f"responseformat=parquet,delta;readerfeatures={FEATURES}"
FORMATS = {"parquet": PARQUET, "delta": DELTA}
"""Header delta-sharing-capabilities of a client that accepts only one response format, by format."""

_MAX_MESSAGE = 160


@dataclass(frozen=True)
class Reply:
    """A response of the server, with parsed headers and body."""

    request: str
    """Method and path of the request. Query parameters are omitted, because they can contain tokens."""
    status: int
    headers: httpx.Headers
    body: bytes

    @property
    def media(self) -> str:
        """Content-Type header in lower case and without spaces."""
        return str(self.headers.get("content-type", "")).lower().replace(" ", "")

    @cached_property
    def json(self) -> Any:
        """Parsed body of the response; None if it is not JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None

    @property
    def fields(self) -> dict[str, Any]:
        """JSON object in the body; empty if the body is something else."""
        return self.json if isinstance(self.json, dict) else {}

    @cached_property
    def lines(self) -> list[dict[str, Any]] | None:
        """JSON objects in the body, one per line (NDJSON); None if a line is not a JSON object."""
        try:
            objects = [json.loads(line) for line in self.body.split(b"\n") if line.strip()]
        except (ValueError, RecursionError):
            return None
        return objects if all(isinstance(line, dict) for line in objects) else None

    @property
    def kinds(self) -> list[str]:
        """Type of each line in the body, which is its first key: `protocol`, `metaData`, `file` and so on."""
        return [next(iter(line), "") for line in self.lines or []]

    @property
    def version(self) -> int | None:
        """Table version in the Delta-Table-Version header; None if it is missing."""
        text = self.headers.get("delta-table-version", "")
        return int(text) if text.isdigit() else None

    @property
    def capabilities(self) -> dict[str, str]:
        """Keys and values in the delta-sharing-capabilities header."""
        entries = self.headers.get(CAPABILITIES, "").lower().split(";")
        return dict(entry.split("=", 1) for entry in entries if "=" in entry)

    @property
    def format(self) -> str:
        """Response format in the capabilities header; `parquet` if the header names none."""
        return self.capabilities.get("responseformat", "parquet")

    @property
    def end(self) -> dict[str, Any]:
        """Content of the endStreamAction line; empty if it is missing."""
        last = self.lines[-1] if self.lines else {}
        action = last.get("endStreamAction")
        return action if isinstance(action, dict) else {}

    def __str__(self) -> str:
        """Describe the request and the status of its response, without URLs and tokens."""
        is_error = self.status >= httpx.codes.BAD_REQUEST
        parts = [self.fields.get(name) or "" for name in ("errorCode", "message") if is_error]
        text = " ".join(" ".join(map(str, parts)).split())
        return f"{self.request} returned {self.status}" + f" ({text[:_MAX_MESSAGE]})" * bool(text)


@dataclass
class SharingClient:
    """HTTP client with a recipient's token, which records all responses with status 5xx."""

    http: httpx.Client
    endpoint: str
    bearer: str
    agent: str = "delta-sharing-conformance"
    """Value of the User-Agent header."""
    iceberg: str = ""
    """Endpoint of the Iceberg REST catalog; empty if the profile has none."""
    server_errors: list[str] = field(default_factory=list)
    """Descriptions of all responses with status 5xx."""

    def ask(  # noqa: PLR0913 -- the parts of an HTTP request
        self,
        method: str,
        path: str,
        *,
        parameters: Mapping[str, str | int] | None = None,
        body: object = None,
        capabilities: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send a request to a path below the endpoint; raises httpx.HTTPError. `body` is sent as JSON unless bytes."""
        content_type = {} if body is None else {"Content-Type": "application/json; charset=utf-8"}
        all_headers = {**self.headers(capabilities), **content_type, **ACCEPT_ENCODING, **(headers or {})}
        all_headers = {name: value for name, value in all_headers.items() if value}
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        request = self.http.build_request(
            method, f"{self.endpoint}{path}", params=dict(parameters or {}), content=content, headers=all_headers
        )
        response = read_response(self.http, request)
        reply = Reply(f"{method} {path}", response.status_code, response.headers, response.content)
        if reply.status >= httpx.codes.INTERNAL_SERVER_ERROR:
            self.server_errors.append(str(reply))
        return reply

    def headers(self, capabilities: str | None = None) -> dict[str, str]:
        """Return the Authorization, User-Agent and delta-sharing-capabilities headers of a request."""
        headers = {"Authorization": f"Bearer {self.bearer}", "User-Agent": self.agent}
        return headers if capabilities is None else {**headers, CAPABILITIES: capabilities}

    def get(self, path: str, capabilities: str | None = None, /, **parameters: str | int) -> Reply:
        """Send a GET request to a path below the endpoint."""
        return self.ask("GET", path, parameters=parameters, capabilities=capabilities)

    def fetch(self, url: str, byte_range: str = "") -> httpx.Response:
        """Download a signed URL, without sending the recipient's token. `byte_range` is the Range header."""
        headers = {**ACCEPT_ENCODING, **({"Range": byte_range} if byte_range else {})}
        return read_response(self.http, url_request(self.http, self.endpoint, url, headers))


def segments(*names: str) -> str:
    """Return the URL path of a share, schema or table with these names, for example /shares/a/schemas/b."""
    return "".join(
        f"/{kind}/{quote(name, safe='')}" for kind, name in zip(("shares", "schemas", "tables"), names, strict=False)
    )
