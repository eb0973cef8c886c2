"""The endpoint of a table's credentials; apart from `http.table_endpoints`, since it reads no log."""

from deltaic.http.request import Request
from deltaic.http.response import Response, json_response
from deltaic.http.runtime import connect_sessions, sharing
from deltaic.http.snapstart import call_after_restore
from deltaic.protocol.requests import CredentialsRequest
from deltaic.sharing import credentials
from deltaic.sharing.caller import TableName

call_after_restore(connect_sessions)


def create_table_credentials(request: Request) -> Response:
    """POST .../temporary-table-credentials."""
    name = TableName(request.names["share"], request.names["schema"], request.names["table"])
    body = CredentialsRequest.parse(request.body)
    return json_response(credentials.create_table_credentials(sharing(), request.caller, name, body))
