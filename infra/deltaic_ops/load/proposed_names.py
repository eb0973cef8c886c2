"""Names of Delta columns for the names in a file's header."""

import re
import unicodedata
from collections.abc import Sequence
from itertools import chain, count

_LETTERS = str.maketrans({
    "ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "æ": "ae", "ø": "oe", "å": "aa", "ł": "l", "đ": "d", "€": " eur ",
    "$": " usd ", "£": " gbp ", "¥": " jpy ", "%": " percent ", "&": " and ", "°": " deg ",
})  # fmt: skip


def propose_names(originals: Sequence[str]) -> list[str]:
    """Return a name for each column that Delta and all common clients accept; they are unique in any case.

    Names of ASCII letters, digits and underscores are kept. `Umsatz (€)` becomes `umsatz_eur`, and an empty name
    becomes `column_3` in the third position.
    """
    names: list[str] = []
    for position, original in enumerate(originals, 1):
        base, used = _plain_name(original.strip()) or f"column_{position}", {each.casefold() for each in names}
        candidates = chain([base], (f"{base}_{number}" for number in count(2)))
        names.append(next(name for name in candidates if name.casefold() not in used))
    return names


def _plain_name(text: str) -> str:
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        return text
    text = unicodedata.normalize("NFKD", text.lower().translate(_LETTERS))
    name = re.sub(r"\W+", "_", re.sub(r"[\u0300-\u036f]", "", text)).strip("_")
    return f"_{name}" if name[:1].isdigit() else name
