"""Checks of models and their versions, each of which is a folder."""

from collections.abc import Mapping
from typing import Any

from delta_sharing_conformance import expect
from delta_sharing_conformance.catalog import Catalog
from delta_sharing_conformance.check import CheckSkipped, check
from delta_sharing_conformance.listings import check_pages, listing_page
from delta_sharing_conformance.opensharing import assets
from delta_sharing_conformance.opensharing.assets import Asset, Kind

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


@check(SECTION, id="lists versions that are ready")
def only_ready_versions_are_listed(catalog: Catalog) -> str:
    """Return from GET .../models/{model}/versions only versions with status READY, each once."""
    versions = _versions(catalog)
    for model, entry in versions:
        expect.that(entry["status"] == "READY", f"{model.name} lists a version with status {entry['status']}")
        expect.that(entry["modelName"].lower() == model.entry["name"].lower(), f"{model.name} lists another model")
    numbers = [(model.name, entry["version"]) for model, entry in versions]
    expect.that(len({*numbers}) == len(numbers), "a version is listed twice")
    return f"{len(versions)} versions"


@check(SECTION, id="pages of versions are the listing")
def version_pages_equal_the_listing(catalog: Catalog) -> str:
    """Return at most maxResults versions per page, none for 0, and each version once on all pages."""
    return check_pages(catalog, f"{_versions(catalog)[0][0].path}/versions")


@check(SECTION)
def gets_a_version_by_its_number(catalog: Catalog) -> str:
    """Respond to GET .../versions/{version} with the same content as in the listing."""
    versions = _versions(catalog)
    for model, entry in versions:
        path = f"{model.path}/versions/{entry['version']}"
        expect.that(listing_page(catalog.client.get(path)) == entry, f"GET {path} differs from the listing")
    return f"{len(versions)} versions"


@check(SECTION, id="versions that do not exist are not found")
def missing_versions_return_404(catalog: Catalog) -> str:
    """Return 404 and an error body for an unknown version, and for its credentials."""
    path = f"{assets.assets_of(catalog, MODEL)[0].path}/versions/{_NO_VERSION}"
    expect.error(catalog.client.get(path), 404)
    expect.error(catalog.client.ask("POST", f"{path}/{CREDENTIALS}", body={}), 404)
    return "2 requests"


@check(SECTION, id="credentials of versions are given")
def version_credentials_are_issued(catalog: Catalog) -> str:
    """Respond to POST .../temporary-model-version-credentials with expirationTime and credentials of one type."""
    paths = [f"{model.path}/versions/{entry['version']}/{CREDENTIALS}" for model, entry in _versions(catalog)]
    return assets.check_all_credentials(catalog, paths, "model version")


def _versions(catalog: Catalog) -> list[tuple[Asset, Mapping[str, Any]]]:
    versions = [
        (model, expect.fields("a version", item, VERSION))
        for model in assets.assets_of(catalog, MODEL)
        for reply in catalog.pages(f"{model.path}/versions")
        for item in listing_page(reply).get("items", [])
    ]
    if not versions:
        raise CheckSkipped("no shared model has a version")
    return versions
