"""Check as a recipient that granted tables can be read through an endpoint, and nothing else.

The checks need only the endpoint and a token, and send requests of the Delta Sharing protocol ("REST APIs"). A finding
has the observed result, and a failure also has a remedy.
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

from deltaic_ops.checks import asset_checks
from deltaic_ops.checks.asset_checks import judge_response
from deltaic_ops.inspection.findings import Finding, judge, ok
from deltaic_ops.local.aws_variables import THIS_MACHINE

AGENT = "deltaic-verify"
TIMEOUT_SECONDS = 60.0
_URL = re.compile(r"https?://\S+|\?\S+")
ROWS = 10
"""Number of rows of each table that are read with the Python client delta-sharing."""
TABLES = 3
"""Default number of tables, and of volumes, skills and models each, that are read in a share."""


def verify(
    client: SharingClient,
    shares: Sequence[str],
    strangers: Sequence[str],
    limit: int = TABLES,
    *,
    with_client: bool = find_spec("delta_sharing") is not None,
) -> Iterator[Finding]:
    """Yield findings about an endpoint, with the token of a recipient.

    `shares` must be listed and readable; `strangers` are existing shares without a grant. The checks read a byte of a
    file of each table, and rows with the Python client delta-sharing, if installed. An unreachable endpoint is a failed
    finding.
    """
    try:
        yield from _check_authorization(client)
        listing = client.get("/shares")
        names = [str(item["name"]) for item in items(listing)]
        missing = [share for share in shares if share.lower() not in {name.lower() for name in names}]
        detail = f"{len(names)} shares" + f", not {', '.join(missing)}" * bool(missing)
        remedy = "check the grants (deltaic grant list) and the log of the function list-shares"
        yield judge_response("lists granted shares", listing, detail, remedy, holds=not missing)
        for stranger in strangers:
            yield _check_hidden(client, stranger, "a share that is not granted")
        yield _check_hidden(client, f"no_such_share_{secrets.token_hex(4)}", "a share that does not exist")
        for share in shares or names:
            yield from _check_share(client, share, limit, with_client=with_client)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        down = isinstance(error, httpx.ConnectError) and urlsplit(client.endpoint).hostname in THIS_MACHINE
        reason = f"no response from {client.endpoint}" if down else f"{type(error).__name__}: {error}"
        remedy = "start `deltaic serve`" if down else f"check that {client.endpoint} is the endpoint and is running"
        yield Finding("responds", "failed", reason, remedy)
    except (AttributeError, KeyError, TypeError, ValueError) as error:  # a response with an unexpected structure
        remedy = "run `deltaic conformance`: it shows which response violates the protocol"
        yield Finding("follows the protocol", "failed", type(error).__name__, remedy)


def _check_authorization(client: SharingClient) -> Iterator[Finding]:
    strangers = {
        "without a token": "",
        "with an unknown token": f"Bearer {client.bearer[:-8]}{secrets.token_hex(4)}",
        "with another scheme": "Basic YTpi",
    }
    for condition, authorization in strangers.items():
        response = client.ask("GET", "/shares", headers={"Authorization": authorization})
        yield judge(
            f"rejects requests {condition}",
            f"{response.status}",
            "check the authorizer of the API: every route needs it",
            holds=response.status == httpx.codes.UNAUTHORIZED,
        )


def _check_hidden(client: SharingClient, share: str, description: str) -> Finding:
    """Check that all requests for a share without a grant get 404, as if it did not exist."""
    path, table = segments(share), segments(share, "s", "t")
    responses = [client.get(route) for route in (path, f"{path}/all-tables", f"{table}/version")]
    statuses = sorted({response.status for response in [*responses, _query(client, table)]})
    return judge(
        f"hides {description}",
        ", ".join(map(str, statuses)),
        "check the grants of this recipient (deltaic grant list --recipient ...)",
        holds=statuses == [httpx.codes.NOT_FOUND],
    )


def _check_share(client: SharingClient, share: str, limit: int, *, with_client: bool) -> Iterator[Finding]:
    listing = client.get(f"{segments(share)}/all-tables")
    tables = items(listing)
    remedy = "check the log of the function list-all-tables"
    yield judge_response(f"lists the tables of {share}", listing, f"{len(tables)} tables", remedy)
    for item in tables[:limit]:
        parts = (share, str(item["schema"]), str(item["name"]))
        available = asset_checks.table_formats(client, segments(*parts))
        if "iceberg" in available:
            yield asset_checks.check_iceberg_table(client, *parts)
        if "delta" not in available:
            continue
        findings = list(check_table(client, segments(*parts), ".".join(parts)))
        yield from findings
        if with_client and all(finding.holds for finding in findings):
            yield _check_client(client, ".".join(parts))
    yield from asset_checks.check_assets(client, share, limit)


def check_table(client: SharingClient, path: str, name: str) -> Iterator[Finding]:
    """Check that a table's version and files are returned, and that its file needs a signed URL."""
    version = client.get(f"{path}/version")
    detail = f"version {version.headers.get('delta-table-version') or 'none'}"
    remedy = "check its location, and the log of the function get-table-version"
    yield judge_response(f"returns the version of {name}", version, detail, remedy, holds=version.version is not None)
    response = _query(client, path, limitHint=1)
    urls = list(_urls(response))
    remedy = "check the log of the function query-table"
    is_complete = response.kinds[:2] == ["protocol", "metaData"]
    yield judge_response(f"responds to queries of {name}", response, f"{len(urls)} files", remedy, holds=is_complete)
    if urls:
        yield from asset_checks.check_signed_file(client, urls[0], name)


def _check_client(client: SharingClient, name: str) -> Finding:
    """Check that the Python client delta-sharing reads rows of a table."""
    import delta_sharing

    check, remedy = f"returns rows of {name} to the published client", "check the requests of that client"
    profile = {"shareCredentialsVersion": 1, "endpoint": client.endpoint, "bearerToken": client.bearer}
    with tempfile.TemporaryDirectory() as folder:  # readable only by its owner
        path = Path(folder) / "profile.share"
        path.write_text(json.dumps(profile), encoding="utf-8")
        try:
            rows = len(delta_sharing.load_as_pandas(f"{path}#{name}", limit=ROWS))
        except Exception as error:  # noqa: BLE001 -- the client raises whatever its HTTP and Parquet libraries raise
            reason = _URL.sub("<url>", str(error).strip().split("\n")[0])  # a signed URL is a secret
            return Finding(check, "failed", f"{type(error).__name__}: {reason[:200]}", remedy)
    return ok(check, f"{rows} rows")


def _query(client: SharingClient, path: str, **fields: object) -> Reply:
    return client.ask("POST", f"{path}/query", body=fields, capabilities=BOTH)


def _urls(answer: Reply) -> Iterator[str]:
    """Yield the unexpired signed URLs in the response to a query."""
    now = time.time() * 1000
    for file in files_of(answer.lines or []):
        if file.url and (file.expiration or now + 1) > now:
            yield file.url
