"""Suggest the most similar existing name for a misspelled name."""

import difflib
from collections.abc import Iterable

SHORTEST = 3
"""Minimum length of a name that counts as similar because it is a prefix of the other."""


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return `: did you mean NAME?` with the most similar of `names`, or an empty string if none is similar.

    Two names are also similar if one is a prefix of the other, such as `separator` and `sep`.
    """
    spelled, text = {name.lower(): name for name in names}, name.lower()
    near = difflib.get_close_matches(text, spelled, 1)
    if not near and len(text) >= SHORTEST:
        near = [name for name in spelled if len(name) >= SHORTEST and (name.startswith(text) or text.startswith(name))]
    return f": did you mean {spelled[near[0]]}?" if near else ""
