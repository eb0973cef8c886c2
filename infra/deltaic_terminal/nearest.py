"""The name that somebody may have meant who wrote one that is not there."""

import difflib
from collections.abc import Iterable

SHORTEST = 3
"""Letters that two names must have in common at their beginning."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `: did you mean NAME?` for the known name nearest to a word; empty where none is near.

    A name that the word begins with, or that begins with it, is near as well: `seperator` for `sep`.
    """
    spelled, text = {name.lower(): name for name in known}, word.lower()
    near = difflib.get_close_matches(text, spelled, 1)
    if not near and len(text) >= SHORTEST:
        near = [name for name in spelled if len(name) >= SHORTEST and (name.startswith(text) or text.startswith(name))]
    return f": did you mean {spelled[near[0]]}?" if near else ""
