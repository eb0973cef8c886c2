"""Parse limits in dataset files: a percentage or a number of rows, such as `1 %` or `100 rows`."""

import re
from decimal import Decimal

LIMIT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?) ?%|([0-9]{1,18}) rows?")
HUNDRED = Decimal(100)


def check_limit(text: str) -> str:
    """Return the text of a limit unchanged; raises ValueError for any other text."""
    match = LIMIT.fullmatch(text)
    if match is None or (match[1] and Decimal(match[1]) > HUNDRED):
        raise ValueError("write a share or a number of rows, such as '1 %' or '100 rows'")
    return text


def exceeds(text: str, count: int, rows: int) -> bool:
    """Return whether `count` out of `rows` exceeds a limit such as `1 %` or `100 rows`."""
    match = LIMIT.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return count > int(match[2]) if match[2] else count * HUNDRED > Decimal(match[1]) * rows
