"""Split a partition filter into tokens, with their positions for error messages."""

import re
from typing import Final

import msgspec

from deltaic.errors import InvalidParameter
from deltaic.pruning.values import MAX_TEXT, is_utf8

MAX_CHARACTERS: Final = 4000
"""Maximum number of characters of a filter."""

_RESERVED: Final = {"AND", "OR", "NOT", "IN", "IS", "NULL", "BETWEEN", "LIKE", "TRUE", "FALSE"}
_TOKEN: Final = re.compile(
    r"(?P<text>'(?:[^']|'')*')"
    r"|(?P<name>`(?:[^`]|``)+`)"
    r"|(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
    r"|(?P<word>[^\W\d]\w*)"
    r"|(?P<symbol><=(?!>)|>=|<>|!=|[<>](?!=)|=(?!=)|[(),+-])"
)
_SPACE: Final = re.compile(r"\s*")
_MAX_MESSAGE_TEXT: Final = 40
_REMEDIES: Final = {
    "'": "end it with ' and write each ' inside the string twice",
    "`": "end it with `",
    '"': "write strings in 'single quotes', and column names without quotes or in `backticks`",
    ".": "nested columns cannot be partition columns; write a column name with a period in `backticks`",
    "=": "use =, or IS NULL to find nulls",
    "<": "use =, or IS NULL to find nulls",
    ";": "remove the semicolon: a filter is one condition, as in WHERE",
    "*": "arithmetic is not supported: compare columns directly",
    "/": "arithmetic is not supported: compare columns directly",
}


class Lexeme(msgspec.Struct, frozen=True):
    """A token of a filter."""

    kind: str
    """text, name (with or without backticks), number, symbol, keyword, or end."""
    value: str
    """Value without quotes; keywords in upper case."""
    position: int
    """Position of the token's first character in the filter, from 0."""
    text: str = ""
    """The token as written, shortened for messages."""


def filter_error(position: int, problem: str, remedy: str) -> InvalidParameter:
    """Return an error with the position (in the message counted from 1), the problem and a remedy."""
    return InvalidParameter(f"the partition filter is invalid at character {position + 1}: {problem}; {remedy}")


def shorten(text: str) -> str:
    """Return a part of a filter for a message, in one short line."""
    line = " ".join(text.split())
    return line if len(line) <= _MAX_MESSAGE_TEXT else line[:_MAX_MESSAGE_TEXT] + "..."


def tokens(text: str) -> list[Lexeme]:
    """Return the tokens of a filter and a final `end` token; raises InvalidParameter for invalid characters."""
    if not text.strip():
        raise InvalidParameter("the partition filter is empty: write, for example, region = 'EU'")
    if len(text) > MAX_CHARACTERS:
        raise InvalidParameter(
            f"the partition filter has {len(text)} characters, and the maximum is {MAX_CHARACTERS}: move long lists to "
            "a property of the recipients and use region IN current_recipient('regions')"
        )
    if not is_utf8(text):
        raise InvalidParameter("the partition filter contains an unpaired surrogate: use valid Unicode")
    parsed: list[Lexeme] = []
    end = len(text.rstrip())
    position = _after_space(text, 0)
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise _unreadable(text, position)
        parsed.append(_token(match, text))
        position = _after_space(text, match.end())
    return [*parsed, Lexeme("end", "", end, "the end")]


def _after_space(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    return position if space is None else space.end()


def _token(match: re.Match[str], text: str) -> Lexeme:
    kind, raw, position = str(match.lastgroup), match[0], match.start()
    if kind == "text":
        return Lexeme("text", raw[1:-1].replace("''", "'"), position, shorten(raw))
    if kind == "name":
        return Lexeme("name", raw[1:-1].replace("``", "`"), position, shorten(raw))
    if kind == "number":
        following = text[match.end() : match.end() + 1]
        if len(raw) > MAX_TEXT or following == "." or following.isalnum() or following == "_":
            raise filter_error(position, "invalid number", f"write it as 2024 or 12.50, with at most {MAX_TEXT} digits")
    elif kind == "word":
        kind = "keyword" if raw.upper() in _RESERVED else "name"
        return Lexeme(kind, raw.upper() if kind == "keyword" else raw, position, shorten(raw))
    return Lexeme(kind, raw, position, shorten(raw))


def _unreadable(text: str, position: int) -> InvalidParameter:
    first = text[position]
    remedy = _REMEDIES.get(first, "use columns, literals, current_recipient('property'), comparisons, AND, OR and NOT")
    problem = {"'": "the string is not terminated", "`": "the name is not terminated"}.get(first)
    return filter_error(position, problem or f"unexpected {first!a}", remedy)
