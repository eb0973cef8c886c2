"""The SQL of a view as it is written: what it reads, which properties it asks for, and whether rows stand alone."""

import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaic.errors import InvalidParameter
from deltaic.partition_filters.audiences import AUDIENCE_COLUMN
from deltaic_terminal.nearest import did_you_mean

if TYPE_CHECKING:
    from sqlglot import expressions as tree
    from sqlglot.tokenizer_core import Token

SOURCE = "source"
"""What the SQL calls the table that the view is made from."""

RECIPIENT = "current_recipient"
RANDOM = frozenset({
    "rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id",
    "spark_partition_id", "input_file_name", "input_file_block_start", "input_file_block_length",
    "reflect", "java_method", "try_reflect",
})  # fmt: skip
"""Functions whose answer is another one each time, or rests on how Spark happens to read."""

PROVIDER = frozenset({"current_user", "session_user", "user"})
CLOCK = frozenset({
    "now", "current_date", "curdate", "current_timestamp", "localtimestamp", "current_time", "current_timezone",
    "unix_timestamp",
})  # fmt: skip
SPECIAL_MOMENT = re.compile(r"\s*(now|today|tomorrow|yesterday)(?![a-z])", re.IGNORECASE)
"""How a text begins that Spark takes for the time of the query where a date or a time is wanted: `'today UTC'`. What
follows may be a zone; a text that only looks like one costs a refresh, and no row."""

ESCAPE = re.compile(r"\\(?:u(?P<hex>[0-9A-Fa-f]{4})|U(?P<long>[0-9A-Fa-f]{8})|(?P<octal>[01][0-7]{2})|(?P<other>.))")

WORDS = PROVIDER | CLOCK | {"current_catalog", "current_database", "current_schema", "grouping__id"}
"""Names that are functions where no column is called so."""

CLOCK_IS_ASKED = "the SQL asks for the time"
FULL_NAME = 3


@dataclass(frozen=True, slots=True)
class Asked:
    """A `current_recipient('...')` in the text."""

    property: str
    of_list: bool


@dataclass(frozen=True, slots=True)
class Read:
    """A shared table in the text."""

    table: str
    alias: str
    """What the rest of the SQL calls it; empty where the SQL names it itself."""


Part = str | Asked | Read


@dataclass(frozen=True, slots=True)
class ViewSql:
    """A SELECT that a view may be made of."""

    properties: frozenset[str]
    tables: tuple[str, ...]
    why_full: str
    """Why changes of the source cannot be followed; empty if each of its rows gives at most one row by itself."""

    one_pass: bool
    """Whether one pass over the source makes the rows of all audiences: columns, a WHERE and joins alone."""

    parts: tuple[Part, ...]

    def asked(self) -> Iterator[Asked]:
        """Yield every place where a property is asked for."""
        return (part for part in self.parts if isinstance(part, Asked))

    def written(self, asked: Callable[[Asked], str], read: Callable[[Read], str]) -> str:
        """Return the text with its properties and tables replaced."""

        def said(part: Part) -> str:
            return part if isinstance(part, str) else asked(part) if isinstance(part, Asked) else read(part)

        return "".join(map(said, self.parts))


def read_sql(text: str, source: str = "") -> ViewSql:
    """Return what a view's SQL says; `source` is the full name of the --from table, which it may use for `source`.

    Needs no Spark. Raises `InvalidParameter` with line, column and remedy for whatever is not one deterministic SELECT
    over shared tables.
    """
    query, tokens = _parsed(text)
    _refuse_functions(text, tokens)
    _refuse_unnamed(text, query, tokens)
    marks: list[tuple[int, int, Asked | Read]] = [*_recipients(text, tokens), *_tables(text, query, source)]
    reads = [what for _, _, what in marks if isinstance(what, Read)]
    if not any(read.table == SOURCE for read in reads):
        raise InvalidParameter("the view's SQL does not read `source`: name the --from table in its FROM.")
    others: dict[str, str] = {}
    for read in reads:
        if read.table != SOURCE:
            others.setdefault(read.table.lower(), read.table)
    why = _why_full(query, tokens, reads)
    return ViewSql(
        frozenset(what.property for _, _, what in marks if isinstance(what, Asked)),
        tuple(others.values()),
        why,
        not why or _only_joins(query),
        tuple(_parts(text, tokens, marks)),
    )


def refuse_unknown_columns(text: str, source: str, columns: Mapping[str, Collection[str]]) -> None:
    """Raise `InvalidParameter` for a column that no table has; `columns` are theirs by `Read.table` in lower case.

    Only what is certain without Spark is told: in one SELECT with its joins, columns that are in no function.
    """
    from sqlglot import expressions as tree

    plain = (
        *(tree.Alias, tree.Paren, tree.Cast, tree.And, tree.Or, tree.Not, tree.Neg, tree.Is, tree.In, tree.Between),
        *(tree.EQ, tree.NEQ, tree.NullSafeEQ, tree.GT, tree.GTE, tree.LT, tree.LTE, tree.Like, tree.Add, tree.Sub),
        *(tree.Mul, tree.Div, tree.Mod, tree.DPipe, tree.Where, tree.Join),
    )
    query, _ = _parsed(text)
    tables = list(query.find_all(tree.Table))
    if not _only_joins(query) or any(table.alias_column_names for table in tables):
        return
    columns_by_table: dict[str, dict[str, str]] = {}
    for table in tables:
        name = ".".join(part.name for part in table.parts).lower()
        there = columns[SOURCE if name == source.lower() else name]
        columns_by_table[table.alias_or_name.lower()] = {column.lower(): column for column in there}
    every = {name: column for own in columns_by_table.values() for name, column in own.items()}
    made = {column.alias.lower() for column in query.expressions if isinstance(column, tree.Alias)}
    for column in query.find_all(tree.Column):
        above: Any = column.parent
        while isinstance(above, plain):
            above = above.parent
        parts = [part.name.lower() for part in column.parts]
        of_table = len(parts) > 1 and parts[0] in columns_by_table and parts[0] not in every
        sure = above is query and (of_table or len(parts) == 1 or parts[0] in every)
        named, having = column.parts[of_table], columns_by_table[parts[0]] if of_table else every
        if sure and not column.is_star and named.name.lower() not in {*having, *made, *WORDS, "_metadata"}:
            owner = column.parts[0].name if of_table else " or ".join(columns_by_table)
            near = did_you_mean(named.name, having.values())
            raise InvalidParameter(f"{_at(text, named.meta['start'])}: '{named.name}' is no column of {owner}{near}")


def _parsed(text: str) -> "tuple[tree.Query, list[Token]]":
    import sqlglot
    from sqlglot import expressions as tree
    from sqlglot.errors import ParseError, TokenError

    try:
        tokens = list(sqlglot.tokenize(text, dialect="spark"))
        parsed = [one for one in sqlglot.parse(text, dialect="spark") if one is not None]
    except ParseError as failure:
        said = failure.errors[0] if failure.errors else {}
        near = f" near '{said['highlight']}'" if said.get("highlight") else ""
        where = f"line {said.get('line', 1)}, column {said.get('col', 1)}"
        raise InvalidParameter(
            f"the view's SQL cannot be read{near} ({where}): look for a misspelt word before it; if there is none, "
            "write it in plainer Spark SQL, such as variant_get(v, '$.a') for v:a."
        ) from None
    except TokenError:
        raise InvalidParameter("a quote or a comment in the view's SQL has no end.") from None
    statements = [one for one in parsed if not isinstance(one, tree.Semicolon)]
    if len(statements) != 1 or not isinstance(statements[0], tree.Query):
        raise InvalidParameter("a view's SQL is one SELECT (it may have WITH), and nothing that writes.")
    query = statements[0]
    if query.find(tree.Into, tree.Insert, tree.Update, tree.Delete, tree.Merge, tree.Command, tree.QueryTransform):
        raise InvalidParameter("a view's SQL neither writes (INTO) nor runs programs (TRANSFORM ... USING).")
    return query, tokens


def _refuse_functions(text: str, tokens: "Sequence[Token]") -> None:
    for number, token in enumerate(tokens):
        name, called = token.text.lower(), _follows(tokens, number, "(")
        if name.startswith("_deltaic_") and not _is_text(token):
            raise InvalidParameter(
                f"{_at(text, token.start)}: names that begin with _deltaic_, as {AUDIENCE_COLUMN}, are Deltaic's own: "
                "choose another."
            )
        if called and name in RANDOM:
            raise InvalidParameter(
                f"{_at(text, token.start)}: {name}() gives another answer each time, so that every refresh would "
                "change rows: use a column, or a function of columns such as xxhash64."
            )
        if name in PROVIDER and called:
            raise InvalidParameter(
                f"{_at(text, token.start)}: {name}() is who runs the refresh, not who reads: "
                f"ask for a property with {RECIPIENT}('...')."
            )


def _refuse_unnamed(text: str, query: "tree.Query", tokens: "Sequence[Token]") -> None:
    """Refuse a column whose name would be the property's value."""
    from sqlglot import expressions as tree

    for select in query.find_all(tree.Select):
        for column in select.expressions:
            unnamed = not isinstance(column, tree.Alias) and not column.output_name
            calls = (call for call in column.find_all(tree.Anonymous) if str(call.this).lower() == RECIPIENT)
            if unnamed and next(calls, None) is not None:
                first = next(token for token in tokens if token.text.lower() == RECIPIENT)
                raise InvalidParameter(
                    f"{_at(text, first.start)}: a column made with {RECIPIENT} needs a name: add AS name."
                )


def _recipients(text: str, tokens: "Sequence[Token]") -> Iterator[tuple[int, int, Asked]]:
    from sqlglot.tokenizer_core import TokenType

    for number, token in enumerate(tokens):
        if token.text.lower() != RECIPIENT or _is_text(token):
            continue
        following = tokens[number + 1 : number + 4]
        shapes = [one.token_type for one in following]
        if shapes != [TokenType.L_PAREN, TokenType.STRING, TokenType.R_PAREN] or not following[1].text:
            raise InvalidParameter(
                f"{_at(text, token.start)}: {RECIPIENT} takes the name of one property as a text: "
                f"{RECIPIENT}('region')."
            )
        before = [one.token_type for one in tokens[max(0, number - 2) : number]]
        in_parentheses = before == [TokenType.IN, TokenType.L_PAREN] and _follows(tokens, number + 3, ")")
        bare = before[-1:] == [TokenType.IN]
        yield token.start, following[2].end + 1, Asked(following[1].text, bare or in_parentheses)


def _tables(text: str, query: "tree.Query", source: str) -> Iterator[tuple[int, int, Read]]:
    from sqlglot import expressions as tree

    own = {found.alias.lower() for found in query.find_all(tree.CTE)}
    if SOURCE in own:
        raise InvalidParameter("a WITH of the view's SQL is called source, which the --from table is: rename it.")
    for table in query.find_all(tree.Table):
        if table.find_ancestor(tree.Hint):  # /*+ BROADCAST(alias) */
            continue
        parts = [part for part in table.parts if isinstance(part, tree.Identifier)]
        if len(parts) != len(table.parts) or not parts:
            begin = next((part.meta["start"] for part in table.find_all(tree.Expression) if "start" in part.meta), 0)
            raise InvalidParameter(
                f"{_at(text, begin)}: a view reads shared tables, and no table functions or files: share the table "
                "and name it share.schema.table."
            )
        begin, end = parts[0].meta["start"], parts[-1].meta["end"] + 1
        name, where = ".".join(part.name for part in parts), _at(text, begin)
        if table.args.get("version") or table.args.get("when"):
            raise InvalidParameter(f"{where}: a view follows the latest version of {name}: leave VERSION AS OF out.")
        if table.args.get("sample"):
            raise InvalidParameter(f"{where}: TABLESAMPLE gives other rows each time: leave it out.")
        if len(parts) == 1 and name.lower() in own:
            continue
        alias = "" if table.alias else parts[-1].name
        if name.lower() in {SOURCE, source.lower()}:
            yield begin, end, Read(SOURCE, alias)
        elif len(parts) == FULL_NAME:
            yield begin, end, Read(name, alias)
        else:
            raise InvalidParameter(
                f"{where}: '{name}' is no shared table: the --from table is called source, and others by their full "
                "name share.schema.table, where a share with a period stands in backticks (`a.b`.schema.table)."
            )


def _why_full(query: "tree.Query", tokens: "Sequence[Token]", reads: Sequence[Read]) -> str:
    from sqlglot import expressions as tree

    if any(token.text.lower() in CLOCK and not _is_text(token) for token in tokens) or any(
        SPECIAL_MOMENT.match(ESCAPE.sub(_escaped, token.text)) for token in tokens if _is_text(token)
    ):
        return CLOCK_IS_ASKED
    if not isinstance(query, tree.Select):
        return "the SQL combines several SELECTs"
    if query.args.get("joins") or len(reads) > 1:
        return "the SQL reads several tables"
    for arguments, why in (
        (("group", "having", "distinct"), "the SQL aggregates"),
        (("limit", "offset", "order", "sort", "cluster", "distribute"), "the SQL orders or limits its rows"),
        (("with_", "laterals", "pivots", "qualify", "windows"), "the SQL is more than columns and a WHERE"),
    ):
        if any(query.args.get(argument) for argument in arguments):
            return why
    if query.find(tree.AggFunc):
        return "the SQL aggregates"
    if query.find(tree.Window):
        return "the SQL has window functions"
    if query.find(tree.Subquery, tree.Exists) or len(list(query.find_all(tree.Query))) > 1:
        return "the SQL has a query within"
    if query.find(tree.UDTF, tree.Explode) or any(table.args.get("pivots") for table in query.find_all(tree.Table)):
        return "the SQL makes several rows of one"
    left = {name for name, value in query.args.items() if value} - {"expressions", "from_", "where", "kind"}
    return "the SQL is more than columns and a WHERE" if left else ""


def _only_joins(query: "tree.Query") -> bool:
    from sqlglot import expressions as tree

    if not isinstance(query, tree.Select) or query.find(tree.AggFunc, tree.Window, tree.Subquery, tree.Exists):
        return False
    if query.find(tree.UDTF, tree.Explode) or len(list(query.find_all(tree.Query))) > 1:
        return False
    joins = query.args.get("joins") or ()
    if any(join.side not in {"", "LEFT"} or join.kind not in {"", "INNER", "CROSS"} for join in joins):
        return False
    return {name for name, value in query.args.items() if value} <= {"expressions", "from_", "joins", "where"}


def _parts(text: str, tokens: "Sequence[Token]", found: Sequence[tuple[int, int, Asked | Read]]) -> Iterator[Part]:
    from sqlglot.tokenizer_core import TokenType

    statement = [token for token in tokens if token.token_type != TokenType.SEMICOLON]
    done, end = 0, statement[-1].end + 1
    for begin, after, what in sorted(found, key=lambda one: one[0]):
        yield text[done:begin]
        bare = isinstance(what, Asked) and what.of_list and text[done:begin].rstrip()[-1:] != "("
        yield from ("(", what, ")") if bare else (what,)
        done = after
    yield text[done:end]


def _follows(tokens: "Sequence[Token]", number: int, text: str) -> bool:
    return number + 1 < len(tokens) and tokens[number + 1].text == text


def _escaped(found: "re.Match[str]") -> str:
    code = found["hex"] or found["long"]
    number = int(code, 16) if code else int(found["octal"] or "0", 8)
    return chr(number) if 0 < number <= sys.maxunicode else found["other"] or ""


def _is_text(token: "Token") -> bool:
    from sqlglot.tokenizer_core import TokenType

    return token.token_type in {TokenType.STRING, TokenType.RAW_STRING}


def _at(text: str, offset: int) -> str:
    line, column = text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
    return f"line {line}, column {column} of the view's SQL"
