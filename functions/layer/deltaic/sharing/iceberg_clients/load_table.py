"""Respond to loadTable of Iceberg clients: the metadata of a table, and how to read its files."""

import hashlib
from collections.abc import Mapping
from datetime import timedelta
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
from deltaic.sharing.iceberg_clients.signed_set import SET_TTL, SignedSet, seal_set
from deltaic.sharing.iceberg_clients.table_access import open_table
from deltaic.sharing.native_metadata import read_native_metadata
from deltaic.storage.endpoints import is_aws
from deltaic.storage.locations import Location
from deltaic.storage.sessions import session_name
from deltaic.storage.table_catalogs import clients_at
from deltaic.storage.vending import vend_files

BEFORE_SNAPSHOT: Final = (
    *partition_filters.BEFORE_SNAPSHOT,
    *rights.BEFORE_SNAPSHOT,
    *storage.BEFORE_SNAPSHOT,
)
"""Modules that the first request for a table may import, so that SnapStart imports them in advance."""

_PERIODS: Final[Mapping[str, timedelta]] = {"vended": timedelta(minutes=30), "signed": SET_TTL / 3}
"""How long a client can reuse a response (304 Not Modified), by how it reads the files."""


class LoadedTable(msgspec.Struct, frozen=True):
    """Response to loadTable."""

    etag: str
    body: bytes | None
    """Response body; None (304 Not Modified) if the client's copy is still valid."""


class _MetadataDocument(msgspec.Struct, frozen=True):
    uri: str
    content: bytes
    generated: tuple[Location, ...]
    """Location of generated metadata; empty for tables that are in Iceberg format."""
    signed_set: str = ""
    """Token that the client sends with each signing request; empty without signing."""


def load_table(sharing: Sharing, caller: Caller, name: RequestedTable, if_none_match: str = "") -> LoadedTable:
    """Return a table's metadata and how to read its files; `if_none_match` is the request header.

    Raises the errors of `open_table`, `latest_metadata` and `read_native_metadata`.
    """
    table = open_table(sharing, caller, name)
    document = _document(sharing, table)
    # The URI identifies table, rights and content. The period is included because keys and signed sets expire.
    period = _PERIODS[table.entry.iceberg]
    identity = f"{table.entry.iceberg} {document.uri} {sharing.clock() // period.total_seconds():.0f}"
    etag = f'"{hashlib.sha256(identity.encode()).hexdigest()[:32]}"'
    if etag in if_none_match:
        return LoadedTable(etag, None)
    settings = _vended(sharing, table, document) if table.entry.iceberg == "vended" else _signed(table, document)
    # One for each location, because DuckDB sends no keys to URLs without a matching prefix.
    locations = [*table.locations, *document.generated] if table.entry.iceberg == "vended" else []
    credentials = [iceberg_bodies.credential(f"{location.uri}/", settings) for location in locations]
    return LoadedTable(etag, iceberg_bodies.loaded_table(document.uri, document.content, settings, credentials))


def load_credentials(sharing: Sharing, caller: Caller, name: RequestedTable) -> bytes:
    """Return new credentials; raises the errors of `load_table`, and UnsupportedOperation if requests are signed."""
    table = open_table(sharing, caller, name)
    if table.entry.iceberg != "vended":
        raise UnsupportedOperation(f"The table {name} has no vended credentials: read it with signed requests.")
    settings = _vended(sharing, table, _document(sharing, table))
    return iceberg_bodies.credentials(iceberg_bodies.credential("s3", settings))


def _document(sharing: Sharing, table: SharedTable) -> _MetadataDocument:
    if table.entry.format == "iceberg":
        reference, client_of = table.entry.metadata_location, clients_at(sharing.home)
        return _MetadataDocument(*read_native_metadata(sharing.files(table), table.locations, reference, client_of), ())
    metadata = latest_metadata(sharing, table)
    table.caller.audit.add(version=metadata.version, listedFiles=metadata.files)
    bucket = sharing.iceberg_bucket().name
    signed = SignedSet(metadata.folder, metadata.version, metadata.index_key, metadata.listed)
    token = seal_set(sharing, table, signed) if table.entry.iceberg == "signed" else ""
    uri = f"s3://{bucket}/{metadata.document_key}"
    return _MetadataDocument(uri, metadata.document, (Location(bucket, metadata.folder),), token)


def _vended(sharing: Sharing, table: SharedTable, document: _MetadataDocument) -> dict[str, str]:
    """Return client settings with AWS keys that read the table's files and its generated metadata."""
    caller = table.caller
    keys = vend_files(sharing.sessions, caller.recipient_id, table.storage, table.locations, document.generated)
    expires_at_ms = keys.expires_at_ms or 0
    caller.audit.add_signing(session_name(caller.recipient_id), sharing.clock(), expires_at_ms / 1000)
    return {
        "s3.access-key-id": keys.access_key_id,
        "s3.secret-access-key": keys.secret_access_key,
        "s3.session-token": keys.session_token,
        "s3.session-token-expires-at-ms": str(expires_at_ms),
        "client.refresh-credentials-endpoint": f"{_path(table)}/credentials",
        **_storage_settings(table),
    }


def _signed(table: SharedTable, document: _MetadataDocument) -> dict[str, str]:
    """Return client settings with this server's signing endpoint, relative to the catalog's URL."""
    endpoint = f"{_path(table)}/sign" + (f"?set={document.signed_set}" if document.signed_set else "")
    return {
        "s3.remote-signing-enabled": "true",
        "s3.signer": "S3V4RestSigner",
        "s3.signer.endpoint": endpoint,
        "signer.endpoint": endpoint,
        "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",  # PyArrow's file IO cannot sign remotely
        **_storage_settings(table),
    }


def _path(table: SharedTable) -> str:
    entry = table.entry
    share, schema, name = (quote(part, safe="") for part in (entry.share, entry.schema_name, entry.name))
    return f"v1/shares/{share}/namespaces/{schema}/tables/{name}"


def _storage_settings(table: SharedTable) -> Mapping[str, Any]:
    """Return client settings with the region and the S3 endpoint of the table's files."""
    storage = table.storage
    settings = {"s3.region": storage.region, "client.region": storage.region}
    endpoint = storage.public_endpoint or storage.endpoint
    if endpoint and not is_aws(endpoint):
        settings |= {"s3.endpoint": endpoint, "s3.path-style-access": "true"}
    return settings
