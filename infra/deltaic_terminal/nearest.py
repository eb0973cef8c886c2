"""Suggest the nearest existing name for a misspelled one."""

import difflib
from collections.abc import Iterable

SHORTEST = 3
"""Number of leading letters that two names must share."""


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return `: did you mean NAME?` with the nearest of `names`, or an empty string.

    Two names are also near if one is a prefix of the other: `separator` and `sep`.
    """
    spelled, text = {name.lower(): name for name in names}, name.lower()
    near = difflib.get_close_matches(text, spelled, 1)
    if not near and len(text) >= SHORTEST:
        near = [name for name in spelled if len(name) >= SHORTEST and (name.startswith(text) or text.startswith(name))]
    return f": did you mean {spelled[near[0]]}?" if near else ""
