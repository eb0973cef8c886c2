"""Endpoints of single tables in Iceberg's REST catalog, which read the Delta log."""

from http import HTTPStatus

from deltaic.http.iceberg_endpoints import answer
from deltaic.http.request import Request
from deltaic.http.response import Response
from deltaic.sharing.iceberg_clients import load_table
from deltaic.sharing.runtime import connect_sessions, sharing
from deltaic.snapstart import call_after_restore, load_before_snapshot

load_before_snapshot(*load_table.BEFORE_SNAPSHOT)
call_after_restore(connect_sessions)


def load_iceberg_table(request: Request) -> Response:
    """GET .../tables/{table}: Iceberg metadata of a table. GET .../tables/{table}/credentials: access to its files."""
    if request.route.endswith("/credentials"):
        return answer(load_table.load_credentials(sharing(), request.caller, request.table))
    etags = request.headers.get("if-none-match", "")
    loaded = load_table.load_table(sharing(), request.caller, request.table, etags)
    if loaded.body is None:
        return Response(HTTPStatus.NOT_MODIFIED, {"etag": loaded.etag})
    return answer(loaded.body, etag=loaded.etag)
