"""Checks of signed URLs of files and deletion vectors, and of temporary credentials."""

import time
from collections.abc import Mapping
from typing import Any

import httpx

from delta_sharing_conformance import expect
from delta_sharing_conformance.catalog import Catalog, ListedTable
from delta_sharing_conformance.check import CheckSkipped, check_each_table
from delta_sharing_conformance.client import BOTH
from delta_sharing_conformance.files import FileLine

CREDENTIALS = "Generate Temporary Table Credential"
DIRECTORY = "has the access mode dir"
HAS_FILE = "can be queried and has a file"
MAX_DOWNLOAD = 4_000_000
"""Maximum size in bytes of files that checks download completely."""
_CREDENTIALS = {
    "awsTempCredentials": ("accessKeyId", "secretAccessKey", "sessionToken"),
    "azureUserDelegationSas": ("sasToken",),
    "gcpOauthToken": ("oauthToken",),
}


def _any_file(table: ListedTable) -> FileLine:
    for response_format in table.full_replies:
        for file in table.files(response_format):
            return file
    raise CheckSkipped(f"no shared table {HAS_FILE}")


@check_each_table("File", HAS_FILE, id="URLs give the file")
def URLs_return_the_file(table: ListedTable) -> None:  # noqa: N802 -- the protocol's word
    """Return URLs that work without a token, completely and by range, for objects of the given size."""
    file = _any_file(table)
    part = table.client.fetch(file.url, "bytes=0-3")
    message = f"a file's URL returned {part.status_code} with {len(part.content)} bytes for a range"
    expect.that(part.status_code == httpx.codes.PARTIAL_CONTENT and part.content == b"PAR1", message)
    total = part.headers.get("content-range", "").rpartition("/")[2]
    expect.that(not total.isdigit() or int(total) == file.size, f"a file of size {file.size} has {total} bytes")
    if file.size <= MAX_DOWNLOAD:
        response = table.client.fetch(file.url)
        message = (
            f"a file's URL returned {response.status_code} with {len(response.content)} bytes instead of {file.size}"
        )
        expect.that(response.status_code == httpx.codes.OK and len(response.content) == file.size, message)


@check_each_table("File", HAS_FILE, id="URLs live as long as they say")
def URL_expiration_is_plausible(table: ListedTable) -> None:  # noqa: N802 -- the protocol's word
    """Set expirationTimestamp, if present, to a future time in milliseconds."""
    file = _any_file(table)
    if file.expiration is None:
        raise CheckSkipped("no response has expiration times of URLs")
    remaining = file.expiration / 1000 - time.time()
    expect.that(remaining > 0, f"a new URL expired {-remaining:.0f} s ago")
    expect.that(remaining < 366 * 86_400, f"a URL expires in {remaining / 86_400:.0f} days: use milliseconds")


@check_each_table("File in Delta Format", HAS_FILE, id="deletion vectors can be fetched")
def deletion_vectors_can_be_downloaded(table: ListedTable) -> None:
    """Return each deletion vector inline, or as a URL that works without a token."""
    vectors = [file.vector for file in table.files("delta") if file.vector] if "delta" in table.full_replies else []
    if not vectors:
        raise CheckSkipped("no shared table has deletion vectors")
    for content in vectors[:3]:
        vector = expect.fields("deletionVector", content, {"storageType": str, "pathOrInlineDv": str})
        expect.that(vector["storageType"] in {"p", "i"}, f"a deletion vector of storageType {vector['storageType']!r}")
        if vector["storageType"] == "p":
            offset = vector.get("offset") or 0
            size = int(vector["sizeInBytes"]) + 8  # with 4 bytes for the length, and 4 for the checksum
            response = table.client.fetch(vector["pathOrInlineDv"], f"bytes={offset}-{offset + size - 1}")
            is_complete = len(response.content) == size
            message = f"the URL of a deletion vector returned {response.status_code} with {len(response.content)} bytes"
            expect.that(response.status_code == httpx.codes.PARTIAL_CONTENT and is_complete, message)


@check_each_table("Data Change Files", HAS_FILE, id="URLs of changes give the file")
def change_feed_URLs_return_the_file(table: ListedTable) -> None:  # noqa: N802 -- the protocol's word
    """Return working URLs for change data files and removed files."""
    if not table.change_feeds:
        raise CheckSkipped("no shared table has a readable change data feed")
    for _, reply in table.change_feeds.values():
        kinds = {file.action: file for file in expect.files(reply)}
        for action, file in kinds.items():
            part = table.client.fetch(file.url, "bytes=0-3")
            expect.that(part.content == b"PAR1", f"the URL of a file with action {action} returned {part.status_code}")


def _directory_tables(catalog: Catalog) -> list[ListedTable]:
    return [table for table in catalog.tables if "dir" in table.access_modes]


@check_each_table(CREDENTIALS, DIRECTORY, tables=_directory_tables, id="temporary credentials are given")
def temporary_credentials_are_issued(table: ListedTable) -> None:
    """Respond to .../temporary-table-credentials with one type of credentials, location and a future expirationTime."""
    for body in ({}, {"location": str(table.entry.get("location", ""))}):
        reply = expect.ok(table.client.ask("POST", f"{table.path}/temporary-table-credentials", body=body))
        credentials = expect.fields("the response", reply.json, {"credentials": dict})["credentials"]
        check_credentials(expect.fields("credentials", credentials, {"location": str, "expirationTime": int}))
        location = credentials["location"].rstrip("/")
        expect.that(location == str(table.entry.get("location", "")).rstrip("/"), "credentials for another location")


@check_each_table(CREDENTIALS, DIRECTORY, tables=_directory_tables, id="credentials for elsewhere are refused")
def credentials_for_another_location_are_rejected(table: ListedTable) -> None:
    """Return 400, 403 or 404 and an error body for the location of another table."""
    for location in ("s3://no-such-bucket-9f4c1d27/table", f"{table.entry.get('location', '')}/../elsewhere"):
        path = f"{table.path}/temporary-table-credentials"
        expect.error(table.client.ask("POST", path, body={"location": location}), 400, 403, 404)


@check_each_table("Access Modes", "has only the access mode dir", tables=_directory_tables)
def tables_without_URLs_cannot_be_queried(table: ListedTable) -> None:  # noqa: N802 -- the protocol's word
    """Return 400 or 403 and an error body for a query if dir is the only access mode."""
    if "url" in table.access_modes:
        raise CheckSkipped("no shared table has only the access mode dir")
    expect.error(table.query(BOTH), 400, 403)


def check_credentials(credentials: Mapping[str, Any]) -> None:
    """Expect temporary credentials of exactly one cloud, with an expiration time in the future."""
    kinds = [name for name in _CREDENTIALS if credentials.get(name)]
    expect.that(len(kinds) == 1, f"credentials of {len(kinds)} types instead of one")
    expect.fields(kinds[0], credentials[kinds[0]], dict.fromkeys(_CREDENTIALS[kinds[0]], str))
    expect.that(credentials["expirationTime"] / 1000 > time.time(), "expired credentials")
