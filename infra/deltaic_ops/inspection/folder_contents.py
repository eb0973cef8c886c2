"""Read SKILL.md and MLmodel files in shared folders, with the operator's credentials."""

from contextlib import suppress
from functools import partial
from typing import Any

import yaml
from deltaic.errors import DeltaicError, InvalidParameter, NotFound
from deltaic.protocol.names import check_name

from deltaic_ops.inspection.shared_schema import SchemaReader

SKILL_FILE = "SKILL.md"
MODEL_FILE = "MLmodel"
_LONGEST = {"description": 1024, "compatibility": 500}
"""Maximum lengths of keys in SKILL.md, in characters, as agentskills.io defines them."""
_LONGEST_FRONT = 16_384
_KEYS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
_LARGEST = 1 << 20


def is_empty(reader: SchemaReader, location: str, storage: str = "") -> bool:
    """Return whether a folder has no objects; raises DeltaicError if it cannot be listed."""
    from deltaic.storage.folder_objects import list_page
    from deltaic.storage.locations import Location

    with reader.reading(location, storage) as (config, credentials):
        return not list_page(credentials(), config, Location.parse(location), limit=1).objects


def tables_below(reader: SchemaReader, location: str, storage: str = "") -> list[str]:
    """Return the names of direct subfolders that are Delta tables, of the first 20; empty if they cannot be listed."""
    from deltaic.storage.folder_objects import list_page
    from deltaic.storage.locations import Location

    with suppress(DeltaicError), reader.reading(location, storage) as (config, credentials):
        page = partial(list_page, credentials(), config, Location.parse(location))
        names = [name.rstrip("/") for name in page(delimiter="/").folders[:20]]
        return [name for name in names if page(prefix=f"{name}/_delta_log/", limit=1).objects]
    return []


def skill_facts(reader: SchemaReader, name: str, location: str, storage: str = "") -> tuple[dict[str, Any], list[str]]:
    """Read the attributes of a skill's catalog entry from its SKILL.md; also return warnings.

    Raises InvalidParameter if SKILL.md violates the rules of agentskills.io, NotFound if it is missing.
    """
    text = _text(reader, location, storage, SKILL_FILE)
    if text is None:
        raise NotFound(f"{location} has no {SKILL_FILE}, which every skill needs (agentskills.io)")
    lines = text.splitlines()
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), 0)
    if not lines or lines[0].rstrip() != "---" or not end:
        raise _invalid_skill("it does not start with front matter: YAML between two lines of ---")
    front = "\n".join(lines[1:end])
    if len(front) > _LONGEST_FRONT:
        raise _invalid_skill(f"its front matter has {len(front)} characters; at most {_LONGEST_FRONT} are read")
    front_matter = _mapping(front, SKILL_FILE)
    for key in ("name", "description", "license", "compatibility", "allowed-tools"):
        if not isinstance(front_matter.get(key, ""), str):
            raise _invalid_skill(f"'{key}' must be a string")
    check_name("skill", front_matter.get("name", ""))
    if front_matter["name"] != name:
        raise _invalid_skill(f"its name is '{front_matter['name']}', not '{name}': both must be the name of the folder")
    if not front_matter.get("description", "").strip():
        raise _invalid_skill("it has no 'description': describe what the skill does and when to use it")
    for key, limit in _LONGEST.items():
        if len(front_matter.get(key, "")) > limit:
            raise _invalid_skill(f"'{key}' has {len(front_matter[key])} characters; at most {limit} are allowed")
    metadata = front_matter.get("metadata") or {}
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise _invalid_skill("'metadata' must be a mapping of names to strings")
    facts = {
        "description": front_matter["description"],
        "license": front_matter.get("license", ""),
        "compatibility": front_matter.get("compatibility", ""),
        "allowed_tools": front_matter.get("allowed-tools", ""),
        "metadata": metadata,
    }
    unknown = ", ".join(key for key in front_matter if key not in _KEYS)
    return facts, [f"{SKILL_FILE} has keys that agentskills.io does not define: {unknown}"] if unknown else []


def version_facts(reader: SchemaReader, location: str, storage: str = "") -> dict[str, Any]:
    """Read the attributes of a model version's catalog entry from MLflow's file MLmodel; empty without it.

    Raises InvalidParameter if the file is not YAML.
    """
    text = _text(reader, location, storage, MODEL_FILE)
    if text is None:
        return {}
    texts = {key: value for key, value in _mapping(text, MODEL_FILE).items() if isinstance(value, str)}
    run, path = texts.get("run_id", ""), texts.get("artifact_path", "")
    source = path if ":/" in path else f"runs:/{run}/{path}".rstrip("/") if run else ""
    return {"run_id": run, "source": source}


def _text(reader: SchemaReader, location: str, storage: str, name: str) -> str | None:
    from deltaic.storage.locations import Location, TableLocations
    from deltaic.storage.objects import ObjectTableStore

    with reader.reading(location, storage) as (config, credentials):
        store = ObjectTableStore(TableLocations(Location.parse(location)), config, credentials)
        try:
            content, size = store.get_tail(name, _LARGEST)
        except FileNotFoundError:
            return None
    if size > _LARGEST:
        raise InvalidParameter(f"{name} of {location} has {size} bytes; at most {_LARGEST} bytes are read")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidParameter(f"{name} of {location} is not UTF-8: save it as UTF-8") from None


def _mapping(text: str, name: str) -> dict[str, Any]:
    try:
        # Values are read as strings: a version of 1.0 is not a number.
        content = yaml.load(text, yaml.BaseLoader)  # noqa: S506 -- creates only strings, lists and mappings
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f" at line {mark.line + 1 + (name == SKILL_FILE)}" if mark else ""
        raise InvalidParameter(f"{name} is not valid YAML{line}: correct it, then try again") from None
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise InvalidParameter(f"{name} is not a YAML mapping: write each entry as `name: value`")
    return content


def _invalid_skill(reason: str) -> InvalidParameter:
    return InvalidParameter(f"{SKILL_FILE} violates the rules of agentskills.io: {reason}")
