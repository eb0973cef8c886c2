"""Check signed URLs, volumes, skills, models and Iceberg metadata, with a recipient's requests."""

from collections.abc import Iterator, Sequence
from typing import Any
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
    if _code(listing) == _BY_CREDENTIALS:
        asset = "model-version" if kind == "model" else kind
        keys = client.ask("POST", f"{path}/temporary-{asset}-credentials", body={})
        remedy = f"check the log of the function create-{kind}-credentials: {error_message(keys)}"
        yield judge_response(f"returns credentials for {name}", keys, "", remedy)
        return
    files = [str(file["name"]) for file in items(listing) if file.get("size")]
    remedy = f"check its location, and the log of the function list-{kind}-files: {error_message(listing)}"
    yield judge_response(f"lists the files of {name}", listing, "files" if files else "none", remedy)
    if files:
        signed = client.ask("POST", f"{path}/files", body={"paths": files[:1]})
        for file in items(signed):
            yield from check_signed_file(client, str(file["url"]), name)


def table_formats(client: SharingClient, path: str) -> Sequence[str]:
    """Return the formats in which a table is shared (`delta`, `iceberg`); `delta` if the server returns none."""
    response = client.get(path)
    value: Any = response.json.get("format", "delta") if isinstance(response.json, dict) else "delta"
    return str(value).split(",")


def check_iceberg_table(client: SharingClient, share: str, schema: str, table: str) -> Finding:
    """Check that the Iceberg REST catalog returns the metadata location of a table."""
    names = (quote(part, safe="") for part in (share, schema, table))
    path = "/iceberg/v1/shares/{}/namespaces/{}/tables/{}".format(*names)
    response = client.get(path)
    location = response.json.get("metadata-location") if isinstance(response.json, dict) else None
    reason = response.json.get("error", {}).get("message", "") if isinstance(response.json, dict) else ""
    name, holds = f"{share}.{schema}.{table}", bool(location)
    remedy = f"check deltaic table show {name}, and the log of the function load-iceberg-table: {reason[:200]}"
    return judge_response(f"returns the metadata of {name} to Iceberg clients", response, "", remedy, holds=holds)


def _code(response: Reply) -> str:
    return str(response.json.get("errorCode", "")) if isinstance(response.json, dict) else ""


_FIRST_BYTE = "bytes=0-0"


def check_signed_file(client: SharingClient, url: str, name: str) -> Iterator[Finding]:
    """Check that a file can be read with its signed URL, but not without or with a forged signature."""
    try:
        yield from _check_downloads(client, url, name)
    except UnsafeResponse as refusal:
        remedy = "check the URLs that the server signs: each must belong to a file in its object store"
        yield Finding(f"returns a valid URL of {name}", "failed", f"{refusal}", remedy)


def _check_downloads(client: SharingClient, url: str, name: str) -> Iterator[Finding]:
    byte = client.fetch(url, _FIRST_BYTE)
    yield judge(
        f"signs a URL that reads {name}",
        f"{byte.status_code}, {len(byte.content)} bytes",
        "check the signing role: it needs s3:GetObject on the bucket and kms:Decrypt on its key (DataKeys)",
        holds=byte.status_code == httpx.codes.PARTIAL_CONTENT and len(byte.content) == 1,
    )
    unsigned = client.fetch(urlsplit(url)._replace(query="").geturl(), _FIRST_BYTE)
    yield judge(
        f"rejects that URL without its signature ({name})",
        f"{unsigned.status_code}",
        "check the bucket's policy and its public access block: anyone can read it",
        holds=unsigned.status_code == httpx.codes.FORBIDDEN,
    )
    forged = client.fetch(f"{url[:-4]}0000", _FIRST_BYTE)
    yield judge(
        f"rejects that URL with a changed signature ({name})",
        f"{forged.status_code}",
        "check the object store: it does not verify signatures",
        holds=forged.status_code == httpx.codes.FORBIDDEN,
    )


def judge_response(check: str, response: Reply, detail: str, remedy: str, *, holds: bool = True) -> Finding:
    """Return a finding about a response, which passes if the status is 200 and `holds`."""
    observed = f"{response.status}, {detail}" if detail else f"{response.status}"
    return judge(check, observed, remedy, holds=response.status == httpx.codes.OK and holds)


def error_message(response: Reply) -> str:
    """Return the message of an error response, at most 200 characters, or "no message"."""
    return str((isinstance(response.json, dict) and response.json.get("message")) or "no message")[:200]
