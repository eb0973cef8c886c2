"""List and get shared volumes, skills, models and model versions (OpenSharing)."""

from collections.abc import Mapping
from functools import partial
from operator import attrgetter
from typing import Any, Final

from deltaic.catalog.asset_items import Asset, Folder, Model, ModelVersion, Skill, Volume
from deltaic.protocol import json_bodies
from deltaic.protocol.continuations import ListingBinding
from deltaic.protocol.requests import ListRequest
from deltaic.sharing.caller import Caller
from deltaic.sharing.catalog_listing import encode_page
from deltaic.sharing.context import Sharing
from deltaic.sharing.folders.shared_folder import AssetKind, AssetName
from deltaic.storage.locations import Location

_ITEMS: Final[Mapping[AssetKind, type[Asset]]] = {"volume": Volume, "skill": Skill, "model": Model}


def list_assets(  # noqa: PLR0913, PLR0917 -- the parts of one request
    sharing: Sharing, caller: Caller, kind: AssetKind, share: str, schema: str | None, request: ListRequest
) -> bytes:
    """Return a page of the volumes, skills or models in a schema (None: in the share); raises NotFound."""
    read = partial(sharing.catalog_for(caller).list_assets, caller.recipient_id, _ITEMS[kind], share, schema)
    call = f"all-{kind}s" if schema is None else f"{kind}s"
    listing = ListingBinding(caller.recipient_id, call, share, schema or "")
    key = attrgetter("key_in_share" if schema is None else "key")
    return encode_page(sharing, request, listing, read, _to_json, key)


def get_asset(sharing: Sharing, caller: Caller, kind: AssetKind, name: AssetName) -> bytes:
    """Return one volume, skill or model; raises NotFound."""
    catalog = sharing.catalog_for(caller)
    asset = catalog.get_asset(caller.recipient_id, _ITEMS[kind], name.share, name.schema, name.name)
    return json_bodies.encode(_to_json(asset))


def list_versions(sharing: Sharing, caller: Caller, name: AssetName, request: ListRequest) -> bytes:
    """Return a page of the versions of a model; raises NotFound."""
    catalog = sharing.catalog_for(caller)
    read = partial(catalog.list_versions, caller.recipient_id, name.share, name.schema, name.name)
    listing = ListingBinding(caller.recipient_id, f"versions/{name.name.lower()}", name.share, name.schema)
    return encode_page(sharing, request, listing, read, _version_to_json)


def get_version(sharing: Sharing, caller: Caller, name: AssetName) -> bytes:
    """Return one version of a model; raises NotFound."""
    catalog = sharing.catalog_for(caller)
    version = catalog.get_version(caller.recipient_id, name.share, name.schema, name.name, name.number)
    return json_bodies.encode(_version_to_json(version))


def _to_json(asset: Asset) -> dict[str, Any]:
    """Convert an asset to JSON (Volume, AgentSkill or RegisteredModel of the specification), with its comment."""
    names = {"name": asset.name, "schema": asset.schema_name, "share": asset.share, "shareId": asset.share_id}
    fields: dict[str, Any] = _folder_to_json(asset) if isinstance(asset, Folder) else {}
    if isinstance(asset, Skill):
        fields |= {
            "description": asset.description,
            "license": asset.license,
            "compatibility": asset.compatibility,
            "allowedTools": asset.allowed_tools,
            "metadata": asset.metadata or None,
        }
    return json_bodies.present(**names, id=asset.id, comment=asset.comment, **fields)


def _version_to_json(version: ModelVersion) -> dict[str, Any]:
    return json_bodies.present(
        modelName=version.name,
        schema=version.schema_name,
        share=version.share,
        version=version.version,
        status="READY",
        id=version.id,
        source=version.source,
        runId=version.run_id,
        comment=version.comment,
        **_folder_to_json(version),
    )


def _folder_to_json(folder: Folder) -> dict[str, Any]:
    return {
        "storageLocation": Location.parse(folder.location).uri,
        "accessModes": list(folder.access_modes),  # an extension of this server, as for tables
    }
