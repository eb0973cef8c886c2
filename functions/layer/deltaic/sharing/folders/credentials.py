"""Decides who gets credentials of their own for a folder, of a table or of what is shared beside tables."""

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
    """Return the answer's body (PROTOCOL.md, "Generate Temporary Table Credential").

    Raises NotFound for a table that is not granted, UnsupportedOperation and InvalidParameter where the table is not
    shared by directory, InvalidParameter for a location that is not the table's.
    """
    table = sharing.table(caller, name)
    table.require_delta()
    table.require_directory_access()
    vended = vend(sharing.sessions, caller.recipient_id, table.storage, table.locations, request.location or "")
    told = _told(sharing, caller, table.storage, vended)
    return json_bodies.encode({"credentials": {"location": vended.location.uri, **told}})


def create_folder_credentials(sharing: Sharing, caller: Caller, kind: "AssetKind", name: "AssetName") -> bytes:
    """Return the answer's body (OpenSharing, "Generate Temporary ... Credentials").

    Raises NotFound for what is not granted, UnsupportedOperation where it is not shared by directory.
    """
    from deltaic.sharing.folders.shared_folder import open_folder

    folder = open_folder(sharing, caller, kind, name)
    folder.require_directory_access()
    vended = vend(sharing.sessions, caller.recipient_id, folder.storage, TableLocations(folder.location))
    return json_bodies.encode(_told(sharing, caller, folder.storage, vended))


def _told(sharing: Sharing, caller: Caller, storage: StorageConfig, vended: TableCredentials) -> dict[str, Any]:
    """Return what is told of credentials, and tell the log who has them until when."""
    keys, endpoint = vended.credentials, storage.public_endpoint or storage.endpoint
    caller.audit.signed(session_name(caller.recipient_id), sharing.clock(), (keys.expires_at_ms or 0) / 1000)
    return json_bodies.aws_credentials(
        access_key_id=keys.access_key_id,
        secret_access_key=keys.secret_access_key,
        session_token=keys.session_token,
        expires_at_ms=keys.expires_at_ms or 0,
        region=storage.region,
        endpoint="" if is_aws(endpoint) else endpoint,
    )
