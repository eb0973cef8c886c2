"""Checks of signed files, of volumes, skills and models, and of Iceberg metadata, as recipients fetch them."""

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
"""Error code of a folder that is shared only by credentials."""


def assets(client: SharingClient, share: str, most: int) -> Iterator[Finding]:
    """Check `most` assets of each kind that the server supports."""
    for kind in KINDS:
        listing = client.get(f"{segments(share)}/all-{kind}s")
        if listing.status == httpx.codes.NOT_FOUND:
            continue
        listed = items(listing)
        remedy = f"check the log of the function list-{kind}s"
        yield answered(f"lists the {kind}s of {share}", listing, f"{len(listed)} {kind}s", remedy)
        for item in listed[:most]:
            parts = (share, str(item["schema"]), str(item["name"]))
            path = f"{segments(*parts[:2])}/{kind}s/{quote(parts[2], safe='')}"
            name = f"the {kind} {'.'.join(parts)}"
            if kind == "model":
                versions = client.get(f"{path}/versions").json["items"]
                for number in [version["version"] for version in versions[-1:]]:
                    yield from _folder(client, kind, f"{path}/versions/{number}", f"{name} {number}")
            else:
                yield from _folder(client, kind, path, name)


def _folder(client: SharingClient, kind: str, path: str, name: str) -> Iterator[Finding]:
    """Check that files are listed, and only signed URLs give access; or that credentials are returned."""
    listing = client.get(f"{path}/files", maxResults=10)
    if _code(listing) == _BY_CREDENTIALS:
        asset = "model-version" if kind == "model" else kind
        keys = client.ask("POST", f"{path}/temporary-{asset}-credentials", body={})
        remedy = f"check the log of the function create-{kind}-credentials: {message(keys)}"
        yield answered(f"returns credentials for {name}", keys, "", remedy)
        return
    files = [str(file["name"]) for file in items(listing) if file.get("size")]
    remedy = f"check its location, and the log of the function list-{kind}-files: {message(listing)}"
    yield answered(f"lists the files of {name}", listing, "files" if files else "none", remedy)
    if files:
        signed = client.ask("POST", f"{path}/files", body={"paths": files[:1]})
        for file in items(signed):
            yield from signed_file(client, str(file["url"]), name)


def formats(client: SharingClient, path: str) -> Sequence[str]:
    """Return the formats in which a table can be read; `delta` if the server does not say."""
    answer = client.get(path)
    value: Any = answer.json.get("format", "delta") if isinstance(answer.json, dict) else "delta"
    return str(value).split(",")


def iceberg_table(client: SharingClient, share: str, schema: str, table: str) -> Finding:
    """Check that an Iceberg client receives a table's metadata."""
    names = (quote(part, safe="") for part in (share, schema, table))
    path = "/iceberg/v1/shares/{}/namespaces/{}/tables/{}".format(*names)
    loaded = client.get(path)
    location = loaded.json.get("metadata-location") if isinstance(loaded.json, dict) else None
    reason = loaded.json.get("error", {}).get("message", "") if isinstance(loaded.json, dict) else ""
    name = f"{share}.{schema}.{table}"
    remedy = f"check deltaic table show {name}, and the log of the function load-iceberg-table: {reason[:200]}"
    return answered(f"returns the metadata of {name} to Iceberg clients", loaded, "", remedy, holds=bool(location))


def _code(answer: Reply) -> str:
    return str(answer.json.get("errorCode", "")) if isinstance(answer.json, dict) else ""


_FIRST_BYTE = "bytes=0-0"


def signed_file(client: SharingClient, url: str, name: str) -> Iterator[Finding]:
    """Fetch one byte of a file; a URL with a forbidden target is a finding too."""
    try:
        yield from _fetched(client, url, name)
    except UnsafeResponse as refusal:
        remedy = "check the URLs that the server signs: each must be that of a file in its object store"
        yield Finding(f"returns a valid URL of {name}", "failed", f"{refusal}", remedy)


def _fetched(client: SharingClient, url: str, name: str) -> Iterator[Finding]:
    byte = client.fetch(url, _FIRST_BYTE)
    yield judge(
        f"signs a URL that reads {name}",
        f"{byte.status_code}, {len(byte.content)} bytes",
        "check the signing role: it needs s3:GetObject on the bucket and kms:Decrypt on its key (DataKeys)",
        holds=byte.status_code == httpx.codes.PARTIAL_CONTENT and len(byte.content) == 1,
    )
    bare = client.fetch(urlsplit(url)._replace(query="").geturl(), _FIRST_BYTE)
    yield judge(
        f"refuses that URL without its signature ({name})",
        f"{bare.status_code}",
        "check the bucket's policy and its public access block: anyone can read it",
        holds=bare.status_code == httpx.codes.FORBIDDEN,
    )
    forged = client.fetch(f"{url[:-4]}0000", _FIRST_BYTE)
    yield judge(
        f"refuses that URL with a changed signature ({name})",
        f"{forged.status_code}",
        "check the object store: it does not verify signatures",
        holds=forged.status_code == httpx.codes.FORBIDDEN,
    )


def answered(check: str, answer: Reply, seen: str, remedy: str, *, holds: bool = True) -> Finding:
    """Return a finding that passes if the status is 200 and the condition holds."""
    observed = f"{answer.status}, {seen}" if seen else f"{answer.status}"
    return judge(check, observed, remedy, holds=answer.status == httpx.codes.OK and holds)


def message(answer: Reply) -> str:
    """Return the message of an error response."""
    return str(answer.json.get("message", ""))[:200] if isinstance(answer.json, dict) else ""
