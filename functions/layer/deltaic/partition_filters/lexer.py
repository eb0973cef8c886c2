"""Cuts the text of a filter into tokens, each with its place, which refusals name."""

import re
from typing import Final

import msgspec

from deltaic.errors import InvalidParameter
from deltaic.pruning.values import MAX_TEXT, is_utf8

MAX_CHARACTERS: Final = 4000
"""Of a filter's text."""

_RESERVED: Final = {"AND", "OR", "NOT", "IN", "IS", "NULL", "BETWEEN", "LIKE", "TRUE", "FALSE"}
_TOKEN: Final = re.compile(
    r"(?P<text>'(?:[^']|'')*')"
    r"|(?P<name>`(?:[^`]|``)+`)"
    r"|(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
    r"|(?P<word>[^\W\d]\w*)"
    r"|(?P<symbol><=(?!>)|>=|<>|!=|[<>](?!=)|=(?!=)|[(),+-])"
)
_SPACE: Final = re.compile(r"\s*")
_SHOWN: Final = 40
_REMEDIES: Final = {
    "'": "end the text with another ' and write a ' within it twice",
    "`": "end the name with another `",
    '"': "write texts in 'single quotes' and names of columns bare or in `backticks`",
    ".": "columns within structs are never partition columns; a column with a dot in its name stands in `backticks`",
    "=": "write =, or IS NULL to find nulls",
    "<": "write =, or IS NULL to find nulls",
    ";": "a filter is one condition, as after WHERE: leave the semicolon out",
    "*": "columns are compared as they are: leave arithmetic out",
    "/": "columns are compared as they are: leave arithmetic out",
}


class Lexeme(msgspec.Struct, frozen=True):
    """A piece of a filter's text."""

    kind: str
    """text, name (a word or what stands in backticks), number, symbol, keyword, or end."""
    value: str
    """What it says, without quotes; keywords in capitals."""
    position: int
    """Of its first character, from 0."""
    shown: str = ""
    """As it was written, for messages; cut."""


def refusal(position: int, what: str, remedy: str) -> InvalidParameter:
    """Return the error that says where a filter is wrong (counted from 1), what is wrong there, and what to do."""
    return InvalidParameter(f"the partition filter is wrong at character {position + 1}: {what}; {remedy}")


def shown(text: str) -> str:
    """Return a piece of a filter as a message shows it: on one line, and not long."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[:_SHOWN] + "..."


def tokens(text: str) -> list[Lexeme]:
    """Cut a filter into tokens, of which the last is the end; raises InvalidParameter."""
    if not text.strip():
        raise InvalidParameter("the partition filter is empty: write, for example, region = 'EU'")
    if len(text) > MAX_CHARACTERS:
        raise InvalidParameter(
            f"the partition filter has {len(text)} characters and may have {MAX_CHARACTERS}: keep long lists in a "
            "property of the recipients and write region IN current_recipient('regions')"
        )
    if not is_utf8(text):
        raise InvalidParameter("the partition filter is no Unicode text: it holds half of a surrogate pair")
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
        return Lexeme("text", raw[1:-1].replace("''", "'"), position, shown(raw))
    if kind == "name":
        return Lexeme("name", raw[1:-1].replace("``", "`"), position, shown(raw))
    if kind == "number":
        follows = text[match.end() : match.end() + 1]
        if len(raw) > MAX_TEXT or follows == "." or follows.isalnum() or follows == "_":
            raise refusal(
                position, "a number cannot be read", f"write it as 2024 or 12.50, in {MAX_TEXT} digits at most"
            )
    elif kind == "word":
        kind = "keyword" if raw.upper() in _RESERVED else "name"
        return Lexeme(kind, raw.upper() if kind == "keyword" else raw, position, shown(raw))
    return Lexeme(kind, raw, position, shown(raw))


def _unreadable(text: str, position: int) -> InvalidParameter:
    first = text[position]
    remedy = _REMEDIES.get(
        first, "a condition is made of columns, literals, current_recipient('property'), comparisons, AND, OR and NOT"
    )
    what = {"'": "a text has no end", "`": "a name has no end"}.get(first)
    return refusal(position, what or f"{first!a} has no meaning here", remedy)
