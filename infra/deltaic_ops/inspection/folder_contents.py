"""What lies in a folder that is shared whole, read with the operator's credentials: its SKILL.md, its MLmodel."""

from typing import Any

import yaml
from deltaic.errors import InvalidParameter, NotFound
from deltaic.protocol.names import check_name

from deltaic_ops.inspection.shared_schema import SchemaReader

SKILL_FILE = "SKILL.md"
MODEL_FILE = "MLmodel"
_LONGEST = {"description": 1024, "compatibility": 500}
"""Characters, by agentskills.io."""
_LONGEST_FRONT = 16_384
_KEYS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
_LARGEST = 1 << 20


def is_empty(reader: SchemaReader, location: str, storage: str = "") -> bool:
    """Tell whether no object lies below a location; raises why it cannot be listed."""
    from deltaic.storage.folder_objects import list_page
    from deltaic.storage.locations import Location

    with reader.reading(location, storage) as (config, credentials):
        return not list_page(credentials(), config, Location.parse(location), limit=1).objects


def skill_facts(reader: SchemaReader, name: str, location: str, storage: str = "") -> tuple[dict[str, Any], list[str]]:
    """Return what a skill's SKILL.md says of it, by the names of its entry's attributes, and warnings.

    Raises InvalidParameter for one that is against the rules of agentskills.io, NotFound where there is none.
    """
    text = _text(reader, location, storage, SKILL_FILE)
    if text is None:
        raise NotFound(f"{location} has no {SKILL_FILE}: a skill is a folder with one (agentskills.io)")
    lines = text.splitlines()
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), 0)
    if not lines or lines[0].rstrip() != "---" or not end:
        raise _wrong("it does not begin with front matter: YAML between two lines of ---")
    front = "\n".join(lines[1:end])
    if len(front) > _LONGEST_FRONT:
        raise _wrong(f"its front matter has {len(front)} characters; at most {_LONGEST_FRONT} are read")
    said = _mapping(front, SKILL_FILE)
    for key in ("name", "description", "license", "compatibility", "allowed-tools"):
        if not isinstance(said.get(key, ""), str):
            raise _wrong(f"'{key}' must be one text")
    check_name("skill", said.get("name", ""))
    if said["name"] != name:
        raise _wrong(f"it is named '{said['name']}', and the skill is to be '{name}': both are the folder's name")
    if not said.get("description", "").strip():
        raise _wrong("it has no 'description': say what the skill does and when to use it")
    for key, longest in _LONGEST.items():
        if len(said.get(key, "")) > longest:
            raise _wrong(f"'{key}' has {len(said[key])} characters; at most {longest} are allowed")
    metadata = said.get("metadata") or {}
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise _wrong("'metadata' must be a mapping of names to texts")
    facts = {
        "description": said["description"],
        "license": said.get("license", ""),
        "compatibility": said.get("compatibility", ""),
        "allowed_tools": said.get("allowed-tools", ""),
        "metadata": metadata,
    }
    unknown = [key for key in said if key not in _KEYS]
    return facts, [f"{SKILL_FILE} has keys that agentskills.io does not know: {', '.join(unknown)}"] if unknown else []


def version_facts(reader: SchemaReader, location: str, storage: str = "") -> dict[str, Any]:
    """Return what MLflow's file says of a model's version, by the names of its entry's attributes; none without one.

    Raises InvalidParameter for a file that is no YAML.
    """
    text = _text(reader, location, storage, MODEL_FILE)
    if text is None:
        return {}
    said = {key: value for key, value in _mapping(text, MODEL_FILE).items() if isinstance(value, str)}
    run, path = said.get("run_id", ""), said.get("artifact_path", "")
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
        raise InvalidParameter(f"{name} of {location} has {size} bytes: more than {_LARGEST} are not read")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidParameter(f"{name} of {location} is not text in UTF-8") from None


def _mapping(text: str, name: str) -> dict[str, Any]:
    try:
        # Texts alone: a version of 1.0 is no number.
        said = yaml.load(text, yaml.BaseLoader)  # noqa: S506 -- makes nothing but texts, lists and mappings
    except (yaml.YAMLError, RecursionError) as wrong:
        place = getattr(wrong, "problem_mark", None)
        where = f" at line {place.line + 1 + (name == SKILL_FILE)}" if place else ""
        raise InvalidParameter(f"{name} holds no YAML{where}: correct it, then try again") from None
    if not isinstance(said, dict) or not all(isinstance(key, str) for key in said):
        raise InvalidParameter(f"{name} holds no mapping of names to values")
    return said


def _wrong(why: str) -> InvalidParameter:
    return InvalidParameter(f"{SKILL_FILE} is against the rules of agentskills.io: {why}")
