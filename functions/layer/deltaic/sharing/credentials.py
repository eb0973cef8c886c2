"""Decides who gets credentials of their own for a table's folder, and for which folder."""

from deltaic.protocol import json_bodies
from deltaic.protocol.requests import CredentialsRequest
from deltaic.sharing.audit_record import stamp
from deltaic.sharing.caller import Caller, TableName
from deltaic.sharing.context import Sharing
from deltaic.storage.endpoints import is_aws
from deltaic.storage.sessions import session_name
from deltaic.storage.vending import vend


def create_table_credentials(sharing: Sharing, caller: Caller, name: TableName, request: CredentialsRequest) -> bytes:
    """Return the answer's body (PROTOCOL.md, "Generate Temporary Table Credential").

    Raises NotFound for a table that is not granted, UnsupportedOperation and InvalidParameter where the table is not
    shared by directory, InvalidParameter for a location that is not the table's.
    """
    table = sharing.table(caller, name)
    table.require_delta()
    table.require_directory_access()
    vended = vend(sharing.sessions, caller.recipient_id, table.storage, table.locations, request.location or "")
    keys, endpoint = vended.credentials, table.storage.public_endpoint or table.storage.endpoint
    caller.audit.add(
        session=session_name(caller.recipient_id),
        signedAt=stamp(sharing.clock()),
        signedUntil=stamp((keys.expires_at_ms or 0) / 1000),
    )
    return json_bodies.table_credentials(
        vended.location.uri,
        access_key_id=keys.access_key_id,
        secret_access_key=keys.secret_access_key,
        session_token=keys.session_token,
        expires_at_ms=keys.expires_at_ms or 0,
        region=table.storage.region,
        endpoint="" if is_aws(endpoint) else endpoint,
    )
