"""Asks a server as a recipient does, and remembers every answer's status."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import quote

import httpx

from delta_sharing_conformance.untrusted_http import ACCEPT_ENCODING, read_response, url_request

FEATURES = (
    "columnmapping,deletionvectors,timestampntz,typewidening,v2checkpoint,vacuumprotocolcheck,"
    "variantshredding,varianttype"
)
"""The table features whose final names a client may announce in readerfeatures (Delta protocol, "Table Features")."""

CAPABILITIES = "delta-sharing-capabilities"
PARQUET = "responseformat=parquet"
DELTA = f"responseformat=delta;readerfeatures={FEATURES}"
BOTH = f"responseformat=parquet,delta;readerfeatures={FEATURES}"
FORMATS = {"parquet": PARQUET, "delta": DELTA}
"""What a client says that reads one format, by its name."""

_SHOWN = 160


@dataclass(frozen=True)
class Reply:
    """One answer."""

    request: str
    """Method and path, without parameters: those may hold tokens."""
    status: int
    headers: httpx.Headers
    body: bytes

    @property
    def media(self) -> str:
        """The Content-Type as it is compared: lower case, without spaces."""
        return str(self.headers.get("content-type", "")).lower().replace(" ", "")

    @cached_property
    def json(self) -> Any:
        """The body as JSON; None if it is none."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None

    @cached_property
    def lines(self) -> list[dict[str, Any]] | None:
        """The body as JSON objects, one a line; None if a line is none."""
        try:
            found = [json.loads(line) for line in self.body.split(b"\n") if line.strip()]
        except (ValueError, RecursionError):
            return None
        return found if all(isinstance(line, dict) for line in found) else None

    @property
    def kinds(self) -> list[str]:
        """What each line is: `protocol`, `metaData`, `file`, ..."""
        return [next(iter(line), "") for line in self.lines or []]

    @property
    def version(self) -> int | None:
        """The header Delta-Table-Version."""
        text = self.headers.get("delta-table-version", "")
        return int(text) if text.isdigit() else None

    @property
    def capabilities(self) -> dict[str, str]:
        """What the header delta-sharing-capabilities says."""
        entries = self.headers.get(CAPABILITIES, "").lower().split(";")
        return dict(entry.split("=", 1) for entry in entries if "=" in entry)

    @property
    def format(self) -> str:
        """The format that the header names; without one it is parquet."""
        return self.capabilities.get("responseformat", "parquet")

    @property
    def end(self) -> dict[str, Any]:
        """The endStreamAction; empty without one."""
        last = self.lines[-1] if self.lines else {}
        found = last.get("endStreamAction")
        return found if isinstance(found, dict) else {}

    def __str__(self) -> str:
        """Say what was asked and what came, without URLs or tokens."""
        told = self.json if isinstance(self.json, dict) else {}
        refused = self.status >= httpx.codes.BAD_REQUEST
        text = " ".join(f"{told.get('errorCode') or ''} {told.get('message') or ''}".split()) if refused else ""
        return f"{self.request} answers {self.status}" + f" ({text[:_SHOWN]})" * bool(text)


@dataclass
class SharingClient:
    """A recipient: an endpoint and a token, and the answers with 5xx so far."""

    http: httpx.Client
    endpoint: str
    bearer: str
    agent: str = "delta-sharing-conformance"
    """Its User-Agent."""
    iceberg: str = ""
    """The endpoint for Iceberg's clients; empty where there is none."""
    broken: list[str] = field(default_factory=list)
    """Answers with 5xx."""

    def ask(  # noqa: PLR0913 -- what a request is made of
        self,
        method: str,
        path: str,
        *,
        parameters: Mapping[str, str | int] | None = None,
        body: object = None,
        capabilities: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send a request; `path` follows the endpoint. A `body` of bytes is sent as it is. Raises httpx.HTTPError."""
        sent = self.headers(capabilities) | (
            {} if body is None else {"Content-Type": "application/json; charset=utf-8"}
        )
        sent |= {**ACCEPT_ENCODING, **(headers or {})}
        sent = {name: value for name, value in sent.items() if value}
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        request = self.http.build_request(
            method, f"{self.endpoint}{path}", params=dict(parameters or {}), content=content, headers=sent
        )
        answer = read_response(self.http, request)
        reply = Reply(f"{method} {path}", answer.status_code, answer.headers, answer.content)
        if reply.status >= httpx.codes.INTERNAL_SERVER_ERROR:
            self.broken.append(str(reply))
        return reply

    def headers(self, capabilities: str | None = None) -> dict[str, str]:
        """Return what every request says of its sender, and which capabilities it has."""
        sender = {"Authorization": f"Bearer {self.bearer}", "User-Agent": self.agent}
        return sender if capabilities is None else {**sender, CAPABILITIES: capabilities}

    def get(self, path: str, capabilities: str | None = None, /, **parameters: str | int) -> Reply:
        """GET a path."""
        return self.ask("GET", path, parameters=parameters, capabilities=capabilities)

    def fetch(self, url: str, span: str = "") -> httpx.Response:
        """GET a signed URL, as readers do: without the token; `span` is the Range."""
        headers = {**ACCEPT_ENCODING, **({"Range": span} if span else {})}
        return read_response(self.http, url_request(self.http, self.endpoint, url, headers))


def segments(*names: str) -> str:
    """Return names as a path below the endpoint: shares/a, schemas/b, tables/c."""
    return "".join(
        f"/{kind}/{quote(name, safe='')}" for kind, name in zip(("shares", "schemas", "tables"), names, strict=False)
    )
