"""Checks of skills: folders that an agent loads."""

import re

from delta_sharing_conformance import expect
from delta_sharing_conformance.check import check
from delta_sharing_conformance.opensharing import assets
from delta_sharing_conformance.opensharing.assets import Kind
from delta_sharing_conformance.shared import Shared

SECTION = "OpenSharing, Agent Skills"
SKILL = Kind(
    "skill",
    SECTION,
    "temporary-skill-credentials",
    {"name": str, "schema": str, "share": str, "storageLocation": str, "description": str},
)
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_MOST = {"name": 64, "description": 1024, "compatibility": 500}
"""Characters."""


LISTINGS = assets.listing_checks(SKILL)


@check(SECTION)
def skills_are_named_as_their_folders(shared: Shared) -> str:
    """Name a skill by lower-case letters, digits and single hyphens, as the last folder of its storageLocation."""
    found = assets.assets_of(shared, SKILL)
    for one in found:
        name, folder = str(one.entry["name"]), str(one.entry["storageLocation"]).rstrip("/").rpartition("/")[2]
        expect.that(bool(_NAME.fullmatch(name)), f"{one.name} has a name of other characters")
        expect.that(folder == name, f"{one.name} lies in the folder {folder}")
    return f"{len(found)} skills"


@check(SECTION)
def skills_tell_of_themselves_in_texts(shared: Shared) -> str:
    """Give a description of 1 to 1,024 characters; license, compatibility (500) and allowedTools are texts."""
    found = assets.assets_of(shared, SKILL)
    for one in found:
        expect.that(bool(one.entry["description"]), f"{one.name} has no description")
        for field in ("name", "description", "license", "compatibility", "allowedTools"):
            value = one.entry.get(field) or ""
            expect.that(isinstance(value, str), f"{one.name} has a {field} that is no text")
            expect.that(len(value) <= _MOST.get(field, len(value)), f"{one.name} has a {field} that is too long")
        metadata = one.entry.get("metadata") or {}
        texts = isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values())
        expect.that(texts, f"{one.name} has metadata that are no texts by name")
    return f"{len(found)} skills"


@check(SECTION)
def credentials_of_skills_are_given(shared: Shared) -> str:
    """Answer POST .../temporary-skill-credentials with one kind of credentials, flat, and expirationTime."""
    paths = [f"{one.path}/{SKILL.credentials}" for one in assets.assets_of(shared, SKILL)]
    return assets.opened(shared, paths, "skill")
