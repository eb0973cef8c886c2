"""Checks of skills, which are shared folders with instructions for AI agents."""

import re

from delta_sharing_conformance import expect
from delta_sharing_conformance.catalog import Catalog
from delta_sharing_conformance.check import check
from delta_sharing_conformance.opensharing import assets
from delta_sharing_conformance.opensharing.assets import Kind

SECTION = "OpenSharing, Agent Skills"
SKILL = Kind(
    "skill",
    SECTION,
    "temporary-skill-credentials",
    {"name": str, "schema": str, "share": str, "storageLocation": str, "description": str},
)
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_LIMITS = {"name": 64, "description": 1024, "compatibility": 500}
"""Maximum number of characters in properties of a skill, by property."""

LISTINGS = assets.listing_checks(SKILL)


@check(SECTION, id="skills are named as their folders")
def skill_name_equals_its_folder_name(catalog: Catalog) -> str:
    """Name a skill like its folder in storageLocation, in lower-case letters, digits and single hyphens."""
    skills = assets.assets_of(catalog, SKILL)
    for skill in skills:
        name, folder = str(skill.entry["name"]), str(skill.entry["storageLocation"]).rstrip("/").rpartition("/")[2]
        expect.that(bool(_NAME.fullmatch(name)), f"{skill.name} has a name with invalid characters")
        expect.that(folder == name, f"{skill.name} has the folder name {folder}")
    return f"{len(skills)} skills"


@check(SECTION, id="skills tell of themselves in texts")
def skill_properties_are_strings(catalog: Catalog) -> str:
    """Set a description of 1 to 1,024 characters; license, compatibility (at most 500) and allowedTools are strings."""
    skills = assets.assets_of(catalog, SKILL)
    for skill in skills:
        expect.that(bool(skill.entry["description"]), f"{skill.name} has no description")
        for field in ("name", "description", "license", "compatibility", "allowedTools"):
            value = skill.entry.get(field) or ""
            expect.that(isinstance(value, str), f"{skill.name} has a {field} that is not a string")
            expect.that(len(value) <= _LIMITS.get(field, len(value)), f"{skill.name} has a {field} that is too long")
        metadata = skill.entry.get("metadata") or {}
        is_valid = isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values())
        expect.that(is_valid, f"{skill.name} has metadata with values that are not strings")
    return f"{len(skills)} skills"
