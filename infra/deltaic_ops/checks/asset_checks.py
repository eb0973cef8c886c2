"""Check signed URLs, volumes, skills, models and Iceberg metadata, with a recipient's requests."""

from collections.abc import Iterator, Sequence
from urllib.parse import quote, urlsplit

import httpx
from delta_sharing_conformance.catalog import items
from delta_sharing_conformance.client import Reply, SharingClient, segments
from delta_sharing_conformance.untrusted_http import UnsafeResponse

from deltaic_ops.inspection.findings import Finding, judge

KINDS = ("volume", "skill", "model")
_BY_CREDENTIALS = "UNSUPPORTED_OPERATION"
"""Error code of requests for files of a folder that is shared only by temporary credentials."""


def check_assets(client: SharingClient, share: str, limit: int) -> Iterator[Finding]:
    """Check up to `limit` volumes, skills and models of a share; skips kinds that the server does not support."""
    for kind in KINDS:
        listing = client.get(f"{segments(share)}/all-{kind}s")
        if listing.status == httpx.codes.NOT_FOUND:
            continue
        assets = items(listing)
        remedy = f"check the log of the function list-{kind}s"
        yield judge_response(f"lists the {kind}s of {share}", listing, f"{len(assets)} {kind}s", remedy)
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
        yield judge_response(f"returns credentials for {name}", keys, "", remedy)
        return
    files = [str(file["name"]) for file in items(listing) if file.get("size")]
    remedy = f"check its location, and the log of the function list-{kind}-files"
    yield judge_response(f"lists the files of {name}", listing, "files" if files else "none", remedy)
    if files:
        signed = client.ask("POST", f"{path}/files", body={"paths": files[:1]})
        for file in items(signed):
            yield from check_signed_file(client, str(file["url"]), name)


def table_formats(client: SharingClient, path: str) -> Sequence[str]:
    """Return the formats in which a table is shared (`delta`, `iceberg`); `delta` if the server returns none."""
    return str(client.get(path).fields.get("format", "delta")).split(",")


def check_iceberg_table(client: SharingClient, share: str, schema: str, table: str) -> Finding:
    """Check that the Iceberg REST catalog returns the metadata location of a table."""
    names = (quote(part, safe="") for part in (share, schema, table))
    response = client.get("/iceberg/v1/shares/{}/namespaces/{}/tables/{}".format(*names))
    name, holds = f"{share}.{schema}.{table}", bool(response.fields.get("metadata-location"))
    remedy = f"check deltaic table show {name}, and the log of the function load-iceberg-table"
    return judge_response(f"returns the metadata of {name} to Iceberg clients", response, "", remedy, holds=holds)


_FIRST_BYTE = "bytes=0-0"


def check_signed_file(client: SharingClient, url: str, name: str) -> Iterator[Finding]:
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


def judge_response(check: str, response: Reply, detail: str, remedy: str, *, holds: bool = True) -> Finding:
    """Return a finding about a response, which passes if the status is 200 and `holds`.

    The remedy ends with the message of an error response, at most 200 characters.
    """
    observed = f"{response.status}, {detail}" if detail else f"{response.status}"
    error = response.fields.get("error", response.fields)  # Iceberg catalogs nest it
    message = f": {error['message']}"[:200] if isinstance(error, dict) and error.get("message") else ""
    return judge(check, observed, f"{remedy}{message}", holds=response.status == httpx.codes.OK and holds)
