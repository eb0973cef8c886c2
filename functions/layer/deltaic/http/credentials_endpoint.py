"""Endpoints of temporary folder credentials, in a module that does not load the Delta log reader."""

from deltaic.http.asset_endpoints import asset_kind, asset_name
from deltaic.http.request import Request
from deltaic.http.response import Response, json_response
from deltaic.protocol.requests import CredentialsRequest
from deltaic.sharing.folders import credentials
from deltaic.sharing.runtime import connect_sessions, sharing
from deltaic.snapstart import call_after_restore

call_after_restore(connect_sessions)


def create_table_credentials(request: Request) -> Response:
    """POST .../temporary-table-credentials: credentials that read the table's folder."""
    body = CredentialsRequest.parse(request.body)
    return json_response(credentials.create_table_credentials(sharing(), request.caller, request.table, body))


def create_asset_credentials(request: Request) -> Response:
    """POST .../temporary-volume-credentials, also for skills and model versions; ignores the request's body."""
    kind = asset_kind(request, "create_{}_credentials")
    name = asset_name(request, kind)
    return json_response(credentials.create_folder_credentials(sharing(), request.caller, kind, name))
