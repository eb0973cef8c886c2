"""Parses `predicateHints` into an expression; a hint that cannot be read selects everything.

PROTOCOL.md, "SQL Expressions for Filtering": hints are joined by AND and best effort, so nothing here raises. They are
parsed as Spark does, with a parser that is imported only when a hint is there, for it takes longer to import than all
the rest. A part that is not understood becomes Unknown, and what stands beside it still prunes.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from deltaic.pruning.expressions import And, Expression, Unknown

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

MAX_CHARACTERS: Final = 64 * 1024
"""Of all hints together: a parser at 10 us a character must not hold an answer for a second."""

_PLAIN_ESCAPES: Final = frozenset("\\'\"%_nrt")
"""Escapes that mean the same to every version of Spark and to the parser."""


def parse_sql(hints: Sequence[str]) -> Expression | None:
    """Return the conjunction of the hints, or None when they filter nothing: absent, too long, or none is readable."""
    texts = [hint for hint in hints if isinstance(hint, str) and hint.strip()]
    if not texts or sum(map(len, texts)) > MAX_CHARACTERS:
        return None
    parsed = tuple(part for part in map(_parse, texts) if part != Unknown())
    if len(parsed) > 1:
        return And(parsed)
    return parsed[0] if parsed else None


def _parse(text: str) -> Expression:
    from sqlglot import exp
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import ErrorLevel, SqlglotError

    from deltaic.pruning.sql_tree import expression

    try:
        dialect = Dialect.get_or_raise("databricks")
        tokens = dialect.tokenize(text)
        trees = dialect.parser(error_level=ErrorLevel.RAISE).parse_into(exp.Condition, tokens, text)
        if len(trees) != 1 or trees[0] is None:
            return Unknown()
        return expression(trees[0], _trusted(text, tokens))
    except (SqlglotError, RecursionError, ValueError, TypeError, AttributeError, KeyError, IndexError):
        # The parser is large, and a hint may be any text at all: what trips it is a hint that is not understood.
        return Unknown()


def _trusted(text: str, tokens: "Sequence[Token]") -> Callable[[Any], bool]:
    """Return the test of a string literal: false where clients disagree on what was written.

    Double quotes hold a string in Spark and a column in the SQL standard; octal, unicode and unknown escapes depend on
    the version and the configuration of Spark.
    """
    from sqlglot.tokenizer_core import TokenType

    doubted = set()
    for token in tokens:
        if token.token_type == TokenType.STRING:
            raw = text[token.start : token.end + 1]
            if not raw.startswith("'") or not _plain(raw):
                doubted.add(token.text)
    return lambda literal: literal.this not in doubted


def _plain(raw: str) -> bool:
    position = raw.find("\\")
    while position >= 0:
        if raw[position + 1 : position + 2] not in _PLAIN_ESCAPES:
            return False
        position = raw.find("\\", position + 2)
    return True
