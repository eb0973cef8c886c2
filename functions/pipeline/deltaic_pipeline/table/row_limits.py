"""Limits as dataset files write them: a share or a number of rows, such as `1 %` or `100 rows`."""

import re
from decimal import Decimal

LIMIT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?) ?%|([0-9]{1,18}) rows?")
HUNDRED = Decimal(100)


def limit(text: str) -> str:
    """Return the text of a limit; raises ValueError for one that is none."""
    found = LIMIT.fullmatch(text)
    if found is None or (found[1] and Decimal(found[1]) > HUNDRED):
        raise ValueError("write a share or a number of the rows, such as '1 %' or '100 rows'")
    return text


def exceeds(text: str, some: int, rows: int) -> bool:
    """Tell whether some of the rows are more than a limit allows."""
    found = LIMIT.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return some > int(found[2]) if found[2] else some * HUNDRED > Decimal(found[1]) * rows
