"""Plays a recipient against an endpoint and says what holds: what is granted can be read, and nothing else.

It knows only what a recipient knows, the endpoint and a token, and follows the protocol ("REST APIs"). Every check says
what it saw; one that fails says what to look at.
"""

import json
import re
import secrets
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import httpx
from delta_sharing_conformance.catalog import items
from delta_sharing_conformance.client import BOTH, Reply, SharingClient, segments
from delta_sharing_conformance.files import files_of

from deltaic_ops.checks.verify_assets import answered, assets, formats, iceberg_table, message, signed_file
from deltaic_ops.inspection.findings import Finding, judge, ok
from deltaic_ops.local.variables import THIS_MACHINE

AGENT = "deltaic-verify"
TIMEOUT_SECONDS = 60.0
_URL = re.compile(r"https?://\S+|\?\S+")
ROWS = 10
"""Of a table, by the published client."""
TABLES = 3
"""Of each share, and so many of each other kind, unless more are asked for."""


def verify(
    client: SharingClient,
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
        yield from _doors(client)
        listing = client.get("/shares")
        names = [str(item["name"]) for item in items(listing)]
        missing = [share for share in shares if share.lower() not in {name.lower() for name in names}]
        seen = f"{len(names)} shares" + f", not {', '.join(missing)}" * bool(missing)
        remedy = "the grants (deltaic grant list) and the log of the function list-shares"
        yield answered("lists the shares that are granted", listing, seen, remedy, holds=not missing)
        for stranger in strangers:
            yield _hidden(client, stranger, "a share that is not granted")
        yield _hidden(client, f"no_such_share_{secrets.token_hex(4)}", "what does not exist")
        for share in shares or names:
            yield from _share(client, share, most, with_client=with_client)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        nobody = isinstance(error, httpx.ConnectError) and urlsplit(client.endpoint).hostname in THIS_MACHINE
        said = f"nothing answers at {client.endpoint}" if nobody else f"{type(error).__name__}: {error}"
        remedy = "whether `deltaic serve` runs" if nobody else f"that {client.endpoint} is the endpoint, and up"
        yield Finding("answers", "failed", said, remedy)
    except (AttributeError, KeyError, TypeError, ValueError) as error:  # an answer of no shape that was thought of
        remedy = "what the server answers: `deltaic conformance` says which answer is not the protocol's"
        yield Finding("answers as the protocol says", "failed", type(error).__name__, remedy)


def _doors(client: SharingClient) -> Iterator[Finding]:
    strangers = {
        "without a token": "",
        "with a token that nobody has": f"Bearer {client.bearer[:-8]}{secrets.token_hex(4)}",
        "with another scheme": "Basic YTpi",
    }
    for who, authorization in strangers.items():
        answer = client.ask("GET", "/shares", headers={"Authorization": authorization})
        yield judge(
            f"refuses who comes {who}",
            f"{answer.status}",
            "the API's authorizer: every route must have it",
            holds=answer.status == httpx.codes.UNAUTHORIZED,
        )


def _hidden(client: SharingClient, share: str, what: str) -> Finding:
    """Check that what is not granted looks as if it did not exist."""
    path, table = segments(share), segments(share, "s", "t")
    answers = [client.get(below) for below in (path, f"{path}/all-tables", f"{table}/version")]
    statuses = sorted({answer.status for answer in [*answers, _query(client, table)]})
    return judge(
        f"hides {what}",
        ", ".join(map(str, statuses)),
        "the grants of this recipient (deltaic grant list --recipient ...)",
        holds=statuses == [httpx.codes.NOT_FOUND],
    )


def _share(client: SharingClient, share: str, most: int, *, with_client: bool) -> Iterator[Finding]:
    listing = client.get(f"{segments(share)}/all-tables")
    tables = items(listing)
    remedy = "the log of the function list-all-tables"
    yield answered(f"lists the tables of {share}", listing, f"{len(tables)} tables", remedy)
    for item in tables[:most]:
        parts = (share, str(item["schema"]), str(item["name"]))
        told = formats(client, segments(*parts))
        if "iceberg" in told:
            yield iceberg_table(client, *parts)
        if "delta" not in told:
            continue
        holds = True
        for finding in table(client, segments(*parts), ".".join(parts)):
            holds = holds and finding.holds
            yield finding
        if holds and with_client:
            yield _read(client, ".".join(parts))
    yield from assets(client, share, most)


def table(client: SharingClient, path: str, name: str) -> Iterator[Finding]:
    """Check that one table's version is told, that it is queried, and that only a signed URL gives a file."""
    version = client.get(f"{path}/version")
    seen = f"version {version.headers.get('delta-table-version') or 'none'}"
    remedy = f"that its location is right, and the log of the function get-table-version: {message(version)}"
    yield answered(f"tells the version of {name}", version, seen, remedy, holds=version.version is not None)
    answer = _query(client, path, limitHint=1)
    urls = list(_urls(answer))
    remedy, whole = (
        f"the log of the function query-table: {message(answer)}",
        answer.kinds[:2] == ["protocol", "metaData"],
    )
    yield answered(f"queries {name}", answer, f"{len(urls)} files", remedy, holds=whole)
    if urls:
        yield from signed_file(client, urls[0], name)


def _read(client: SharingClient, name: str) -> Finding:
    """Check that the published client reads rows; it is there where a recipient's tools are."""
    import delta_sharing

    check, remedy = f"gives rows of {name} to the published client", "what that client asked and could read"
    profile = {"shareCredentialsVersion": 1, "endpoint": client.endpoint, "bearerToken": client.bearer}
    with tempfile.TemporaryDirectory() as folder:  # its owner's alone
        path = Path(folder) / "profile.share"
        path.write_text(json.dumps(profile), encoding="utf-8")
        try:
            rows = len(delta_sharing.load_as_pandas(f"{path}#{name}", limit=ROWS))
        except Exception as error:  # noqa: BLE001 -- the client raises whatever its HTTP and Parquet libraries raise
            reason = _URL.sub("<url>", str(error).strip().split("\n")[0])  # whose signature is nobody else's
            return Finding(check, "failed", f"{type(error).__name__}: {reason[:200]}", remedy)
    return ok(check, f"{rows} rows")


def _query(client: SharingClient, path: str, **fields: object) -> Reply:
    return client.ask("POST", f"{path}/query", body=fields, capabilities=BOTH)


def _urls(answer: Reply) -> Iterator[str]:
    """Yield the URLs of files that can be fetched for some time yet."""
    now = time.time() * 1000
    for file in files_of(answer.lines or []):
        if file.url and (file.expiration or now + 1) > now:
            yield file.url
