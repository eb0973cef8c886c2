"""The endpoints of Iceberg's clients: how they read their requests, and how failures are told to them."""

from http import HTTPStatus
from typing import Final
from urllib.parse import unquote, urlencode

from deltaic.errors import DeltaicError, NotFound, UnsupportedOperation
from deltaic.http.request import PublicRequest, Request
from deltaic.http.response import Response
from deltaic.protocol import iceberg_bodies
from deltaic.sharing.caller import RequestedTable
from deltaic.sharing.iceberg_clients import namespaces
from deltaic.sharing.runtime import sharing

_JSON: Final = {"content-type": "application/json"}
_ENCODED: Final = "shares%2f"
"""How some clients send the prefix `shares/{share}`; they are redirected, since routes have the slash."""
READS: Final = frozenset({"GET", "HEAD"})


def refused(error: DeltaicError, request: PublicRequest | None) -> Response:
    """Answer with Iceberg's error object; what is absent is of the kind that the route names last."""
    names = request.names if request is not None else {}
    absent = "NoSuchWarehouseException" if "share" not in names else "NoSuchNamespaceException"
    if "table" in names:
        absent = "NoSuchTableException"  # whatever of the name is unknown: Spark tries a table's name as a namespace
    headers = _JSON if error.retry_after is None else {**_JSON, "retry-after": str(error.retry_after)}
    return Response(iceberg_bodies.status(error), headers, iceberg_bodies.error(error, absent))


def answer(body: bytes) -> Response:
    """Answer with a document that is this recipient's alone."""
    return Response(headers={**_JSON, "cache-control": "private, no-store"}, body=body)


def table_name(request: Request) -> RequestedTable:
    """Return the table of a route."""
    return RequestedTable(request.names["share"], request.names["namespace"], request.names["table"])


def list_iceberg(request: Request) -> Response:
    """Answer all that is not one table's: reads by its routes, reports with nothing, and writes by a refusal."""
    path = request.path.partition("/iceberg/v1/")[2]
    if request.method == "POST" and path.endswith("/metrics"):
        return Response(HTTPStatus.NO_CONTENT)
    if path[: len(_ENCODED)].lower() == _ENCODED:
        query = f"?{urlencode(request.query)}" if request.query else ""
        location = "../" * path.count("/") + f"shares/{path[len(_ENCODED) :]}{query}"
        return Response(HTTPStatus.PERMANENT_REDIRECT, {"location": location})
    match path.split("/"):
        case ["namespaces", *_]:
            raise NotFound("The path names no share. Set the client's warehouse to the name of a share.")
        case ["shares", share, "namespaces", schema, "views"] if request.method == "GET":
            namespaces.get_namespace(sharing(), request.caller, unquote(share), unquote(schema))
            return answer(iceberg_bodies.tables(schema, ()))
    body = _read(request) if request.method in READS else None
    if body is None:
        raise UnsupportedOperation("shared tables are read only, and this server has no such call of Iceberg's catalog")
    return answer(body) if request.method == "GET" else Response(HTTPStatus.NO_CONTENT)


def _read(request: Request) -> bytes | None:
    """Return the answer to a read by its route; None for a route that has none here."""
    names, caller = request.names, request.caller
    match request.route.removeprefix("/iceberg/v1"):
        case "/config":
            share = request.query.get("warehouse")
            if not share:
                raise NotFound("name the share that is to be read as the catalog's warehouse")
            return namespaces.configuration(sharing(), caller, share)
        case "/shares/{share}/namespaces":
            parent = request.query.get("parent")
            if not parent:
                return namespaces.list_namespaces(sharing(), caller, names["share"])
            namespaces.get_namespace(sharing(), caller, names["share"], parent)
            return iceberg_bodies.namespaces(())  # they have one level
        case "/shares/{share}/namespaces/{namespace}":
            return namespaces.get_namespace(sharing(), caller, names["share"], names["namespace"])
        case "/shares/{share}/namespaces/{namespace}/tables":
            return namespaces.list_open_tables(sharing(), caller, names["share"], names["namespace"])
        case "/shares/{share}/namespaces/{namespace}/tables/{table}":  # HEAD alone: GET is another function's
            namespaces.check_table(sharing(), caller, table_name(request))
            return b""
    return None
