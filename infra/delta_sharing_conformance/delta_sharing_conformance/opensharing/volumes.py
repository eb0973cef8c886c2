"""Checks of volumes, which are shared folders with files of any format."""

from delta_sharing_conformance.opensharing import assets
from delta_sharing_conformance.opensharing.assets import Kind

VOLUME = Kind(
    "volume",
    "OpenSharing, Volumes",
    "temporary-volume-credentials",
    {"name": str, "schema": str, "share": str, "storageLocation": str},
)

LISTINGS = assets.listing_checks(VOLUME)
