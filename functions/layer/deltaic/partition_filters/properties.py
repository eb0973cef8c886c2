"""Decides what the text of a recipient's property is: one text, or a list of texts."""

import json


def value_of(text: str) -> str | tuple[str, ...]:
    """Return the texts of a JSON array of strings, and of anything else the text as it stands.

    The list may be empty, which counts as a property that is lacking.
    """
    if not text.strip().startswith("["):
        return text
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return tuple(found) if isinstance(found, list) and all(isinstance(one, str) for one in found) else text
