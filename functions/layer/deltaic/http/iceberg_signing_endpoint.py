"""The endpoint that signs requests of Iceberg's clients; apart from those of tables, since it reads no log."""

from deltaic.http.iceberg_endpoints import answer, table_name
from deltaic.http.request import Request
from deltaic.http.response import Response
from deltaic.http.runtime import connect_sessions, sharing
from deltaic.http.snapstart import call_after_restore, load_before_snapshot
from deltaic.sharing.iceberg_clients import remote_signing

load_before_snapshot("deltaic.sharing.rights.row_filters", "obstore.exceptions", "obstore.store")
call_after_restore(connect_sessions)


def sign_iceberg_request(request: Request) -> Response:
    """POST .../tables/{table}/sign."""
    asked = remote_signing.SigningRequest.parse(request.body)
    token = request.query.get("set", "")
    return answer(remote_signing.sign_request(sharing(), request.caller, table_name(request), token, asked))
