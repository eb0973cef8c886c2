"""The value of a recipient's property: one text, or a list of texts."""

import json
from collections.abc import Iterable, Mapping

from deltaic.errors import InvalidParameter


def value_of(text: str) -> str | tuple[str, ...]:
    """Return the texts of a JSON array of strings, and of anything else the text as it stands.

    The list may be empty, which counts as a property that is lacking. One with text that is no Unicode is no list.
    """
    found = _listed(text)
    return tuple(found) if found is not None and _is_unicode(found) else text


def check_lists(properties: Mapping[str, str]) -> None:
    """Raise InvalidParameter where a list holds text that is no Unicode, which JSON can escape."""
    for name, text in properties.items():
        if not _is_unicode(_listed(text) or ()):
            raise InvalidParameter(f"the list of property {name!a} holds half of a character: write whole ones")


def _is_unicode(texts: Iterable[str]) -> bool:
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True


def _listed(text: str) -> list[str] | None:
    if not text.strip().startswith("["):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, list) and all(isinstance(one, str) for one in found) else None
