"""Plays a recipient against an endpoint and says what holds: what is granted can be read, and nothing else.

It knows only what a recipient knows, the endpoint and a token, and follows the protocol ("REST APIs"). Every check says
what it saw; one that fails says what to look at.
"""

import json
import re
import secrets
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

TIMEOUT_SECONDS = 60.0
_URL = re.compile(r"https?://\S+|\?\S+")
ROWS = 10
"""Of a table, by the published client."""
TABLES = 3
"""Of each share, unless more are asked for."""

FEATURES = (
    "deletionvectors,columnmapping,timestampntz,typewidening,varianttype,variantshredding,v2checkpoint,"
    "vacuumprotocolcheck"
)
CAPABILITIES = {"delta-sharing-capabilities": f"responseformat=parquet,delta;readerfeatures={FEATURES}"}


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check saw."""

    check: str
    holds: bool
    said: str
    remedy: str = ""
    """What to look at, where it does not hold."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A recipient as the server sees one."""

    client: httpx.Client
    endpoint: str
    bearer: str

    def get(self, path: str) -> httpx.Response:
        """Ask for a path below the endpoint."""
        return self.client.get(f"{self.endpoint}{path}", headers=self._headers())

    def stream(self, table: str) -> AbstractContextManager[httpx.Response]:
        """Query a whole table, to take the answer as it comes."""
        headers = {**self._headers(), **CAPABILITIES, "Accept-Encoding": "identity"}
        return self.client.stream("POST", f"{self.endpoint}{table}/query", json={}, headers=headers)

    def query(self, table: str, body: Mapping[str, object]) -> httpx.Response:
        """Query a table, taking either format."""
        return self.client.post(f"{self.endpoint}{table}/query", json=body, headers={**self._headers(), **CAPABILITIES})

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.bearer}", "User-Agent": "deltaic-verify"}


def verify(
    caller: Caller,
    shares: Sequence[str],
    strangers: Sequence[str],
    most: int = TABLES,
    *,
    with_client: bool = find_spec("delta_sharing") is not None,
) -> Iterator[Finding]:
    """Yield what holds of an endpoint for whoever has this token.

    `shares` must be listed and be readable; `strangers` are names of shares that exist and are not granted. Files are
    fetched by a byte each, and rows are read by the published client, if it is installed. What cannot be reached at all
    is a finding too.
    """
    try:
        yield from _doors(caller)
        listed = caller.get("/shares")
        names = [str(item["name"]) for item in _items(listed)]
        missing = [share for share in shares if share.lower() not in {name.lower() for name in names}]
        yield _said(
            "lists the shares that are granted",
            listed.status_code == httpx.codes.OK and not missing,
            f"{listed.status_code}, {len(names)} shares" + f", not {', '.join(missing)}" * bool(missing),
            "the grants (deltaic grant list) and the log of the function list-shares",
        )
        for stranger in strangers:
            yield _hidden(caller, stranger, "a share that is not granted")
        yield _hidden(caller, f"no_such_share_{secrets.token_hex(4)}", "what does not exist")
        for share in shares or names:
            yield from _share(caller, share, most, with_client=with_client)
    except httpx.HTTPError as error:
        remedy = f"that {caller.endpoint} is the endpoint, and up"
        yield _said("answers", holds=False, said=f"{type(error).__name__}: {error}", remedy=remedy)


def _doors(caller: Caller) -> Iterator[Finding]:
    """Check that nobody gets in without a live token."""
    callers = {
        "without a token": {},
        "with a token that nobody has": {"Authorization": f"Bearer {caller.bearer[:-8]}{secrets.token_hex(4)}"},
        "with another scheme": {"Authorization": "Basic YTpi"},
    }
    for who, headers in callers.items():
        answer = caller.client.get(f"{caller.endpoint}/shares", headers=headers)
        yield _said(
            f"refuses who comes {who}",
            answer.status_code == httpx.codes.UNAUTHORIZED,
            f"{answer.status_code}",
            "the API's authorizer: every route must have it",
        )


def _hidden(caller: Caller, share: str, what: str) -> Finding:
    """Check that what is not granted looks as if it did not exist."""
    path = f"/shares/{quote(share, safe='')}"
    table = f"{path}/schemas/s/tables/t"
    asked = (path, f"{path}/all-tables", f"{table}/version")
    answers = [*map(caller.get, asked), caller.query(table, {})]
    found = sorted({answer.status_code for answer in answers})
    return _said(
        f"hides {what}",
        found == [httpx.codes.NOT_FOUND],
        ", ".join(map(str, found)),
        "the grants of this recipient (deltaic grant list --recipient ...)",
    )


def _share(caller: Caller, share: str, most: int, *, with_client: bool) -> Iterator[Finding]:
    answer = caller.get(f"/shares/{quote(share, safe='')}/all-tables")
    tables = _items(answer)
    yield _said(
        f"lists the tables of {share}",
        answer.status_code == httpx.codes.OK,
        f"{answer.status_code}, {len(tables)} tables",
        "the log of the function list-all-tables",
    )
    for listed in tables[:most]:
        parts = (share, str(listed["schema"]), str(listed["name"]))
        holds = True
        for finding in table(caller, path_of(*parts), ".".join(parts)):
            holds = holds and finding.holds
            yield finding
        if holds and with_client:
            yield _read(caller, ".".join(parts))


def path_of(share: str, schema: str, table: str) -> str:
    """Return a table's path below the endpoint."""
    parts = [quote(part, safe="") for part in (share, schema, table)]
    return "/shares/{}/schemas/{}/tables/{}".format(*parts)


def table(caller: Caller, path: str, name: str) -> Iterator[Finding]:
    """Check that one table's version is told, that it is queried, and that only a signed URL gives a file."""
    version = caller.get(f"{path}/version")
    number = version.headers.get("delta-table-version", "")
    yield _said(
        f"tells the version of {name}",
        version.status_code == httpx.codes.OK and number.isdigit(),
        f"{version.status_code}, version {number or 'none'}",
        f"that its location is right, and the log of the function get-table-version: {_message(version)}",
    )
    answer = caller.query(path, {"limitHint": 1})
    lines = _lines(answer)
    kinds = [next(iter(line), "") for line in lines]
    urls = list(_urls(lines))
    yield _said(
        f"queries {name}",
        answer.status_code == httpx.codes.OK and kinds[:2] == ["protocol", "metaData"],
        f"{answer.status_code}, {len(urls)} files",
        f"the log of the function query-table: {_message(answer)}",
    )
    if urls:
        yield from _file(caller.client, urls[0], name)


def _file(client: httpx.Client, url: str, name: str) -> Iterator[Finding]:
    """Check that the signed URL gives the file, and that nothing else does."""
    first = {"Range": "bytes=0-0"}
    fetched = client.get(url, headers=first)
    yield _said(
        f"gives a byte of {name} by its URL",
        fetched.status_code == httpx.codes.PARTIAL_CONTENT and len(fetched.content) == 1,
        f"{fetched.status_code}, {len(fetched.content)} bytes",
        "the signing role: s3:GetObject on the bucket, kms:Decrypt on its key (DataKeys)",
    )
    bare = client.get(urlsplit(url)._replace(query="").geturl(), headers=first)
    yield _said(
        f"keeps that file from who has no signature ({name})",
        bare.status_code == httpx.codes.FORBIDDEN,
        f"{bare.status_code}",
        "the bucket's policy and its public access block: anybody can read it",
    )
    cut = client.get(f"{url[:-4]}0000", headers=first)
    yield _said(
        f"keeps that file from who changes a signature ({name})",
        cut.status_code == httpx.codes.FORBIDDEN,
        f"{cut.status_code}",
        "the object store: it does not check signatures",
    )


def _read(caller: Caller, name: str) -> Finding:
    """Check that the published client reads rows; it is there where a recipient's tools are."""
    import delta_sharing

    profile = {"shareCredentialsVersion": 1, "endpoint": caller.endpoint, "bearerToken": caller.bearer}
    with tempfile.TemporaryDirectory() as folder:  # its owner's alone
        path = Path(folder) / "profile.share"
        path.write_text(json.dumps(profile), encoding="utf-8")
        try:
            rows = len(delta_sharing.load_as_pandas(f"{path}#{name}", limit=ROWS))
            said, holds = f"{rows} rows", True
        except Exception as error:  # noqa: BLE001 -- the client raises whatever its HTTP and Parquet libraries raise
            reason = _URL.sub("<url>", str(error).strip().split("\n")[0])  # whose signature is nobody else's
            said, holds = f"{type(error).__name__}: {reason[:200]}", False
    return _said(f"gives rows of {name} to the published client", holds, said, "what that client asked and could read")


def _urls(lines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the files' URLs in either format (protocol, "API Response Format in Parquet" and "in Delta")."""
    now = time.time() * 1000
    for line in lines:
        file = line.get("file")
        if file is None or (file.get("expirationTimestamp") or now + 1) <= now:
            continue
        single = file.get("deltaSingleAction", {})
        url = file.get("url") or single.get("add", {}).get("path")
        if url:
            yield str(url)


def _items(answer: httpx.Response) -> list[dict[str, Any]]:
    try:
        items = answer.json().get("items", [])
    except (ValueError, AttributeError):
        return []
    return [item for item in items if isinstance(item, dict) and "name" in item]


def _lines(answer: httpx.Response) -> list[dict[str, Any]]:
    try:
        found = [json.loads(line) for line in answer.text.splitlines() if line]
    except ValueError:
        return []
    return [line for line in found if isinstance(line, dict)]


def _message(answer: httpx.Response) -> str:
    try:
        return str(answer.json().get("message", ""))[:200]
    except (ValueError, AttributeError):
        return ""


def _said(check: str, holds: bool, said: str, remedy: str) -> Finding:
    return Finding(check, holds, said, "" if holds else remedy)
