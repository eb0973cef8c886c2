"""The answers about one table for Iceberg's clients: its metadata, and how its files and that are read."""

import hashlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from deltaic.errors import UnsupportedOperation
from deltaic.protocol import iceberg_bodies
from deltaic.sharing.audit_record import stamp
from deltaic.sharing.caller import Caller, TableName
from deltaic.sharing.context import SharedTable, Sharing
from deltaic.sharing.iceberg_clients.made_metadata import MadeMetadata, made_metadata
from deltaic.sharing.iceberg_clients.opened_table import open_table
from deltaic.sharing.iceberg_clients.signed_set import SignedSet, seal_set
from deltaic.storage.endpoints import is_aws
from deltaic.storage.locations import Location
from deltaic.storage.sessions import session_name
from deltaic.storage.vending import vend_files


class LoadedTable(msgspec.Struct, frozen=True):
    """The answer to loadTable."""

    etag: str
    body: bytes | None
    """None where the client has it already."""


def load_table(sharing: Sharing, caller: Caller, name: TableName, known_etags: str = "") -> LoadedTable:
    """Return a table's metadata and how it is read; `known_etags` is what the client says it has (If-None-Match).

    Raises what `open_table` and `made_metadata` do.
    """
    table = open_table(sharing, caller, name)
    made = made_metadata(sharing, table)
    caller.audit.add(version=made.version, listedFiles=made.files)
    # By the folder it covers table and rights, by the document's name its content.
    etag = f'"{hashlib.sha256(f"{table.entry.iceberg} {made.document_key}".encode()).hexdigest()[:32]}"'
    if etag in known_etags:
        return LoadedTable(etag, None)
    bucket = sharing.iceberg_bucket().name
    if table.entry.iceberg == "signed":
        settings, credentials = _signed(sharing, table, made), []
    else:
        settings = _vended(sharing, table, made.folder)
        prefixes = [*(f"{one.uri}/" for one in table.locations), f"s3://{bucket}/{made.folder}/"]
        # DuckDB sends what no prefix covers without keys.
        credentials = [iceberg_bodies.credential(prefix, settings) for prefix in prefixes]
    body = iceberg_bodies.loaded_table(f"s3://{bucket}/{made.document_key}", made.document, settings, credentials)
    return LoadedTable(etag, body)


def load_credentials(sharing: Sharing, caller: Caller, name: TableName) -> bytes:
    """Return credentials anew; raises as `load_table` does. Of a table that is signed for there are none."""
    table = open_table(sharing, caller, name)
    if table.entry.iceberg != "vended":
        raise UnsupportedOperation(f"The table {name} is read by signed requests, for which there are no credentials.")
    made = made_metadata(sharing, table)
    return iceberg_bodies.credentials(iceberg_bodies.credential("s3", _vended(sharing, table, made.folder)))


def _vended(sharing: Sharing, table: SharedTable, folder: str) -> dict[str, str]:
    """Return settings with keys that read the table's files and what was made for the same rights."""
    caller = table.caller
    beside = Location(sharing.iceberg_bucket().name, folder)
    keys = vend_files(sharing.sessions, caller.recipient_id, table.storage, table.locations, beside)
    ends = keys.expires_at_ms or 0
    caller.audit.add(
        session=session_name(caller.recipient_id), signedAt=stamp(sharing.clock()), signedUntil=stamp(ends / 1000)
    )
    return {
        "s3.access-key-id": keys.access_key_id,
        "s3.secret-access-key": keys.secret_access_key,
        "s3.session-token": keys.session_token,
        "s3.session-token-expires-at-ms": str(ends),
        "client.refresh-credentials-endpoint": f"{_path(table)}/credentials",
        **_store(table),
    }


def _signed(sharing: Sharing, table: SharedTable, made: MadeMetadata) -> dict[str, str]:
    """Return settings by which each request is signed by this server; without an address it is the catalog's own."""
    endpoint = f"{_path(table)}/sign?set={seal_set(sharing, table, SignedSet(made.folder, made.version))}"
    return {
        "s3.remote-signing-enabled": "true",
        "s3.signer": "S3V4RestSigner",
        "s3.signer.endpoint": endpoint,
        "signer.endpoint": endpoint,
        "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",  # PyArrow's cannot
        **_store(table),
    }


def _path(table: SharedTable) -> str:

    share, schema, name = (
        quote(one, safe="") for one in (table.entry.share, table.entry.schema_name, table.entry.name)
    )
    return f"v1/shares/{share}/namespaces/{schema}/tables/{name}"


def _store(table: SharedTable) -> Mapping[str, Any]:
    """Return settings of where the files are, beside what every client knows of AWS."""
    storage = table.storage
    told = {"s3.region": storage.region, "client.region": storage.region}
    endpoint = storage.public_endpoint or storage.endpoint
    if endpoint and not is_aws(endpoint):
        told |= {"s3.endpoint": endpoint, "s3.path-style-access": "true"}
    return told
