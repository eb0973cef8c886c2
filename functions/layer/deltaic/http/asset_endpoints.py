"""The endpoints of volumes, skills and models: how they read their requests. A kind's routes of one right are one."""

from typing import Final

from deltaic.catalog.asset_items import Asset, Folder, Model, ModelVersion, Skill, Volume
from deltaic.http.request import Request
from deltaic.http.response import Response, json_response
from deltaic.http.runtime import sharing
from deltaic.protocol.requests import ListRequest
from deltaic.sharing.folders import asset_listing
from deltaic.sharing.folders.shared_folder import AssetName

KINDS: Final[dict[str, type[Folder]]] = {"volume": Volume, "skill": Skill, "version": ModelVersion}
"""What is a folder, by the last name of its route."""


def list_volumes(request: Request) -> Response:
    """GET /shares/{share}/all-volumes, .../schemas/{schema}/volumes and .../volumes/{volume}."""
    return _listed(request, Volume)


def list_skills(request: Request) -> Response:
    """GET /shares/{share}/all-skills, .../schemas/{schema}/skills and .../skills/{skill}."""
    return _listed(request, Skill)


def list_models(request: Request) -> Response:
    """GET /shares/{share}/all-models, .../schemas/{schema}/models, .../models/{model}, and of its versions."""
    if request.route.endswith("/versions"):
        page = ListRequest.parse(request.query)
        return json_response(asset_listing.list_versions(sharing(), request.caller, asset_name(request), page))
    if "version" in request.names:
        return json_response(asset_listing.get_version(sharing(), request.caller, asset_name(request)))
    return _listed(request, Model)


def folder_of(request: Request) -> tuple[type[Folder], AssetName]:
    """Return which folder a request means, and its kind."""
    kind = next(kind for name, kind in KINDS.items() if name in request.names)
    return kind, asset_name(request)


def asset_name(request: Request) -> AssetName:
    """Return the asset that a request means."""
    names = request.names
    name = next(names[kind] for kind in ("volume", "skill", "model") if kind in names)
    return AssetName(names["share"], names["schema"], name, names.get("version", ""))


def _listed(request: Request, kind: type[Asset]) -> Response:
    if kind.kind in request.names:
        return json_response(asset_listing.get_asset(sharing(), request.caller, kind, asset_name(request)))
    page = ListRequest.parse(request.query)
    share, schema = request.names["share"], request.names.get("schema")
    return json_response(asset_listing.list_assets(sharing(), request.caller, kind, share, schema, page))
