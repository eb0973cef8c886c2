"""Parses a partition filter's tokens: a small grammar of SQL, in which nothing is guessed.

condition   = all { OR all }                 all = one { AND one }              one = NOT one | ( condition ) | test
test        = operand ( = | <> | != | < | <= | > | >= ) operand
            | operand [NOT] BETWEEN operand AND operand
            | operand [NOT] IN ( item { , item } )        | operand [NOT] IN current_recipient('p')
            | column IS [NOT] NULL                        | operand [NOT] LIKE 'beginning%'
operand     = column | item
item        = current_recipient('p') | 'text' | 2024 | -1.50 | TRUE | FALSE
            | DATE '2024-12-31' | TIMESTAMP '2024-12-31 12:00:00Z' | TIMESTAMP_NTZ '2024-12-31 12:00:00'
"""

from decimal import Decimal
from typing import Final, cast, get_args

from deltaic.partition_filters.conditions import (
    Condition,
    FilterAnd,
    FilterColumn,
    FilterComparison,
    FilterIn,
    FilterIsNull,
    FilterLiteral,
    FilterNot,
    FilterOr,
    FilterStartsWith,
    Item,
    Kind,
    Operand,
    Operator,
    PartitionFilter,
    Property,
)
from deltaic.partition_filters.lexer import Lexeme, refusal, tokens
from deltaic.pruning.values import days, microseconds

MAX_DEPTH: Final = 50
"""Of parentheses and NOTs within each other."""
MAX_OPERANDS: Final = 500
"""Columns, literals and properties in a filter."""

_FUNCTION: Final = "current_recipient"
_OPERATORS: Final[dict[str, Operator]] = {**{one: one for one in get_args(Operator)}, "!=": "<>"}
_OPERAND: Final = "write a partition column, a literal or current_recipient('property')"
_TESTS: Final = "with =, <>, <, <=, >, >=, IN, BETWEEN, LIKE or IS NULL"


def parse(text: str) -> PartitionFilter:
    """Read a filter; raises InvalidParameter, which says at which character it is wrong, why, and what to write."""
    return _Parser(text).read()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens(text)
        self._at = 0
        self._depth = 0
        self._operands = 0
        self._columns: dict[str, str] = {}
        self._properties: dict[str, None] = {}

    def read(self) -> PartitionFilter:
        condition = self._condition()
        if self._next.kind != "end":
            remedy = "join conditions by AND or OR, and see that every parenthesis has its other half"
            raise refusal(self._next.position, f"{self._next.shown} does not belong here", remedy)
        return PartitionFilter(self._text, tuple(self._columns.values()), tuple(self._properties), condition)

    @property
    def _next(self) -> Lexeme:
        return self._tokens[self._at]

    def _take(self) -> Lexeme:
        token = self._next
        self._at += token.kind != "end"
        return token

    def _has(self, *values: str) -> bool:
        """Take the next token if it is one of these keywords or symbols."""
        found = self._next.kind in {"keyword", "symbol"} and self._next.value in values
        self._at += found
        return found

    def _need(self, value: str, remedy: str) -> None:
        if not self._has(value):
            raise refusal(self._next.position, f"there is {self._next.shown} where {value} must be", remedy)

    def _condition(self) -> Condition:
        found = [self._all()]
        while self._has("OR"):
            found.append(self._all())
        return found[0] if len(found) == 1 else FilterOr(tuple(found))

    def _all(self) -> Condition:
        found = [self._one()]
        while self._has("AND"):
            found.append(self._one())
        return found[0] if len(found) == 1 else FilterAnd(tuple(found))

    def _one(self) -> Condition:
        start = self._next.position
        if not (negated := self._has("NOT")) and not self._has("("):
            return self._test()
        self._depth += 1
        if self._depth > MAX_DEPTH:
            remedy = "write it with fewer parentheses and NOTs"
            raise refusal(start, f"conditions stand more than {MAX_DEPTH} deep within each other", remedy)
        inner = self._one() if negated else self._condition()
        if not negated:
            self._need(")", "close the parenthesis, or join conditions by AND or OR")
        self._depth -= 1
        return FilterNot(inner) if negated else inner

    def _test(self) -> Condition:
        left = self._operand()
        token = self._next
        if token.kind == "symbol" and token.value in _OPERATORS:
            self._take()
            return _comparison(_OPERATORS[token.value], left, self._operand())
        if self._has("IS"):
            return self._is_null(left)
        negated = self._has("NOT")
        if self._has("BETWEEN"):
            low = self._operand()
            self._need("AND", "write BETWEEN least AND greatest")
            high = self._operand()
            condition: Condition = FilterAnd((_comparison(">=", left, low), _comparison("<=", left, high)))
        elif self._has("IN"):
            condition = self._in(left)
        elif self._has("LIKE"):
            condition = self._like(left)
        else:
            remedy = f"compare {_TESTS}"
            if isinstance(left, FilterColumn):
                remedy = f"compare {left.name} {_TESTS}; a boolean column is compared with TRUE or FALSE"
            raise refusal(self._next.position, f"there is {self._next.shown} where a comparison must be", remedy)
        return FilterNot(condition) if negated else condition

    def _is_null(self, left: Operand) -> Condition:
        negated = self._has("NOT")
        if self._next.value != "NULL" or self._next.kind != "keyword":
            remedy = "write IS NULL, IS NOT NULL or a comparison"
            raise refusal(self._next.position, f"there is {self._next.shown} where NULL must be", remedy)
        self._take()
        if isinstance(left, Property):
            remedy = "leave it out: a recipient that lacks a property sees no rows anyway"
            raise refusal(left.position, "only a column can be tested for null", remedy)
        if isinstance(left, FilterLiteral):
            raise refusal(left.position, "only a column can be tested for null", "write the column's name")
        return FilterNot(FilterIsNull(left)) if negated else FilterIsNull(left)

    def _in(self, left: Operand) -> Condition:
        items: list[Item] = []
        if self._next.kind == "name" and self._next.value.lower() == _FUNCTION:
            items.append(self._item())
        else:
            self._need("(", "write IN ('a', 'b') or IN current_recipient('property')")
            items.append(self._item())
            while self._has(","):
                items.append(self._item())
            self._need(")", "separate the items by commas and close the parenthesis")
        for item in items:
            _check_pair(left, item)
        return FilterIn(left, tuple(items))

    def _item(self) -> Item:
        operand = self._operand()
        if isinstance(operand, FilterColumn):
            remedy = "write columns as comparisons joined by OR"
            raise refusal(operand.position, "a list after IN holds literals and properties only", remedy)
        return operand

    def _like(self, left: Operand) -> Condition:
        token = self._take()
        remedy = "write a text that ends with its only %, as in LIKE 'north%'; for anything else compare with = or IN"
        if token.kind != "text":
            raise refusal(token.position, f"there is {token.shown} where a pattern must be", remedy)
        prefix, percent = token.value[:-1], token.value[-1:]
        if percent != "%" or any(character in prefix for character in "%_\\"):
            raise refusal(token.position, f"the pattern {token.shown} is not the beginning of a text", remedy)
        self._count(token)
        if isinstance(left, FilterLiteral):
            raise refusal(left.position, "two literals are compared, which says nothing of a file", _OPERAND)
        return FilterStartsWith(left, prefix)

    def _count(self, token: Lexeme) -> None:
        self._operands += 1
        if self._operands > MAX_OPERANDS:
            remedy = "keep long lists in a property of the recipients and write IN current_recipient('property')"
            raise refusal(token.position, f"there are more than {MAX_OPERANDS} columns and literals", remedy)

    def _operand(self) -> Operand:
        token = self._take()
        self._count(token)
        if token.kind == "name":
            return self._named(token)
        if token.kind == "text":
            return FilterLiteral("text", token.value, token.position, token.shown)
        if token.kind == "number":
            return _number(token, "")
        if token.kind == "symbol" and token.value in {"-", "+"} and self._next.kind == "number":
            return _number(self._take(), token.value, token.position)
        if token.kind == "keyword" and token.value in {"TRUE", "FALSE"}:
            return FilterLiteral("boolean", int(token.value == "TRUE"), token.position, token.value)
        if token.kind == "keyword" and token.value == "NULL":
            raise refusal(token.position, "nothing is ever equal to NULL", "write IS NULL or IS NOT NULL")
        remedy = _OPERAND
        if token.kind == "keyword":
            remedy += f"; a column that is named {token.shown} stands in `backticks`"
        raise refusal(token.position, f"there is {token.shown} where an operand must be", remedy)

    def _named(self, token: Lexeme) -> Operand:
        bare = not self._text.startswith("`", token.position)
        follows = self._next
        if bare and follows.kind == "text" and token.value.lower() in _TYPED:
            self._take()
            return _typed(cast("Kind", token.value.lower()), token, follows)
        if bare and follows.kind == "symbol" and follows.value == "(":
            if token.value.lower() != _FUNCTION:
                remedy = "there is no function but current_recipient('property'): compare columns as they are"
                raise refusal(token.position, f"{token.shown}(...) is not known", remedy)
            return self._property(token)
        if bare and token.value.lower() == _FUNCTION:
            remedy = "write current_recipient('property')"
            raise refusal(follows.position, f"there is {follows.shown} where ( must be", remedy)
        self._columns.setdefault(token.value.lower(), token.value)
        return FilterColumn(token.value, token.position)

    def _property(self, function: Lexeme) -> Property:
        self._take()
        name = self._take()
        if name.kind != "text" or not name.value:
            remedy = "write the property's name as a text: current_recipient('region')"
            raise refusal(name.position, f"there is {name.shown} where the name of a property must be", remedy)
        self._need(")", "current_recipient takes one name, as in current_recipient('region')")
        self._properties[name.value] = None
        return Property(name.value, function.position)


def _number(token: Lexeme, sign: str, position: int | None = None) -> FilterLiteral:
    text = sign + token.value
    value = Decimal(text) if "." in text else int(text)
    return FilterLiteral("number", value, token.position if position is None else position, sign + token.shown)


def _typed(kind: Kind, word: Lexeme, text: Lexeme) -> FilterLiteral:
    moment = None if kind == "date" else microseconds(text.value)
    value = days(text.value) if kind == "date" else None
    if moment is not None and moment[1] == (kind == "timestamp"):
        value = moment[0]
    if value is None:
        what, remedy = _TYPED[kind]
        raise refusal(text.position, f"{text.shown} is not {what}", remedy)
    return FilterLiteral(kind, value, word.position, f"{word.shown} {text.shown}")


_TYPED: Final[dict[str, tuple[str, str]]] = {
    "date": ("a date", "write it as DATE '2024-12-31'"),
    "timestamp": (
        "a moment",
        (
            "write it with its offset from UTC, as TIMESTAMP '2024-12-31 12:00:00Z' or '... +01:00', "
            "or TIMESTAMP_NTZ for a column without a zone"
        ),
    ),
    "timestamp_ntz": (
        "a time without a zone",
        "write it without an offset, as TIMESTAMP_NTZ '2024-12-31 12:00:00', or TIMESTAMP with one",
    ),
}
"""Of the words that a typed literal begins with: what it is, and how to write it."""


def _comparison(operator: Operator, left: Operand, right: Operand) -> FilterComparison:
    _check_pair(left, right)
    return FilterComparison(operator, left, right)


def _check_pair(left: Operand, right: Operand) -> None:
    """Refuse what is the same for every file, and a property beside what is no text."""
    if isinstance(left, FilterLiteral) and isinstance(right, FilterLiteral):
        raise refusal(right.position, "two literals are compared, which says nothing of a file", _OPERAND)
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Property) and isinstance(other, FilterLiteral) and other.kind != "text":
            remedy = "write the literal in 'quotes'; beside a column a property is read as the column's type"
            raise refusal(other.position, f"a property is a text, and {other.shown} is none", remedy)
