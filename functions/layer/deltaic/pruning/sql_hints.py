"""Parse `predicateHints` into an expression; an unreadable hint selects all rows.

PROTOCOL.md, "SQL Expressions for Filtering": hints are joined by AND and best effort, so nothing here raises an error.
They are parsed like Spark SQL. The parser is imported only if there is a hint, because its import is slow. An
unsupported part becomes Unknown, and the other parts still prune.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from deltaic.pruning.expressions import And, Expression, Unknown

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

MAX_CHARACTERS: Final = 64 * 1024
"""Maximum characters of all hints together: at 10 us per character, parsing takes less than a second."""

_PLAIN_ESCAPES: Final = frozenset("\\'\"%_nrt")
"""Escapes with the same meaning in all versions of Spark and in the parser."""


def parse_sql(hints: Sequence[str]) -> Expression | None:
    """Parse the hints and combine them with AND; None if they are missing, too long, or unreadable."""
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
        return expression(trees[0], _literal_test(text, tokens))
    except (SqlglotError, RecursionError, ValueError, TypeError, AttributeError, KeyError, IndexError):
        # The parser is large and a hint can be any text, so every error means an unsupported hint.
        return Unknown()


def _literal_test(text: str, tokens: "Sequence[Token]") -> Callable[[Any], bool]:
    """Return a function that tells whether a string literal is unambiguous.

    Double quotes delimit a string in Spark and a column in standard SQL. Octal, unicode and unknown escapes depend on
    the version and configuration of Spark.
    """
    from sqlglot.tokenizer_core import TokenType

    ambiguous = set()
    for token in tokens:
        if token.token_type == TokenType.STRING:
            raw = text[token.start : token.end + 1]
            if not raw.startswith("'") or not _has_plain_escapes(raw):
                ambiguous.add(token.text)
    return lambda literal: literal.this not in ambiguous


def _has_plain_escapes(raw: str) -> bool:
    position = raw.find("\\")
    while position >= 0:
        if raw[position + 1 : position + 2] not in _PLAIN_ESCAPES:
            return False
        position = raw.find("\\", position + 2)
    return True
