"""Listing endpoints of volumes, skills and models."""

from typing import Final

from deltaic.http.request import Request
from deltaic.http.response import Response, json_response
from deltaic.protocol.requests import ListRequest
from deltaic.sharing.folders import asset_listing
from deltaic.sharing.folders.shared_folder import AssetKind, AssetName
from deltaic.sharing.runtime import sharing

_KINDS: Final[tuple[AssetKind, ...]] = ("volume", "skill", "model")


def list_assets(request: Request) -> Response:
    """GET /shares/{share}/all-volumes, .../volumes, .../volumes/{volume}; also of skills, models and versions."""
    kind = asset_kind(request, "list_{}s")
    names, caller = request.names, request.caller
    if "version" in names:
        return json_response(asset_listing.get_version(sharing(), caller, asset_name(request, kind)))
    if kind in names and not request.route.endswith("/versions"):
        return json_response(asset_listing.get_asset(sharing(), caller, kind, asset_name(request, kind)))
    page = ListRequest.parse(request.query)
    if kind in names:
        return json_response(asset_listing.list_versions(sharing(), caller, asset_name(request, kind), page))
    return json_response(asset_listing.list_assets(sharing(), caller, kind, names["share"], names.get("schema"), page))


def asset_kind(request: Request, endpoint: str) -> AssetKind:
    """Return the asset type of a route, and insert it into the endpoint's name in log and metrics.

    One Lambda function serves all asset types, but operators and `deltaic usage` distinguish the types.
    """
    kind = next(kind for kind in _KINDS if f"{kind}s" in request.route)
    request.audit.add(endpoint=endpoint.format(kind))
    return kind


def asset_name(request: Request, kind: AssetKind) -> AssetName:
    """Return the full name of the requested asset: share, schema, name and version, if any."""
    names = request.names
    return AssetName(names["share"], names["schema"], names[kind], names.get("version", ""))
