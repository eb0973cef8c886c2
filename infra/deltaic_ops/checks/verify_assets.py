"""Checks what a recipient fetches: signed files, files of volumes, skills and models, Iceberg metadata."""

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
"""What a folder answers that is shared by credentials only."""


def assets(client: SharingClient, share: str, most: int) -> Iterator[Finding]:
    """Check so many assets of each kind; of a server that knows none, nothing."""
    for kind in KINDS:
        listing = client.get(f"{segments(share)}/all-{kind}s")
        if listing.status == httpx.codes.NOT_FOUND:
            continue
        listed = items(listing)
        remedy = f"the log of the function list-{kind}s"
        yield answered(f"lists the {kind}s of {share}", listing, f"{len(listed)} {kind}s", remedy)
        for item in listed[:most]:
            parts = (share, str(item["schema"]), str(item["name"]))
            path = f"{segments(*parts[:2])}/{kind}s/{quote(parts[2], safe='')}"
            name = f"the {kind} {'.'.join(parts)}"
            if kind == "model":
                versions = client.get(f"{path}/versions").json["items"]
                for number in [one["version"] for one in versions[-1:]]:
                    yield from _folder(client, kind, f"{path}/versions/{number}", f"{name} {number}")
            else:
                yield from _folder(client, kind, path, name)


def _folder(client: SharingClient, kind: str, path: str, name: str) -> Iterator[Finding]:
    """Check that files are listed, and that only a signed URL gives one; or that credentials are given."""
    listing = client.get(f"{path}/files", maxResults=10)
    if _code(listing) == _BY_CREDENTIALS:
        asset = "model-version" if kind == "model" else kind
        keys = client.ask("POST", f"{path}/temporary-{asset}-credentials", body={})
        remedy = f"the log of the function create-{kind}-credentials: {message(keys)}"
        yield answered(f"gives credentials for {name}", keys, "", remedy)
        return
    files = [str(one["name"]) for one in items(listing) if one.get("size")]
    remedy = f"that its location is right, and the log of the function list-{kind}-files: {message(listing)}"
    yield answered(f"lists the files of {name}", listing, "files" if files else "none", remedy)
    if files:
        signed = client.ask("POST", f"{path}/files", body={"paths": files[:1]})
        for one in items(signed):
            yield from signed_file(client, str(one["url"]), name)


def formats(client: SharingClient, path: str) -> Sequence[str]:
    """Return in which ways a table may be read; where the server does not say, in Delta Sharing's."""
    told = client.get(path)
    said: Any = told.json.get("format", "delta") if isinstance(told.json, dict) else "delta"
    return str(said).split(",")


def iceberg_table(client: SharingClient, share: str, schema: str, table: str) -> Finding:
    """Check that an Iceberg client is told a table's metadata."""
    names = (quote(one, safe="") for one in (share, schema, table))
    path = "/iceberg/v1/shares/{}/namespaces/{}/tables/{}".format(*names)
    loaded = client.get(path)
    told = loaded.json.get("metadata-location") if isinstance(loaded.json, dict) else None
    reason = loaded.json.get("error", {}).get("message", "") if isinstance(loaded.json, dict) else ""
    name = f"{share}.{schema}.{table}"
    remedy = f"deltaic table show {name}, and the log of the function load-iceberg-table: {reason[:200]}"
    return answered(f"gives the metadata of {name} to Iceberg clients", loaded, "", remedy, holds=bool(told))


def _code(answer: Reply) -> str:
    return str(answer.json.get("errorCode", "")) if isinstance(answer.json, dict) else ""


_FIRST_BYTE = "bytes=0-0"


def signed_file(client: SharingClient, url: str, name: str) -> Iterator[Finding]:
    """Check one by a byte; a URL that leads elsewhere than a server may is a finding too."""
    try:
        yield from _fetched(client, url, name)
    except UnsafeResponse as refusal:
        remedy = "what the server signs: the URL of a file in its object store"
        yield Finding(f"gives a URL of {name} that can be fetched", "failed", f"{refusal}", remedy)


def _fetched(client: SharingClient, url: str, name: str) -> Iterator[Finding]:
    byte = client.fetch(url, _FIRST_BYTE)
    yield judge(
        f"gives a byte of {name} by its URL",
        f"{byte.status_code}, {len(byte.content)} bytes",
        "the signing role: s3:GetObject on the bucket, kms:Decrypt on its key (DataKeys)",
        holds=byte.status_code == httpx.codes.PARTIAL_CONTENT and len(byte.content) == 1,
    )
    bare = client.fetch(urlsplit(url)._replace(query="").geturl(), _FIRST_BYTE)
    yield judge(
        f"keeps that file from who has no signature ({name})",
        f"{bare.status_code}",
        "the bucket's policy and its public access block: anybody can read it",
        holds=bare.status_code == httpx.codes.FORBIDDEN,
    )
    forged = client.fetch(f"{url[:-4]}0000", _FIRST_BYTE)
    yield judge(
        f"keeps that file from who changes a signature ({name})",
        f"{forged.status_code}",
        "the object store: it does not check signatures",
        holds=forged.status_code == httpx.codes.FORBIDDEN,
    )


def answered(check: str, answer: Reply, seen: str, remedy: str, *, holds: bool = True) -> Finding:
    """Judge an answer by its status, which must be 200, and by what else must hold of it."""
    said = f"{answer.status}, {seen}" if seen else f"{answer.status}"
    return judge(check, said, remedy, holds=answer.status == httpx.codes.OK and holds)


def message(answer: Reply) -> str:
    """Return what an error says."""
    return str(answer.json.get("message", ""))[:200] if isinstance(answer.json, dict) else ""
