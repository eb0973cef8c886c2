"""Spark's DDL of columns (`id BIGINT NOT NULL, day DATE`), read as far as their names and types.

What a type has in brackets is passed over where no types are in it: only Spark knows all of it.
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
"""What has no end goes on to the text's, so that reading takes one way through it."""

_BEHIND = re.compile(
    r"((collate \S+ (\. \S+ )*|with(out)? (local )?time zone |(year|month|day|hour|minute) (to \S+ )?|second ))?"
    r"(not null )?(comment ((r )?['\"] )+)?"
)
"""What may stand between a type and the next comma, as words that end with a space."""


@dataclass(frozen=True, slots=True)
class DeclaredColumn:
    """A column that a schema declares."""

    name: str
    type: str
    """The type's first word in lower case: `decimal`, `array`."""

    line: int
    """Within the text, counted from 1."""


class WrongDdl(Exception):
    """A schema that Spark refuses; `line` is that of the text."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message, self.line = message, line


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    line: int
    named: bool
    """A word, or a name in backquotes."""


def columns_of(ddl: str) -> list[DeclaredColumn]:
    """Return the columns; raises `WrongDdl`."""
    columns: dict[str, DeclaredColumn] = {}
    for column in _fields(list(_tokens(ddl))):
        if column.name.lower() in columns:
            raise WrongDdl(f"declares the column '{column.name}' twice", column.line)
        columns[column.name.lower()] = column
    if not columns:
        raise WrongDdl("declares no column", 1)
    return list(columns.values())


def _tokens(ddl: str) -> Iterator[_Token]:
    line, depth = 1, 0
    for match in _TOKEN.finditer(ddl):
        if match["space"] is None:
            quoted = match["quoted"]
            text = match[0] if quoted is None else quoted.replace("``", "`")
            depth += {"<": 1, ">": -1}.get(match[0], 0)
            if depth > DEEPEST:
                raise WrongDdl(f"nests types more than {DEEPEST} deep", line)
            yield _Token(text, line, quoted is not None or match["word"] is not None)
        line += match[0].count("\n")


def _fields(tokens: Sequence[_Token]) -> Iterator[DeclaredColumn]:
    for part in _parts(tokens):
        name, kind = part[0], part[2:] if [token.text for token in part[1:2]] == [":"] else part[1:]
        if not name.named:
            raise WrongDdl(f"has '{name.text}' where a column's name is expected", name.line)
        if not kind:
            raise WrongDdl(f"gives the column '{name.text}' no type", name.line)
        _check_type(kind)
        yield DeclaredColumn(name.text, kind[0].text.lower(), name.line)


def _check_type(tokens: Sequence[_Token]) -> None:
    word = tokens[0]
    if word.text.lower() not in TYPES:
        raise WrongDdl(
            f"has the type '{word.text}', which Spark does not know" + did_you_mean(word.text, TYPES), word.line
        )
    end = 1
    if [token.text for token in tokens[1:2]] in (["<"], ["("]):
        depths = accumulate({"<": 1, "(": 1, ">": -1, ")": -1}.get(token.text, 0) for token in tokens[1:])
        end = next((number for number, depth in enumerate(depths, 2) if not depth), len(tokens))
    behind = [token.text if token.named else token.text[:1] for token in tokens[end:]]
    taken = _BEHIND.match("".join(f"{text.replace(' ', '_')} " for text in behind).lower())
    if taken and len(behind) > (count := taken[0].count(" ")):
        raise WrongDdl(f"has '{behind[count]}' where a comma is expected", tokens[end + count].line)
    if word.text.lower() == "struct" and end > 1:
        list(_fields(tokens[2 : end - 1]))
    elif word.text.lower() in {"array", "map"} and end > 1:
        for part in _parts(tokens[2 : end - 1]):
            _check_type(part)


def _parts(tokens: Sequence[_Token]) -> Iterator[Sequence[_Token]]:
    began = rounds = angles = 0
    for position, token in enumerate(tokens):
        rounds += {"(": 1, ")": -1}.get(token.text, 0)
        angles += {"<": 1, ">": -1}.get(token.text, 0) if not rounds else 0
        if token.text == "," and not rounds and not angles:
            if position == began:
                raise WrongDdl("has a comma too many", token.line)
            yield tokens[began:position]
            began = position + 1
    if rounds:
        raise WrongDdl("has a bracket without its other half", tokens[-1].line)
    if began < len(tokens):
        yield tokens[began:]
    elif tokens:
        raise WrongDdl("has a comma too many", tokens[-1].line)
