"""Endpoints of Iceberg's REST catalog except for single tables, and Iceberg error responses."""

from http import HTTPStatus
from typing import Final
from urllib.parse import unquote, urlencode

from deltaic.errors import DeltaicError, NotFound, UnsupportedOperation
from deltaic.http.request import PublicRequest, Request
from deltaic.http.response import Response
from deltaic.protocol import iceberg_bodies
from deltaic.sharing.iceberg_clients import namespaces
from deltaic.sharing.runtime import sharing

_JSON: Final = {"content-type": "application/json"}
_ENCODED: Final = "shares%2f"
"""Percent-encoded `shares/` of some clients: redirected to the unencoded path, because only that is a route."""
READS: Final = frozenset({"GET", "HEAD"})


def iceberg_error(error: DeltaicError, request: PublicRequest | None) -> Response:
    """Return a response with Iceberg's error object; for NotFound, its type depends on the route."""
    names = request.names if request is not None else {}
    missing_type = "NoSuchWarehouseException" if "share" not in names else "NoSuchNamespaceException"
    if "table" in names:
        missing_type = "NoSuchTableException"  # also for a missing schema: Spark tries a table's name as a namespace
    headers = _JSON if error.retry_after is None else {**_JSON, "retry-after": str(error.retry_after)}
    return Response(error.status, headers, iceberg_bodies.error(error, missing_type))


def answer(body: bytes, **headers: str) -> Response:
    """Return a JSON response that no cache may store, because it is for one recipient."""
    return Response(headers={**_JSON, "cache-control": "private, no-store", **headers}, body=body)


def list_iceberg(request: Request) -> Response:
    """Respond to reads of shares and schemas; accept and ignore metrics reports; reject writes."""
    path = request.path.partition("/iceberg/v1/")[2]
    if request.method == "POST" and path.endswith("/metrics"):
        return Response(HTTPStatus.NO_CONTENT)
    if path[: len(_ENCODED)].lower() == _ENCODED:
        query = f"?{urlencode(request.query)}" if request.query else ""
        location = "../" * path.count("/") + f"shares/{path[len(_ENCODED) :]}{query}"
        return Response(HTTPStatus.PERMANENT_REDIRECT, {"location": location})
    match path.split("/"):
        case ["namespaces", *_]:
            raise NotFound("The path has no share. Set the client's warehouse to the name of a share.")
        case ["shares", share, "namespaces", schema, "views"] if request.method == "GET":
            namespaces.get_namespace(sharing(), request.caller, unquote(share), unquote(schema))
            return answer(iceberg_bodies.tables(schema, ()))
    body = _read(request) if request.method in READS else None
    if body is None:
        raise UnsupportedOperation("This server does not support this catalog operation: shared tables are read only.")
    return answer(body) if request.method == "GET" else Response(HTTPStatus.NO_CONTENT)


def _read(request: Request) -> bytes | None:
    """Return the response body for a GET or HEAD request, or None for an unsupported route."""
    names, caller = request.names, request.caller
    match request.route.removeprefix("/iceberg/v1"):
        case "/config":
            share = request.query.get("warehouse")
            if not share:
                raise NotFound("The request has no warehouse. Set the client's warehouse to the name of a share.")
            return namespaces.configuration(sharing(), caller, share)
        case "/shares/{share}/namespaces":
            parent = request.query.get("parent")
            if not parent:
                return namespaces.list_namespaces(sharing(), caller, names["share"])
            namespaces.get_namespace(sharing(), caller, names["share"], parent)
            return iceberg_bodies.namespaces(())  # namespaces have one level
        case "/shares/{share}/namespaces/{namespace}":
            return namespaces.get_namespace(sharing(), caller, names["share"], names["namespace"])
        case "/shares/{share}/namespaces/{namespace}/tables":
            return namespaces.list_open_tables(sharing(), caller, names["share"], names["namespace"])
        case "/shares/{share}/namespaces/{namespace}/tables/{table}":  # only HEAD: another function answers GET
            namespaces.check_table(sharing(), caller, request.table)
            return b""
    return None
