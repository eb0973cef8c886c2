"""Checks that a signed URL gives its file, and that nothing else does."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
from delta_sharing_conformance.client import Reply, SharingClient
from delta_sharing_conformance.untrusted_http import AnswerRefused

from deltaic_ops.inspection.findings import Finding, judge

_FIRST_BYTE = "bytes=0-0"


def signed_file(client: SharingClient, url: str, name: str) -> Iterator[Finding]:
    """Check one by a byte; a URL that leads elsewhere than a server may is a finding too."""
    try:
        yield from _fetched(client, url, name)
    except AnswerRefused as refusal:
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
