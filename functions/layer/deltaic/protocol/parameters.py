"""Parse query strings, and numbers and booleans in them; the last value of a repeated parameter counts."""

import re
from typing import Final
from urllib.parse import parse_qsl

from deltaic.errors import InvalidParameter, MalformedRequest

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
NOT_A_NUMBER: Final = "expected a number but the string didn't have the appropriate format"

_INTEGER: Final = re.compile(r"[+-]?0*([0-9]{1,20})", re.ASCII)
_MAX_FIELDS: Final = 200
_MAX_REPEATED: Final = 100


def from_query_string(query_string: str | bytes) -> dict[str, str]:
    """Return the parameters of a raw query string, percent-decoded.

    The last value of a repeated parameter counts, as in `queryStringParameters` of an API Gateway event. Bytes that are
    not UTF-8 become U+FFFD. More than 200 parameters raise `MalformedRequest`.
    """
    text = query_string.decode("utf-8", "replace") if isinstance(query_string, bytes) else query_string
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS))
    except ValueError as error:
        raise MalformedRequest(f"the query string has more than {_MAX_FIELDS} parameters.") from error


def integer(text: str, limit: int) -> int | None:
    """Parse a signed decimal number in `-limit - 1..limit`; None if it is invalid."""
    match = _INTEGER.fullmatch(text)
    if match is None:
        return None
    number = -int(match[1]) if text.startswith("-") else int(match[1])
    return number if -limit - 1 <= number <= limit else None


def number(text: str | None, limit: int) -> int | None:
    """Parse a parameter as a number; None if absent. Raises `InvalidParameter` if it is not a number."""
    if text is None:
        return None
    value = integer(text, limit)
    if value is None:
        raise InvalidParameter(NOT_A_NUMBER)
    return value


def flag(text: str | None) -> bool:
    """Return whether a boolean parameter is `true`, ignoring case because Python clients send `True`."""
    return text is not None and text.strip().lower() == "true"


def shorten(text: str) -> str:
    """Truncate a client's string to 100 characters, for error messages."""
    return text if len(text) <= _MAX_REPEATED else text[:_MAX_REPEATED] + "..."
