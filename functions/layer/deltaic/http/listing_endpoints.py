"""Listing endpoints of shares, schemas and tables."""

from deltaic.http.request import Request
from deltaic.http.response import Response, json_response
from deltaic.protocol.requests import ListRequest
from deltaic.settings import settings
from deltaic.sharing import catalog_listing
from deltaic.sharing.runtime import sharing


def list_shares(request: Request) -> Response:
    """GET /shares: the shares granted to the recipient."""
    return json_response(catalog_listing.list_shares(sharing(), request.caller, ListRequest.parse(request.query)))


def get_share(request: Request) -> Response:
    """GET /shares/{share}: one share granted to the recipient."""
    return json_response(catalog_listing.get_share(sharing(), request.caller, request.names["share"]))


def list_schemas(request: Request) -> Response:
    """GET /shares/{share}/schemas: the schemas of a granted share."""
    page = ListRequest.parse(request.query)
    return json_response(catalog_listing.list_schemas(sharing(), request.caller, request.names["share"], page))


def list_tables(request: Request) -> Response:
    """GET /shares/{share}/schemas/{schema}/tables: the tables of one schema."""
    page = ListRequest.parse(request.query)
    share, schema = request.names["share"], request.names["schema"]
    return json_response(catalog_listing.list_tables(sharing(), request.caller, share, schema, page))


def list_all_tables(request: Request) -> Response:
    """GET /shares/{share}/all-tables: the tables of all schemas of a share."""
    page = ListRequest.parse(request.query)
    return json_response(catalog_listing.list_all_tables(sharing(), request.caller, request.names["share"], page))


def get_table(request: Request) -> Response:
    """GET /shares/{share}/schemas/{schema}/tables/{table}: one table, and the formats in which it can be read."""
    serves_iceberg = bool(settings().iceberg_bucket)
    return json_response(
        catalog_listing.get_table(sharing(), request.caller, request.table, serves_iceberg=serves_iceberg)
    )
