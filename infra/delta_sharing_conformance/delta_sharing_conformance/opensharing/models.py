"""Checks of models: names for versions, each of which is a folder."""

from collections.abc import Mapping
from typing import Any

from delta_sharing_conformance import expect
from delta_sharing_conformance.check import NotTried, check
from delta_sharing_conformance.listings import page, paged
from delta_sharing_conformance.opensharing import assets
from delta_sharing_conformance.opensharing.assets import Asset, Kind
from delta_sharing_conformance.shared import Shared

SECTION = "OpenSharing, ML Models"
CREDENTIALS = "temporary-model-version-credentials"
MODEL = Kind("model", SECTION, f"versions/1/{CREDENTIALS}", {"name": str, "schema": str, "share": str})
VERSION: expect.Keys = {
    "modelName": str,
    "schema": str,
    "share": str,
    "version": int,
    "status": str,
    "storageLocation": str,
}
_NO_VERSION = 9_007_199_254_740_991


LISTINGS = assets.listing_checks(MODEL)


@check(SECTION)
def lists_versions_that_are_ready(shared: Shared) -> str:
    """List versions of a model by GET .../models/{model}/versions: those alone whose status is READY, each once."""
    found = _versions(shared)
    for model, entry in found:
        expect.that(entry["status"] == "READY", f"{model.name} lists a version that is {entry['status']}")
        expect.that(entry["modelName"].lower() == model.entry["name"].lower(), f"{model.name} lists another's version")
    numbers = [(model.name, entry["version"]) for model, entry in found]
    expect.that(len({*numbers}) == len(numbers), "a version is listed twice")
    return f"{len(found)} versions"


@check(SECTION)
def pages_of_versions_are_the_listing(shared: Shared) -> str:
    """Give at most maxResults versions a page, none for 0, and by nextPageToken the rest, each once."""
    return paged(shared, f"{_versions(shared)[0][0].path}/versions")


@check(SECTION)
def gets_a_version_by_its_number(shared: Shared) -> str:
    """Answer GET .../versions/{version} with the version itself, the same as in the listing."""
    found = _versions(shared)
    for model, entry in found:
        path = f"{model.path}/versions/{entry['version']}"
        expect.that(page(shared.client.get(path)) == entry, f"GET {path} tells something else than the listing")
    return f"{len(found)} versions"


@check(SECTION)
def versions_that_do_not_exist_are_not_found(shared: Shared) -> str:
    """Answer 404 with an error body for a version that a model has not, and for credentials of it."""
    path = f"{assets.assets_of(shared, MODEL)[0].path}/versions/{_NO_VERSION}"
    expect.refused(shared.client.get(path), 404)
    expect.refused(shared.client.ask("POST", f"{path}/{CREDENTIALS}", body={}), 404)
    return "2 requests"


@check(SECTION)
def credentials_of_versions_are_given(shared: Shared) -> str:
    """Answer POST .../temporary-model-version-credentials with one kind of credentials, flat, and expirationTime."""
    paths = [f"{model.path}/versions/{entry['version']}/{CREDENTIALS}" for model, entry in _versions(shared)]
    return assets.opened(shared, paths, "version of a model")


def _versions(shared: Shared) -> list[tuple[Asset, Mapping[str, Any]]]:
    found = [
        (model, expect.typed("a version", item, VERSION))
        for model in assets.assets_of(shared, MODEL)
        for reply in shared.pages(f"{model.path}/versions")
        for item in page(reply).get("items", [])
    ]
    if not found:
        raise NotTried("no model that the profile sees has a version")
    return found
