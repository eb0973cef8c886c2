"""Endpoint that signs S3 requests of Iceberg clients, in a module that does not load the Delta log reader."""

from deltaic import storage
from deltaic.http.iceberg_endpoints import answer
from deltaic.http.request import Request
from deltaic.http.response import Response
from deltaic.sharing import rights
from deltaic.sharing.iceberg_clients import remote_signing
from deltaic.sharing.runtime import connect_sessions, sharing
from deltaic.snapstart import call_after_restore, load_before_snapshot

load_before_snapshot(*rights.BEFORE_SNAPSHOT, *storage.BEFORE_SNAPSHOT)
call_after_restore(connect_sessions)


def sign_iceberg_request(request: Request) -> Response:
    """POST .../tables/{table}/sign: the signed headers of one S3 request (Iceberg's remote signing)."""
    signing_request = remote_signing.SigningRequest.parse(request.body)
    token = request.query.get("set", "")
    return answer(remote_signing.sign_request(sharing(), request.caller, request.table, token, signing_request))
