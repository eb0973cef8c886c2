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
from urllib.parse import quote, urlsplit

import httpx
from delta_sharing_conformance.catalog import items
from delta_sharing_conformance.client import BOTH, Reply, SharingClient, segments
from delta_sharing_conformance.files import files_of
from delta_sharing_conformance.untrusted_http import UnsafeResponse

from deltaic_ops.inspection.findings import Finding, judge, ok
from deltaic_ops.local.aws_variables import THIS_MACHINE

AGENT = "deltaic-verify"
TIMEOUT_SECONDS = 60.0
_FIRST_BYTE = "bytes=0-0"
_KINDS = ("volume", "skill", "model")
_BY_CREDENTIALS = "UNSUPPORTED_OPERATION"
"""Error code of requests for files of a folder that is shared only by temporary credentials."""
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
        yield _judge_response("lists granted shares", listing, detail, remedy, holds=not missing)
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
    yield _judge_response(f"lists the tables of {share}", listing, f"{len(tables)} tables", remedy)
    for item in tables[:limit]:
        parts = (share, str(item["schema"]), str(item["name"]))
        formats = str(client.get(segments(*parts)).fields.get("format", "delta"))  # such as "delta,iceberg"
        if "iceberg" in formats:
            yield _check_iceberg_table(client, *parts)
        if "delta" in formats:
            holds = with_client
            for finding in check_table(client, segments(*parts), ".".join(parts)):
                holds &= finding.holds
                yield finding
            if holds:
                yield _check_client(client, ".".join(parts))
    yield from _check_assets(client, share, limit)


def check_table(client: SharingClient, path: str, name: str) -> Iterator[Finding]:
    """Check that a table's version and files are returned, and that its file needs a signed URL."""
    version = client.get(f"{path}/version")
    detail = f"version {version.headers.get('delta-table-version') or 'none'}"
    remedy = "check its location, and the log of the function get-table-version"
    yield _judge_response(f"returns the version of {name}", version, detail, remedy, holds=version.version is not None)
    response = _query(client, path, limitHint=1)
    urls = list(_urls(response))
    remedy = "check the log of the function query-table"
    is_complete = response.kinds[:2] == ["protocol", "metaData"]
    yield _judge_response(f"responds to queries of {name}", response, f"{len(urls)} files", remedy, holds=is_complete)
    if urls:
        yield from _check_signed_file(client, urls[0], name)


def _check_assets(client: SharingClient, share: str, limit: int) -> Iterator[Finding]:
    """Check up to `limit` volumes, skills and models of a share; skips kinds that the server does not support."""
    for kind in _KINDS:
        listing = client.get(f"{segments(share)}/all-{kind}s")
        if listing.status == httpx.codes.NOT_FOUND:
            continue
        assets = items(listing)
        remedy = f"check the log of the function list-{kind}s"
        yield _judge_response(f"lists the {kind}s of {share}", listing, f"{len(assets)} {kind}s", remedy)
        for item in assets[:limit]:
            parts = (share, str(item["schema"]), str(item["name"]))
            path = f"{segments(*parts[:2])}/{kind}s/{quote(parts[2], safe='')}"
            name = f"the {kind} {'.'.join(parts)}"
            if kind == "model":
                versions = client.get(f"{path}/versions").json["items"]
                for number in [version["version"] for version in versions[-1:]]:
                    yield from _check_folder(client, kind, f"{path}/versions/{number}", f"{name} {number}")
            else:
                yield from _check_folder(client, kind, path, name)


def _check_folder(client: SharingClient, kind: str, path: str, name: str) -> Iterator[Finding]:
    """Check that a folder's files are listed and need signed URLs, or that credentials are returned for it."""
    listing = client.get(f"{path}/files", maxResults=10)
    if listing.fields.get("errorCode") == _BY_CREDENTIALS:
        asset = "model-version" if kind == "model" else kind
        keys = client.ask("POST", f"{path}/temporary-{asset}-credentials", body={})
        remedy = f"check the log of the function create-{kind}-credentials"
        yield _judge_response(f"returns credentials for {name}", keys, "", remedy)
        return
    files = [str(file["name"]) for file in items(listing) if file.get("size")]
    remedy = f"check its location, and the log of the function list-{kind}-files"
    yield _judge_response(f"lists the files of {name}", listing, "files" if files else "none", remedy)
    if files:
        signed = client.ask("POST", f"{path}/files", body={"paths": files[:1]})
        for file in items(signed):
            yield from _check_signed_file(client, str(file["url"]), name)


def _check_iceberg_table(client: SharingClient, share: str, schema: str, table: str) -> Finding:
    """Check that the Iceberg REST catalog returns the metadata location of a table."""
    names = (quote(part, safe="") for part in (share, schema, table))
    response = client.get("/iceberg/v1/shares/{}/namespaces/{}/tables/{}".format(*names))
    name, holds = f"{share}.{schema}.{table}", bool(response.fields.get("metadata-location"))
    remedy = f"check deltaic table show {name}, and the log of the function load-iceberg-table"
    return _judge_response(f"returns the metadata of {name} to Iceberg clients", response, "", remedy, holds=holds)


def _check_signed_file(client: SharingClient, url: str, name: str) -> Iterator[Finding]:
    """Check that a file can be read with its signed URL, but not without or with a forged signature."""
    key_remedy = "check the signing role: it needs s3:GetObject on the bucket and kms:Decrypt on its key (DataKeys)"
    public_remedy = "check the bucket's policy and its public access block: anyone can read it"
    forged_remedy = "check the object store: it does not verify signatures"
    try:
        byte = client.fetch(url, _FIRST_BYTE)
        seen = f"{byte.status_code}, {len(byte.content)} bytes"
        holds = byte.status_code == httpx.codes.PARTIAL_CONTENT and len(byte.content) == 1
        yield judge(f"signs a URL that reads {name}", seen, key_remedy, holds=holds)
        for variant, address, remedy in (
            ("without its signature", urlsplit(url)._replace(query="").geturl(), public_remedy),
            ("with a changed signature", f"{url[:-4]}0000", forged_remedy),
        ):
            status = client.fetch(address, _FIRST_BYTE).status_code
            check = f"rejects that URL {variant} ({name})"
            yield judge(check, f"{status}", remedy, holds=status == httpx.codes.FORBIDDEN)
    except UnsafeResponse as refusal:
        remedy = "check the URLs that the server signs: each must belong to a file in its object store"
        yield Finding(f"returns a valid URL of {name}", "failed", f"{refusal}", remedy)


def _judge_response(check: str, response: Reply, detail: str, remedy: str, *, holds: bool = True) -> Finding:
    """Return a finding, passed if the status is 200 and `holds`; its remedy ends with the message of an error."""
    observed = f"{response.status}, {detail}" if detail else f"{response.status}"
    error = response.fields.get("error", response.fields)  # Iceberg catalogs nest it
    message = f": {error['message']}"[:200] if isinstance(error, dict) and error.get("message") else ""
    return judge(check, observed, f"{remedy}{message}", holds=response.status == httpx.codes.OK and holds)


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
