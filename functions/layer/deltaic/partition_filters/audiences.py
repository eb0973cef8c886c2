"""Decides which recipients a view has the same rows for: those with equal values in the properties that it uses."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Final

from deltaic.partition_filters.properties import value_of

AUDIENCE_COLUMN: Final = "_deltaic_policy"
"""The partition column of a view's table that says whose rows a file holds; no recipient sees it."""

_CHARACTERS = 32


def audience(names: Iterable[str], properties: Mapping[str, str]) -> str | None:
    """Return the name of the values that these properties have; None if one is lacking or an empty list.

    32 hexadecimal digits. In a list neither the order nor repetition matters; a list of one is not that one text.
    """
    values: list[tuple[str, str | list[str]]] = []
    for name in sorted(set(names)):
        value = value_of(properties[name]) if name in properties else ()
        if value == ():
            return None
        values.append((name, value if isinstance(value, str) else sorted(set(value))))
    canonical = json.dumps(values, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:_CHARACTERS]
