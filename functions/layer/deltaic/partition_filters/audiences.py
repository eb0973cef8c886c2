"""Group recipients into audiences: those with equal values of the properties that a view uses see the same rows."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Final

from deltaic.partition_filters.properties import value_of

AUDIENCE_COLUMN: Final = "_deltaic_policy"
"""Hidden partition column of the table of a view; its value is the audience that sees a file."""

_LENGTH = 32


def audience(names: Iterable[str], properties: Mapping[str, str]) -> str | None:
    """Return the id of the audience with these property values; None if one is missing or an empty list.

    The id has 32 hexadecimal digits. Order and duplicates in lists do not matter; a list of one string differs from
    that string.
    """
    values: list[tuple[str, str | list[str]]] = []
    for name in sorted(set(names)):
        value = value_of(properties[name]) if name in properties else ()
        if value == ():
            return None
        values.append((name, value if isinstance(value, str) else sorted(set(value))))
    canonical = json.dumps(values, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:_LENGTH]
