"""Whether a difference lets anybody see more than before; what cannot be told counts as more."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from deltaic_ops.declared.entries import Difference

_SHARED = frozenset({"table", "view", "volume", "skill", "version"})
"""Kinds whose entries show something to whoever holds their share."""

_HARMLESS = frozenset({"comment", "display_name", "checkpoint", "key", "refresh", "max_staleness", "run_id"})
_OPENED: Mapping[str, Any] = {"": 0, "signed": 1, "vended": 2}


def widens(one: Difference, held: frozenset[str]) -> bool:
    """Tell whether the catalog shows more to anybody once it is as the files say.

    `held` are the shares that anybody holds, before or after, in small letters.
    """
    if one.in_files is None:
        return False
    if (one.kind in _SHARED or one.kind == "schema") and one.path[0].lower() not in held:
        return False
    if one.in_catalog is None:
        return one.kind in {"grant", "policy", *_SHARED} or bool(one.in_files.get("follow"))
    if one.kind == "share":
        return False
    return any(_shows_more(name, one.in_catalog[name], value) for name, value in one.in_files.items())


def _shows_more(field: str, before: Any, after: Any) -> bool:
    match field:
        case "partition_filter":
            return bool(before)
        case "hidden_columns":
            return not {name.lower() for name in before} <= {name.lower() for name in after}
        case "access_modes" | "auxiliary_locations":
            return not set(after) <= set(before)
        case "history" | "follow":
            return bool(after)
        case "start_version":
            return int(after) < int(before)
        case "iceberg":
            return bool(_OPENED[after] > _OPENED[before])
        case "addresses":
            return bool(before) and (not after or not set(after) <= set(before))
        case "requests_per_minute" | "bytes_per_day":
            return bool(before) and (not after or after > before)
        case "ends_at":
            moment = datetime.fromisoformat
            return before is not None and (after is None or moment(after) > moment(before))
        case _:
            return field not in _HARMLESS
