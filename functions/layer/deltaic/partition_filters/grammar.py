"""Parse the tokens of a partition filter, which is written in a small subset of SQL.

condition   = and { OR and }                 and = not { AND not }              not = NOT not | ( condition ) | test
test        = operand ( = | <> | != | < | <= | > | >= ) operand
            | operand [NOT] BETWEEN operand AND operand
            | operand [NOT] IN ( item { , item } )        | operand [NOT] IN current_recipient('p')
            | column IS [NOT] NULL                        | operand [NOT] LIKE 'prefix%'
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
from deltaic.partition_filters.lexer import Lexeme, filter_error, tokens
from deltaic.pruning.values import days, microseconds

MAX_DEPTH: Final = 50
"""Maximum number of nested parentheses and NOTs."""
MAX_OPERANDS: Final = 500
"""Maximum number of columns, literals and properties in a filter."""

_FUNCTION: Final = "current_recipient"
_OPERATORS: Final[dict[str, Operator]] = {**{operator: operator for operator in get_args(Operator)}, "!=": "<>"}
_OPERAND: Final = "use a partition column, a literal or current_recipient('property')"
_TESTS: Final = "with =, <>, <, <=, >, >=, IN, BETWEEN, LIKE or IS NULL"


def parse(text: str) -> PartitionFilter:
    """Parse a partition filter; raises InvalidParameter with the position, the problem and a remedy."""
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens(text)
        self._index = 0
        self._depth = 0
        self._operands = 0
        self._columns: dict[str, str] = {}
        self._properties: dict[str, None] = {}

    def parse(self) -> PartitionFilter:
        condition = self._condition()
        if self._next.kind != "end":
            remedy = "combine conditions with AND or OR, and check the parentheses"
            raise filter_error(self._next.position, f"unexpected {self._next.text}", remedy)
        return PartitionFilter(self._text, tuple(self._columns.values()), tuple(self._properties), condition)

    @property
    def _next(self) -> Lexeme:
        return self._tokens[self._index]

    def _take(self) -> Lexeme:
        token = self._next
        self._index += token.kind != "end"
        return token

    def _has(self, *values: str) -> bool:
        """Consume the next token if it is one of these keywords or symbols, and return whether it was."""
        matches = self._next.kind in {"keyword", "symbol"} and self._next.value in values
        self._index += matches
        return matches

    def _expect(self, value: str, remedy: str) -> None:
        if not self._has(value):
            raise filter_error(self._next.position, f"expected {value} instead of {self._next.text}", remedy)

    def _condition(self) -> Condition:
        conditions = [self._and()]
        while self._has("OR"):
            conditions.append(self._and())
        return conditions[0] if len(conditions) == 1 else FilterOr(tuple(conditions))

    def _and(self) -> Condition:
        conditions = [self._not()]
        while self._has("AND"):
            conditions.append(self._not())
        return conditions[0] if len(conditions) == 1 else FilterAnd(tuple(conditions))

    def _not(self) -> Condition:
        start = self._next.position
        if not (negated := self._has("NOT")) and not self._has("("):
            return self._test()
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise filter_error(start, f"more than {MAX_DEPTH} nested parentheses and NOTs", "simplify the filter")
        inner = self._not() if negated else self._condition()
        if not negated:
            self._expect(")", "close the parenthesis, or combine conditions with AND or OR")
        self._depth -= 1
        return FilterNot(inner) if negated else inner

    def _test(self) -> Condition:
        operand = self._operand()
        token = self._next
        if token.kind == "symbol" and token.value in _OPERATORS:
            self._take()
            return _comparison(_OPERATORS[token.value], operand, self._operand())
        if self._has("IS"):
            return self._is_null(operand)
        negated = self._has("NOT")
        if self._has("BETWEEN"):
            low = self._operand()
            self._expect("AND", "write BETWEEN minimum AND maximum")
            high = self._operand()
            condition: Condition = FilterAnd((_comparison(">=", operand, low), _comparison("<=", operand, high)))
        elif self._has("IN"):
            condition = self._in(operand)
        elif self._has("LIKE"):
            condition = self._like(operand)
        else:
            remedy = f"compare {_TESTS}"
            if isinstance(operand, FilterColumn):
                remedy = f"compare {operand.name} {_TESTS}; compare a boolean column with TRUE or FALSE"
            raise filter_error(self._next.position, f"expected a comparison instead of {self._next.text}", remedy)
        return FilterNot(condition) if negated else condition

    def _is_null(self, operand: Operand) -> Condition:
        negated = self._has("NOT")
        if self._next.value != "NULL" or self._next.kind != "keyword":
            remedy = "use IS NULL, IS NOT NULL or a comparison"
            raise filter_error(self._next.position, f"expected NULL instead of {self._next.text}", remedy)
        self._take()
        if isinstance(operand, Property):
            remedy = "remove the condition: a recipient without the property sees no rows"
            raise filter_error(operand.position, "IS NULL requires a column", remedy)
        if isinstance(operand, FilterLiteral):
            raise filter_error(operand.position, "IS NULL requires a column", "use the name of a column")
        return FilterNot(FilterIsNull(operand)) if negated else FilterIsNull(operand)

    def _in(self, operand: Operand) -> Condition:
        items: list[Item] = []
        if self._next.kind == "name" and self._next.value.lower() == _FUNCTION:
            items.append(self._item())
        else:
            self._expect("(", "write IN ('a', 'b') or IN current_recipient('property')")
            items.append(self._item())
            while self._has(","):
                items.append(self._item())
            self._expect(")", "separate items with commas, and close the parenthesis")
        for item in items:
            _check_pair(operand, item)
        return FilterIn(operand, tuple(items))

    def _item(self) -> Item:
        operand = self._operand()
        if isinstance(operand, FilterColumn):
            remedy = "for columns, combine comparisons with OR"
            raise filter_error(operand.position, "a list after IN can contain only literals and properties", remedy)
        return operand

    def _like(self, operand: Operand) -> Condition:
        token = self._take()
        remedy = "use a prefix that ends with %, as in LIKE 'north%', or compare with = or IN"
        if token.kind != "text":
            raise filter_error(token.position, f"expected a pattern instead of {token.text}", remedy)
        prefix, percent = token.value[:-1], token.value[-1:]
        if percent != "%" or any(character in prefix for character in "%_\\"):
            raise filter_error(token.position, f"the pattern {token.text} is not supported", remedy)
        self._count(token)
        if isinstance(operand, FilterLiteral):
            raise filter_error(
                operand.position, "a comparison of two literals has the same result for every file", _OPERAND
            )
        return FilterStartsWith(operand, prefix)

    def _count(self, token: Lexeme) -> None:
        self._operands += 1
        if self._operands > MAX_OPERANDS:
            remedy = "move long lists to a property of the recipients and use IN current_recipient('property')"
            raise filter_error(token.position, f"more than {MAX_OPERANDS} columns and literals", remedy)

    def _operand(self) -> Operand:
        token = self._take()
        self._count(token)
        if token.kind == "name":
            return self._name_operand(token)
        if token.kind == "text":
            return FilterLiteral("text", token.value, token.position, token.text)
        if token.kind == "number":
            return _number(token, "")
        if token.kind == "symbol" and token.value in {"-", "+"} and self._next.kind == "number":
            return _number(self._take(), token.value, token.position)
        if token.kind == "keyword" and token.value in {"TRUE", "FALSE"}:
            return FilterLiteral("boolean", int(token.value == "TRUE"), token.position, token.value)
        if token.kind == "keyword" and token.value == "NULL":
            raise filter_error(token.position, "a comparison with NULL is never true", "use IS NULL or IS NOT NULL")
        remedy = _OPERAND
        if token.kind == "keyword":
            remedy += f"; write a column named {token.text} in `backticks`"
        raise filter_error(token.position, f"expected an operand instead of {token.text}", remedy)

    def _name_operand(self, token: Lexeme) -> Operand:
        unquoted = not self._text.startswith("`", token.position)
        following = self._next
        if unquoted and following.kind == "text" and token.value.lower() in _TYPED:
            self._take()
            return _typed(cast("Kind", token.value.lower()), token, following)
        if unquoted and following.kind == "symbol" and following.value == "(":
            if token.value.lower() != _FUNCTION:
                remedy = "the only function is current_recipient('property'): compare columns directly"
                raise filter_error(token.position, f"{token.text}(...) is not supported", remedy)
            return self._property(token)
        if unquoted and token.value.lower() == _FUNCTION:
            remedy = "write current_recipient('property')"
            raise filter_error(following.position, f"expected ( instead of {following.text}", remedy)
        self._columns.setdefault(token.value.lower(), token.value)
        return FilterColumn(token.value, token.position)

    def _property(self, function: Lexeme) -> Property:
        self._take()
        name = self._take()
        if name.kind != "text" or not name.value:
            remedy = "write the name in quotes, as in current_recipient('region')"
            raise filter_error(name.position, f"expected the name of a property instead of {name.text}", remedy)
        self._expect(")", "current_recipient has one parameter, as in current_recipient('region')")
        self._properties[name.value] = None
        return Property(name.value, function.position)


def _number(token: Lexeme, sign: str, position: int | None = None) -> FilterLiteral:
    text = sign + token.value
    value = Decimal(text) if "." in text else int(text)
    return FilterLiteral("number", value, token.position if position is None else position, sign + token.text)


def _typed(kind: Kind, keyword: Lexeme, text: Lexeme) -> FilterLiteral:
    instant = None if kind == "date" else microseconds(text.value)
    value = days(text.value) if kind == "date" else None
    if instant is not None and instant[1] == (kind == "timestamp"):
        value = instant[0]
    if value is None:
        name, remedy = _TYPED[kind]
        raise filter_error(text.position, f"{text.text} is not a valid {name}", remedy)
    return FilterLiteral(kind, value, keyword.position, f"{keyword.text} {text.text}")


_TYPED: Final[dict[str, tuple[str, str]]] = {
    "date": ("date", "write DATE '2024-12-31'"),
    "timestamp": (
        "timestamp with time zone",
        (
            "add the offset from UTC, as in TIMESTAMP '2024-12-31 12:00:00Z' or '... +01:00', "
            "or use TIMESTAMP_NTZ for a column without time zone"
        ),
    ),
    "timestamp_ntz": (
        "timestamp without time zone",
        "remove the offset, as in TIMESTAMP_NTZ '2024-12-31 12:00:00', or use TIMESTAMP",
    ),
}
"""Keywords of typed literals: the name of the type, and how to write a literal."""


def _comparison(operator: Operator, left: Operand, right: Operand) -> FilterComparison:
    _check_pair(left, right)
    return FilterComparison(operator, left, right)


def _check_pair(left: Operand, right: Operand) -> None:
    """Reject comparisons of two literals, and of a property with a literal that is not a string."""
    if isinstance(left, FilterLiteral) and isinstance(right, FilterLiteral):
        raise filter_error(right.position, "a comparison of two literals has the same result for every file", _OPERAND)
    for first, second in ((left, right), (right, left)):
        if isinstance(first, Property) and isinstance(second, FilterLiteral) and second.kind != "text":
            remedy = "write the literal in 'quotes', or compare the property with a column to convert its type"
            raise filter_error(second.position, f"a property is a string, and {second.text} is not", remedy)
