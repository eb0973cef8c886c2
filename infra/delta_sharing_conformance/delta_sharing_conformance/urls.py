"""Checks of what answers lead to: signed URLs of files and of deletion vectors, and temporary credentials."""

import time
from collections.abc import Mapping
from typing import Any

import httpx

from delta_sharing_conformance import expect
from delta_sharing_conformance.check import NotTried, check_each_table
from delta_sharing_conformance.client import BOTH
from delta_sharing_conformance.files import FileLine
from delta_sharing_conformance.shared import ListedTable, Shared

QUERIED = "can be queried and has a file"
WHOLE_BYTES = 4_000_000
"""Files up to this size are fetched whole."""
_CREDENTIALS = {
    "awsTempCredentials": ("accessKeyId", "secretAccessKey", "sessionToken"),
    "azureUserDelegationSas": ("sasToken",),
    "gcpOauthToken": ("oauthToken",),
}


def _one(table: ListedTable) -> FileLine:
    for response_format in table.whole:
        for file in table.files(response_format):
            return file
    raise NotTried(f"no table that the profile sees {QUERIED}")


@check_each_table("File", QUERIED)
def URLs_give_the_file(table: ListedTable) -> None:  # noqa: N802 -- the protocol's word
    """Give URLs that anybody can GET without a token, whole and by ranges, of as many bytes as size says."""
    file = _one(table)
    part = table.client.fetch(file.url, "bytes=0-3")
    message = f"a file's URL answers {part.status_code} to a range with {len(part.content)} bytes"
    expect.that(part.status_code == httpx.codes.PARTIAL_CONTENT and part.content == b"PAR1", message)
    total = part.headers.get("content-range", "").rpartition("/")[2]
    expect.that(not total.isdigit() or int(total) == file.size, f"a file of size {file.size} has {total} bytes")
    if file.size <= WHOLE_BYTES:
        whole = table.client.fetch(file.url)
        message = f"a file's URL answers {whole.status_code} with {len(whole.content)} bytes, its size is {file.size}"
        expect.that(whole.status_code == httpx.codes.OK and len(whole.content) == file.size, message)


@check_each_table("File", QUERIED)
def URLs_live_as_long_as_they_say(table: ListedTable) -> None:  # noqa: N802 -- the protocol's word
    """Give in expirationTimestamp, if at all, a time in milliseconds that is still to come."""
    file = _one(table)
    if file.expiration is None:
        raise NotTried("no answer says when its URLs end")
    left = file.expiration / 1000 - time.time()
    expect.that(left > 0, f"a URL that was just given ended {-left:.0f} s ago")
    expect.that(left < 366 * 86_400, f"a URL lives {left / 86_400:.0f} days: the time is in milliseconds")


@check_each_table("File in Delta Format", QUERIED)
def deletion_vectors_can_be_fetched(table: ListedTable) -> None:
    """Give each deletion vector inline, or at a URL that anybody can GET."""
    vectors = [file.vector for file in table.files("delta") if file.vector] if "delta" in table.whole else []
    if not vectors:
        raise NotTried("no table that the profile sees has deletion vectors")
    for content in vectors[:3]:
        vector = expect.typed("deletionVector", content, {"storageType": str, "pathOrInlineDv": str})
        expect.that(vector["storageType"] in {"p", "i"}, f"a deletion vector of storageType {vector['storageType']!r}")
        if vector["storageType"] == "p":
            offset = vector.get("offset") or 0
            span = f"bytes={offset}-{offset + int(vector['sizeInBytes']) + 7}"  # 4 of its length, 4 of its checksum
            got = table.client.fetch(vector["pathOrInlineDv"], span)
            enough = len(got.content) == int(vector["sizeInBytes"]) + 8
            expect.that(got.status_code == httpx.codes.PARTIAL_CONTENT and enough, f"its URL answers {got.status_code}")


@check_each_table("Data Change Files", QUERIED)
def URLs_of_changes_give_the_file(table: ListedTable) -> None:  # noqa: N802 -- the protocol's word
    """Give URLs of change data and of removed files that can be fetched like any other."""
    if not table.changed:
        raise NotTried("no table that the profile sees has a change data feed that its reader may see")
    for _, reply in table.changed.values():
        kinds = {file.action: file for file in expect.files(reply)}
        for action, file in kinds.items():
            part = table.client.fetch(file.url, "bytes=0-3")
            expect.that(part.content == b"PAR1", f"the URL of a file of {action} answers {part.status_code}")


def _offered(shared: Shared) -> list[ListedTable]:
    return [table for table in shared.tables if "dir" in table.modes]


@check_each_table("Generate Temporary Table Credential", "offers the access mode dir", of=_offered)
def temporary_credentials_are_given(table: ListedTable) -> None:
    """Answer .../temporary-table-credentials with one kind of credentials, their location and a time to come."""
    for body in ({}, {"location": str(table.entry.get("location", ""))}):
        reply = expect.answered(table.client.ask("POST", f"{table.path}/temporary-table-credentials", body=body))
        told = expect.typed("the answer", reply.json, {"credentials": dict})["credentials"]
        temporary_credentials(expect.typed("credentials", told, {"location": str, "expirationTime": int}))
        place = told["location"].rstrip("/")
        expect.that(place == str(table.entry.get("location", "")).rstrip("/"), "credentials for another location")


@check_each_table("Generate Temporary Table Credential", "offers the access mode dir", of=_offered)
def credentials_for_elsewhere_are_refused(table: ListedTable) -> None:
    """Answer 400, 403 or 404 with an error body to a location that is not the table's."""
    for place in ("s3://no-such-bucket-9f4c1d27/table", f"{table.entry.get('location', '')}/../elsewhere"):
        path = f"{table.path}/temporary-table-credentials"
        expect.refused(table.client.ask("POST", path, body={"location": place}), 400, 403, 404)


@check_each_table(
    "Access Modes",
    "is read by its directory alone",
    of=lambda shared: [table for table in _offered(shared) if "url" not in table.modes],
)
def tables_without_URLs_cannot_be_queried(table: ListedTable) -> None:  # noqa: N802 -- the protocol's word
    """Answer a query of a table that is read by its directory alone with 400 or 403 and an error body."""
    expect.refused(table.query(BOTH), 400, 403)


def temporary_credentials(told: Mapping[str, Any]) -> None:
    """Expect credentials of one kind, and a time to come at which they end."""
    kinds = [name for name in _CREDENTIALS if told.get(name)]
    expect.that(len(kinds) == 1, f"credentials of {len(kinds)} kinds, not of one")
    expect.typed(kinds[0], told[kinds[0]], dict.fromkeys(_CREDENTIALS[kinds[0]], str))
    expect.that(told["expirationTime"] / 1000 > time.time(), "credentials that have ended")
