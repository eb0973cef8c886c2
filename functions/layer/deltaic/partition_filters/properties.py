"""Parse the value of a recipient's property: a string or a list of strings."""

import json
from collections.abc import Iterable, Mapping

from deltaic.errors import InvalidParameter


def value_of(text: str) -> str | tuple[str, ...]:
    """Parse a property's value: return the strings of a JSON array, or else the value itself.

    An empty list counts as a missing property. An array with invalid Unicode is not a list.
    """
    strings = _parse_list(text)
    return tuple(strings) if strings is not None and _is_unicode(strings) else text


def check_lists(properties: Mapping[str, str]) -> None:
    """Raise InvalidParameter if a property's list has invalid Unicode, which JSON escapes can express."""
    for name, text in properties.items():
        if not _is_unicode(_parse_list(text) or ()):
            raise InvalidParameter(f"the list of property {name!a} contains an unpaired surrogate: use valid Unicode")


def _is_unicode(texts: Iterable[str]) -> bool:
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True


def _parse_list(text: str) -> list[str] | None:
    if not text.strip().startswith("["):
        return None
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, list) and all(isinstance(value, str) for value in values) else None
