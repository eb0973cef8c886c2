"""Names of Delta columns for the names in a file's header."""

import re
import unicodedata
from collections.abc import Sequence
from itertools import chain, count

_LETTERS = {"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "æ": "ae", "ø": "oe", "å": "aa", "ł": "l", "đ": "d"}
_WORDS = {"€": " eur ", "$": " usd ", "£": " gbp ", "¥": " jpy ", "%": " percent ", "&": " and ", "°": " deg "}
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def propose_names(originals: Sequence[str]) -> list[str]:
    """Return a name for each column that Delta and all common clients accept; they are unique in any case.

    Names of ASCII letters, digits and underscores are kept. `Umsatz (€)` becomes `umsatz_eur`, and an empty name
    becomes `column_3` in the third position.
    """
    names: list[str] = []
    for position, original in enumerate(originals, 1):
        base, used = _plain_name(original) or f"column_{position}", {each.casefold() for each in names}
        candidates = chain([base], (f"{base}_{number}" for number in count(2)))
        names.append(next(name for name in candidates if name.casefold() not in used))
    return names


def _plain_name(original: str) -> str:
    text = original.strip()
    if _PLAIN.fullmatch(text):
        return text
    text = "".join(_WORDS.get(letter, _LETTERS.get(letter, letter)) for letter in text.lower())
    text = "".join(letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))
    name = re.sub(r"\W+", "_", text).strip("_")
    return f"_{name}" if name[:1].isdigit() else name
