"""Vend temporary credentials for the folder of a table, volume, skill or model version."""

from typing import TYPE_CHECKING, Any

from deltaic.protocol import json_bodies
from deltaic.protocol.requests import CredentialsRequest
from deltaic.sharing.caller import Caller, RequestedTable
from deltaic.sharing.context import Sharing
from deltaic.storage.endpoints import StorageConfig, is_aws
from deltaic.storage.locations import TableLocations
from deltaic.storage.sessions import session_name
from deltaic.storage.vending import TableCredentials, vend

if TYPE_CHECKING:
    from deltaic.sharing.folders.shared_folder import AssetKind, AssetName


def create_table_credentials(
    sharing: Sharing, caller: Caller, name: RequestedTable, request: CredentialsRequest
) -> bytes:
    """Return temporary credentials for a table's folder (PROTOCOL.md, "Generate Temporary Table Credential").

    Raises NotFound for a table that is not granted, UnsupportedOperation or InvalidParameter for a table that is not
    shared by directory access, and InvalidParameter for a location outside the table.
    """
    table = sharing.table(caller, name)
    table.require_client_files()
    table.require_directory_access()
    vended = vend(sharing.sessions, caller.recipient_id, table.storage, table.locations, request.location or "")
    fields = _to_json(sharing, caller, table.storage, vended)
    return json_bodies.encode({"credentials": {"location": vended.location.uri, **fields}})


def create_folder_credentials(sharing: Sharing, caller: Caller, kind: "AssetKind", name: "AssetName") -> bytes:
    """Return temporary credentials for an asset's folder (OpenSharing, "Generate Temporary ... Credentials").

    Raises NotFound for an asset that is not granted, and UnsupportedOperation without directory access.
    """
    from deltaic.sharing.folders.shared_folder import open_folder

    folder = open_folder(sharing, caller, kind, name)
    folder.require_directory_access()
    vended = vend(sharing.sessions, caller.recipient_id, folder.storage, TableLocations(folder.location))
    return json_bodies.encode(_to_json(sharing, caller, folder.storage, vended))


def _to_json(sharing: Sharing, caller: Caller, storage: StorageConfig, vended: TableCredentials) -> dict[str, Any]:
    """Convert credentials to the JSON of the response, and add their session and expiry to the audit record."""
    keys, endpoint = vended.credentials, storage.public_endpoint or storage.endpoint
    caller.audit.add_signing(session_name(caller.recipient_id), sharing.clock(), (keys.expires_at_ms or 0) / 1000)
    return json_bodies.aws_credentials(
        access_key_id=keys.access_key_id,
        secret_access_key=keys.secret_access_key,
        session_token=keys.session_token,
        expires_at_ms=keys.expires_at_ms or 0,
        region=storage.region,
        endpoint="" if is_aws(endpoint) else endpoint,
    )
