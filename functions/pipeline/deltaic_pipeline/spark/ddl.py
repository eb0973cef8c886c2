"""Parse column names and types from a schema in Spark's DDL, such as `id BIGINT NOT NULL, day DATE`.

Brackets after a type are skipped unless they contain types: Spark checks other content later.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from deltaic_terminal.nearest import did_you_mean

TYPES = frozenset({
    "array", "bigint", "binary", "boolean", "byte", "char", "character", "date", "dec", "decimal", "double",
    "float", "geography", "geometry", "int", "integer", "interval", "long", "map", "numeric", "real", "short",
    "smallint", "string", "struct", "time", "timestamp", "timestamp_ltz", "timestamp_ntz", "tinyint", "varchar",
    "variant", "void",
})  # fmt: skip

DEEPEST = 50

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*(?:.*?\*/|.*))|`(?P<quoted>(?:[^`]|``)*)`?|(?P<word>\w+)"""
    r"""|'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?|.""",
    re.DOTALL,
)
"""Token of a schema; an unclosed quote or comment extends to the end, so that parsing needs one pass."""

_AFTER_TYPE = re.compile(
    r"((collate \S+ (\. \S+ )*|with(out)? (local )?time zone |(year|month|day|hour|minute) (to \S+ )?|second ))?"
    r"(not null )?(comment ((r )?['\"] )+)?"
)
"""Words that can follow a type before the next comma, each with a space after it."""


@dataclass(frozen=True, slots=True)
class DeclaredColumn:
    """Column in a DDL schema."""

    name: str
    type: str
    """First word of the type in lower case, such as `decimal` or `array`."""

    line: int
    """Line number in the schema, from 1."""


class WrongDdl(Exception):
    """Error in a DDL schema that Spark would reject too; `line` is the line number in the schema."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message, self.line = message, line


@dataclass(frozen=True, slots=True)
class _DdlToken:
    text: str
    line: int
    is_name: bool
    """Whether the token is a word, or a name in backticks."""


def columns_of(ddl: str) -> list[DeclaredColumn]:
    """Parse a DDL schema and return its columns; raises `WrongDdl`."""
    columns: dict[str, DeclaredColumn] = {}
    for column in _fields(list(_tokens(ddl))):
        if column.name.lower() in columns:
            raise WrongDdl(f"declares the column '{column.name}' twice", column.line)
        columns[column.name.lower()] = column
    if not columns:
        raise WrongDdl("declares no column", 1)
    return list(columns.values())


def _tokens(ddl: str) -> Iterator[_DdlToken]:
    line, depth = 1, 0
    for match in _TOKEN.finditer(ddl):
        if match["space"] is None:
            quoted = match["quoted"]
            text = match[0] if quoted is None else quoted.replace("``", "`")
            depth += {"<": 1, ">": -1}.get(match[0], 0)
            if depth > DEEPEST:
                raise WrongDdl(f"nests types more than {DEEPEST} levels deep: flatten it", line)
            yield _DdlToken(text, line, quoted is not None or match["word"] is not None)
        line += match[0].count("\n")


def _fields(tokens: Sequence[_DdlToken]) -> Iterator[DeclaredColumn]:
    for part in _parts(tokens):
        name, kind = part[0], part[2:] if [token.text for token in part[1:2]] == [":"] else part[1:]
        if not name.is_name:
            raise WrongDdl(f"has '{name.text}' where a column's name is expected", name.line)
        if not kind:
            raise WrongDdl(f"gives the column '{name.text}' no type", name.line)
        _check_type(kind)
        yield DeclaredColumn(name.text, kind[0].text.lower(), name.line)


def _check_type(tokens: Sequence[_DdlToken]) -> None:
    first_token = tokens[0]
    if first_token.text.lower() not in TYPES:
        raise WrongDdl(
            f"has the type '{first_token.text}', which Spark does not know" + did_you_mean(first_token.text, TYPES),
            first_token.line,
        )
    end = 1
    if [token.text for token in tokens[1:2]] in (["<"], ["("]):
        depths = accumulate({"<": 1, "(": 1, ">": -1, ")": -1}.get(token.text, 0) for token in tokens[1:])
        end = next((number for number, depth in enumerate(depths, 2) if not depth), len(tokens))
    following = [token.text if token.is_name else token.text[:1] for token in tokens[end:]]
    match = _AFTER_TYPE.match("".join(f"{text.replace(' ', '_')} " for text in following).lower())
    if match and len(following) > (count := match[0].count(" ")):
        raise WrongDdl(f"has '{following[count]}' where a comma is expected", tokens[end + count].line)
    if first_token.text.lower() == "struct" and end > 1:
        list(_fields(tokens[2 : end - 1]))
    elif first_token.text.lower() in {"array", "map"} and end > 1:
        for part in _parts(tokens[2 : end - 1]):
            _check_type(part)


def _parts(tokens: Sequence[_DdlToken]) -> Iterator[Sequence[_DdlToken]]:
    start = parentheses = angle_brackets = 0
    for position, token in enumerate(tokens):
        parentheses += {"(": 1, ")": -1}.get(token.text, 0)
        angle_brackets += {"<": 1, ">": -1}.get(token.text, 0) if not parentheses else 0
        if token.text == "," and not parentheses and not angle_brackets:
            if position == start:
                raise WrongDdl("has an extra comma", token.line)
            yield tokens[start:position]
            start = position + 1
    if parentheses:
        raise WrongDdl("has an unclosed bracket", tokens[-1].line)
    if start < len(tokens):
        yield tokens[start:]
    elif tokens:
        raise WrongDdl("has an extra comma", tokens[-1].line)
