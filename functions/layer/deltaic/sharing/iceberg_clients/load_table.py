"""The answers about one table for Iceberg's clients: its metadata, and how its files and that are read."""

import hashlib
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Final
from urllib.parse import quote

import msgspec

from deltaic import partition_filters, storage
from deltaic.errors import UnsupportedOperation
from deltaic.protocol import iceberg_bodies
from deltaic.sharing import rights
from deltaic.sharing.caller import Caller, RequestedTable
from deltaic.sharing.context import SharedTable, Sharing
from deltaic.sharing.iceberg_clients.background_generation import latest_metadata
from deltaic.sharing.iceberg_clients.native_metadata import read_native_metadata
from deltaic.sharing.iceberg_clients.signed_set import SET_TTL, SignedSet, seal_set
from deltaic.sharing.iceberg_clients.table_access import open_table
from deltaic.storage.endpoints import is_aws
from deltaic.storage.glue_catalog import metadata_location
from deltaic.storage.locations import Location
from deltaic.storage.sessions import session_name
from deltaic.storage.vending import vend_files

BEFORE_SNAPSHOT: Final = (
    *partition_filters.BEFORE_SNAPSHOT,
    *rights.BEFORE_SNAPSHOT,
    *storage.BEFORE_SNAPSHOT,
)
"""Modules that the first request for a table may import; a snapshot of the process has them already."""

_PERIODS: Final[Mapping[str, timedelta]] = {"vended": timedelta(minutes=30), "signed": SET_TTL / 3}
"""How long the same answer is not given again to who has it, by how the table is read."""


class LoadedTable(msgspec.Struct, frozen=True):
    """The answer to loadTable."""

    etag: str
    body: bytes | None
    """None where the client has it already."""


class _Document(msgspec.Struct, frozen=True):
    uri: str
    content: bytes
    made: tuple[Location, ...]
    """The folder of what was made for the recipient's rights; none for an Iceberg table's own metadata."""
    signed_set: str = ""
    """What a reader sends along to have requests signed."""


def load_table(sharing: Sharing, caller: Caller, name: RequestedTable, known_etags: str = "") -> LoadedTable:
    """Return a table's metadata and how it is read; `known_etags` is what the client says it has (If-None-Match).

    Raises what `open_table`, `latest_metadata` and `read_native_metadata` do.
    """
    table = open_table(sharing, caller, name)
    found = _document(sharing, table)
    # The place names table, rights and content; the time, since what it is read with ends: keys, or the signed set.
    period = _PERIODS[table.entry.iceberg]
    known = f"{table.entry.iceberg} {found.uri} {sharing.clock() // period.total_seconds():.0f}"
    etag = f'"{hashlib.sha256(known.encode()).hexdigest()[:32]}"'
    if etag in known_etags:
        return LoadedTable(etag, None)
    settings = _vended(sharing, table, found) if table.entry.iceberg == "vended" else _signed(table, found)
    # One for each place: DuckDB sends what no prefix covers without keys.
    places = [*table.locations, *found.made] if table.entry.iceberg == "vended" else []
    credentials = [iceberg_bodies.credential(f"{one.uri}/", settings) for one in places]
    return LoadedTable(etag, iceberg_bodies.loaded_table(found.uri, found.content, settings, credentials))


def load_credentials(sharing: Sharing, caller: Caller, name: RequestedTable) -> bytes:
    """Return credentials anew; raises as `load_table` does. Of a table that is signed for there are none."""
    table = open_table(sharing, caller, name)
    if table.entry.iceberg != "vended":
        raise UnsupportedOperation(f"The table {name} is read by signed requests, for which there are no credentials.")
    settings = _vended(sharing, table, _document(sharing, table))
    return iceberg_bodies.credentials(iceberg_bodies.credential("s3", settings))


def _document(sharing: Sharing, table: SharedTable) -> _Document:
    if table.entry.format == "iceberg":
        own = read_native_metadata(
            sharing.files(table),
            table.locations,
            table.entry.metadata_location,
            partial(metadata_location, sharing.home),
        )
        return _Document(own.location, own.document, ())
    made = latest_metadata(sharing, table)
    table.caller.audit.add(version=made.version, listedFiles=made.files)
    bucket = sharing.iceberg_bucket().name
    signed = SignedSet(made.folder, made.version, made.index_key, made.listed)
    token = seal_set(sharing, table, signed) if table.entry.iceberg == "signed" else ""
    return _Document(f"s3://{bucket}/{made.document_key}", made.document, (Location(bucket, made.folder),), token)


def _vended(sharing: Sharing, table: SharedTable, found: _Document) -> dict[str, str]:
    """Return settings with keys that read the table's files and what was made for the same rights."""
    caller = table.caller
    keys = vend_files(sharing.sessions, caller.recipient_id, table.storage, table.locations, found.made)
    ends = keys.expires_at_ms or 0
    caller.audit.signed(session_name(caller.recipient_id), sharing.clock(), ends / 1000)
    return {
        "s3.access-key-id": keys.access_key_id,
        "s3.secret-access-key": keys.secret_access_key,
        "s3.session-token": keys.session_token,
        "s3.session-token-expires-at-ms": str(ends),
        "client.refresh-credentials-endpoint": f"{_path(table)}/credentials",
        **_store(table),
    }


def _signed(table: SharedTable, found: _Document) -> dict[str, str]:
    """Return settings by which each request is signed by this server; without an address it is the catalog's own."""
    endpoint = f"{_path(table)}/sign" + (f"?set={found.signed_set}" if found.signed_set else "")
    return {
        "s3.remote-signing-enabled": "true",
        "s3.signer": "S3V4RestSigner",
        "s3.signer.endpoint": endpoint,
        "signer.endpoint": endpoint,
        "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",  # PyArrow's cannot
        **_store(table),
    }


def _path(table: SharedTable) -> str:
    entry = table.entry
    share, schema, name = (quote(one, safe="") for one in (entry.share, entry.schema_name, entry.name))
    return f"v1/shares/{share}/namespaces/{schema}/tables/{name}"


def _store(table: SharedTable) -> Mapping[str, Any]:
    """Return settings of where the files are, beside what every client knows of AWS."""
    storage = table.storage
    told = {"s3.region": storage.region, "client.region": storage.region}
    endpoint = storage.public_endpoint or storage.endpoint
    if endpoint and not is_aws(endpoint):
        told |= {"s3.endpoint": endpoint, "s3.path-style-access": "true"}
    return told
