"""Checks of volumes: folders of any files."""

from delta_sharing_conformance.check import check
from delta_sharing_conformance.opensharing import assets
from delta_sharing_conformance.opensharing.assets import Kind
from delta_sharing_conformance.shared import Shared

SECTION = "OpenSharing, Volumes"
VOLUME = Kind(
    "volume",
    SECTION,
    "temporary-volume-credentials",
    {"name": str, "schema": str, "share": str, "storageLocation": str},
)

LISTINGS = assets.listing_checks(VOLUME)


@check(SECTION)
def credentials_of_volumes_are_given(shared: Shared) -> str:
    """Answer POST .../temporary-volume-credentials with one kind of credentials, flat, and expirationTime."""
    paths = [f"{one.path}/{VOLUME.credentials}" for one in assets.assets_of(shared, VOLUME)]
    return assets.opened(shared, paths, "volume")
