"""Parse a view's SQL: the tables that it reads, the properties that it uses, and how it can be refreshed."""

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
"""Name by which a view's SQL reads the table of the option --from."""

RECIPIENT = "current_recipient"
RANDOM = frozenset({
    "rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id",
    "spark_partition_id", "input_file_name", "input_file_block_start", "input_file_block_length",
    "reflect", "java_method", "try_reflect",
})  # fmt: skip
"""SQL functions that views cannot use: their value differs at each call, or depends on how Spark reads files."""

PROVIDER = frozenset({"current_user", "session_user", "user"})
CLOCK = frozenset({
    "now", "current_date", "curdate", "current_timestamp", "localtimestamp", "current_time", "current_timezone",
    "unix_timestamp",
})  # fmt: skip
SPECIAL_TIME = re.compile(r"\s*(now|today|tomorrow|yesterday)(?![a-z])", re.IGNORECASE)
"""Start of a string that Spark converts to a time at the query, such as `'today UTC'`. Other strings that match cause
only a full refresh."""

ESCAPE = re.compile(r"\\(?:u(?P<hex>[0-9A-Fa-f]{4})|U(?P<long>[0-9A-Fa-f]{8})|(?P<octal>[01][0-7]{2})|(?P<other>.))")

WORDS = PROVIDER | CLOCK | {"current_catalog", "current_database", "current_schema", "grouping__id"}
"""Names that Spark treats as functions, without parentheses, if there is no column with this name."""

SQL_READS_CLOCK = "the SQL depends on the current time"
FULL_NAME = 3


@dataclass(frozen=True, slots=True)
class RequestedProperty:
    """Recipient property that the SQL uses in `current_recipient('...')`."""

    property: str
    of_list: bool


@dataclass(frozen=True, slots=True)
class TableRef:
    """Reference to a shared table in a view's SQL."""

    table: str
    alias: str
    """Implicit alias of the table (its last name); empty if the SQL has an explicit alias."""


Part = str | RequestedProperty | TableRef


@dataclass(frozen=True, slots=True)
class ViewSql:
    """View's SQL after parsing: one SELECT, split at its properties and tables."""

    properties: frozenset[str]
    tables: tuple[str, ...]
    why_full: str
    """Reason why a refresh cannot be incremental; empty if each source row results in at most one row."""

    one_pass: bool
    """Whether one pass over the source can compute the rows of all audiences: columns, a WHERE and joins only."""

    parts: tuple[Part, ...]

    def requested_properties(self) -> Iterator[RequestedProperty]:
        """Yield each use of a recipient property in the SQL."""
        return (part for part in self.parts if isinstance(part, RequestedProperty))

    def render(self, property_sql: Callable[[RequestedProperty], str], table_sql: Callable[[TableRef], str]) -> str:
        """Return the SQL with recipient properties and tables replaced by the results of these functions."""

        def render_part(part: Part) -> str:
            if isinstance(part, str):
                return part
            return property_sql(part) if isinstance(part, RequestedProperty) else table_sql(part)

        return "".join(map(render_part, self.parts))


def read_sql(text: str, source: str = "") -> ViewSql:
    """Parse a view's SQL; `source` is the full name of the --from table, which the SQL can use too.

    Needs no Spark. Raises `InvalidParameter`, with line and column, for SQL that is not one deterministic SELECT over
    shared tables.
    """
    query, tokens = _parse(text)
    _refuse_functions(text, tokens)
    _refuse_unnamed(text, query, tokens)
    marks: list[tuple[int, int, RequestedProperty | TableRef]] = [
        *_find_properties(text, tokens),
        *_find_tables(text, query, source),
    ]
    references = [part for _, _, part in marks if isinstance(part, TableRef)]
    if not any(reference.table == SOURCE for reference in references):
        raise InvalidParameter("the view's SQL does not read `source`. Name the --from table in its FROM clause.")
    others: dict[str, str] = {}
    for reference in references:
        if reference.table != SOURCE:
            others.setdefault(reference.table.lower(), reference.table)
    reason = _why_full(query, tokens, references)
    return ViewSql(
        frozenset(part.property for _, _, part in marks if isinstance(part, RequestedProperty)),
        tuple(others.values()),
        reason,
        not reason or _only_joins(query),
        tuple(_parts(text, tokens, marks)),
    )


def refuse_unknown_columns(text: str, source: str, columns: Mapping[str, Collection[str]]) -> None:
    """Raise `InvalidParameter` for an unknown column; `columns` are the columns of each table, in lower case.

    Reports only errors that can be proven without Spark: in a single SELECT with joins, columns outside of functions.
    """
    from sqlglot import expressions as tree

    plain_nodes = (
        *(tree.Alias, tree.Paren, tree.Cast, tree.And, tree.Or, tree.Not, tree.Neg, tree.Is, tree.In, tree.Between),
        *(tree.EQ, tree.NEQ, tree.NullSafeEQ, tree.GT, tree.GTE, tree.LT, tree.LTE, tree.Like, tree.Add, tree.Sub),
        *(tree.Mul, tree.Div, tree.Mod, tree.DPipe, tree.Where, tree.Join),
    )
    query, _ = _parse(text)
    tables = list(query.find_all(tree.Table))
    if not _only_joins(query) or any(table.alias_column_names for table in tables):
        return
    columns_by_table: dict[str, dict[str, str]] = {}
    for table in tables:
        name = ".".join(part.name for part in table.parts).lower()
        table_columns = columns[SOURCE if name == source.lower() else name]
        columns_by_table[table.alias_or_name.lower()] = {column.lower(): column for column in table_columns}
    every = {name: column for names in columns_by_table.values() for name, column in names.items()}
    aliases = {column.alias.lower() for column in query.expressions if isinstance(column, tree.Alias)}
    for column in query.find_all(tree.Column):
        parent: Any = column.parent
        while isinstance(parent, plain_nodes):
            parent = parent.parent
        parts = [part.name.lower() for part in column.parts]
        qualified = len(parts) > 1 and parts[0] in columns_by_table and parts[0] not in every
        certain = parent is query and (qualified or len(parts) == 1 or parts[0] in every)
        part, existing = column.parts[qualified], columns_by_table[parts[0]] if qualified else every
        if certain and not column.is_star and part.name.lower() not in {*existing, *aliases, *WORDS, "_metadata"}:
            owner = column.parts[0].name if qualified else " or ".join(columns_by_table)
            near = did_you_mean(part.name, existing.values())
            raise InvalidParameter(f"{_at(text, part.meta['start'])}: '{part.name}' is not a column of {owner}{near}")


def _parse(text: str) -> "tuple[tree.Query, list[Token]]":
    import sqlglot
    from sqlglot import expressions as tree
    from sqlglot.errors import ParseError, TokenError

    try:
        tokens = list(sqlglot.tokenize(text, dialect="spark"))
        parsed = [statement for statement in sqlglot.parse(text, dialect="spark") if statement is not None]
    except ParseError as failure:
        error = failure.errors[0] if failure.errors else {}
        near = f" near '{error['highlight']}'" if error.get("highlight") else ""
        place = f"line {error.get('line', 1)}, column {error.get('col', 1)}"
        raise InvalidParameter(
            f"the view's SQL cannot be parsed{near} ({place}). Look for a misspelled word before it; if there is none, "
            "write it in simpler Spark SQL, such as variant_get(v, '$.a') for v:a."
        ) from None
    except TokenError:
        raise InvalidParameter("a quote or a comment in the view's SQL is not closed.") from None
    statements = [statement for statement in parsed if not isinstance(statement, tree.Semicolon)]
    if len(statements) != 1 or not isinstance(statements[0], tree.Query):
        raise InvalidParameter("a view's SQL must be one SELECT (with WITH, if needed), and nothing that writes.")
    query = statements[0]
    if query.find(tree.Into, tree.Insert, tree.Update, tree.Delete, tree.Merge, tree.Command, tree.QueryTransform):
        raise InvalidParameter("a view's SQL cannot write (INTO) or run programs (TRANSFORM ... USING).")
    return query, tokens


def _refuse_functions(text: str, tokens: "Sequence[Token]") -> None:
    for number, token in enumerate(tokens):
        name, called = token.text.lower(), _follows(tokens, number, "(")
        if name.startswith("_deltaic_") and not _is_text(token):
            raise InvalidParameter(
                f"{_at(text, token.start)}: names that begin with _deltaic_, such as {AUDIENCE_COLUMN}, are reserved. "
                "Choose another name."
            )
        if called and name in RANDOM:
            raise InvalidParameter(
                f"{_at(text, token.start)}: {name}() returns another value at each call, so every refresh would "
                "change rows. Use a column, or a function of columns such as xxhash64."
            )
        if name in PROVIDER and called:
            raise InvalidParameter(
                f"{_at(text, token.start)}: {name}() is the user who runs the refresh, not the recipient. "
                f"Use a recipient's property: {RECIPIENT}('...')."
            )


def _refuse_unnamed(text: str, query: "tree.Query", tokens: "Sequence[Token]") -> None:
    """Raise InvalidParameter for a computed column without AS: its name would contain a recipient's property."""
    from sqlglot import expressions as tree

    for select in query.find_all(tree.Select):
        for column in select.expressions:
            unnamed = not isinstance(column, tree.Alias) and not column.output_name
            calls = (call for call in column.find_all(tree.Anonymous) if str(call.this).lower() == RECIPIENT)
            if unnamed and next(calls, None) is not None:
                first = next(token for token in tokens if token.text.lower() == RECIPIENT)
                raise InvalidParameter(
                    f"{_at(text, first.start)}: a column computed with {RECIPIENT} needs a name: add AS name."
                )


def _find_properties(text: str, tokens: "Sequence[Token]") -> Iterator[tuple[int, int, RequestedProperty]]:
    from sqlglot.tokenizer_core import TokenType

    for number, token in enumerate(tokens):
        if token.text.lower() != RECIPIENT or _is_text(token):
            continue
        following = tokens[number + 1 : number + 4]
        shapes = [next_token.token_type for next_token in following]
        if shapes != [TokenType.L_PAREN, TokenType.STRING, TokenType.R_PAREN] or not following[1].text:
            raise InvalidParameter(
                f"{_at(text, token.start)}: {RECIPIENT} needs the name of one property as a string: "
                f"{RECIPIENT}('region')."
            )
        before = [previous.token_type for previous in tokens[max(0, number - 2) : number]]
        in_parentheses = before == [TokenType.IN, TokenType.L_PAREN] and _follows(tokens, number + 3, ")")
        bare = before[-1:] == [TokenType.IN]
        yield token.start, following[2].end + 1, RequestedProperty(following[1].text, bare or in_parentheses)


def _find_tables(text: str, query: "tree.Query", source: str) -> Iterator[tuple[int, int, TableRef]]:
    from sqlglot import expressions as tree

    common = {table.alias.lower() for table in query.find_all(tree.CTE)}
    if SOURCE in common:
        raise InvalidParameter("a WITH table of the view's SQL has the name source of the --from table. Rename it.")
    for table in query.find_all(tree.Table):
        if table.find_ancestor(tree.Hint):  # /*+ BROADCAST(alias) */
            continue
        parts = [part for part in table.parts if isinstance(part, tree.Identifier)]
        if len(parts) != len(table.parts) or not parts:
            begin = next((part.meta["start"] for part in table.find_all(tree.Expression) if "start" in part.meta), 0)
            raise InvalidParameter(
                f"{_at(text, begin)}: a view can read shared tables only, no table functions or files. Share the table "
                "and use its name share.schema.table."
            )
        begin, end = parts[0].meta["start"], parts[-1].meta["end"] + 1
        name, position = ".".join(part.name for part in parts), _at(text, begin)
        if table.args.get("version") or table.args.get("when"):
            raise InvalidParameter(f"{position}: a view follows the latest version of {name}. Remove VERSION AS OF.")
        if table.args.get("sample"):
            raise InvalidParameter(f"{position}: TABLESAMPLE returns different rows at each refresh. Remove it.")
        if len(parts) == 1 and name.lower() in common:
            continue
        alias = "" if table.alias else parts[-1].name
        if name.lower() in {SOURCE, source.lower()}:
            yield begin, end, TableRef(SOURCE, alias)
        elif len(parts) == FULL_NAME:
            yield begin, end, TableRef(name, alias)
        else:
            raise InvalidParameter(
                f"{position}: '{name}' is not a shared table. Use source for the --from table, and full names "
                "share.schema.table for others; quote a share with a period in backticks (`a.b`.schema.table)."
            )


def _why_full(query: "tree.Query", tokens: "Sequence[Token]", references: Sequence[TableRef]) -> str:
    from sqlglot import expressions as tree

    if any(token.text.lower() in CLOCK and not _is_text(token) for token in tokens) or any(
        SPECIAL_TIME.match(ESCAPE.sub(_unescape, token.text)) for token in tokens if _is_text(token)
    ):
        return SQL_READS_CLOCK
    if not isinstance(query, tree.Select):
        return "the SQL combines several SELECTs"
    if query.args.get("joins") or len(references) > 1:
        return "the SQL reads several tables"
    for arguments, reason in (
        (("group", "having", "distinct"), "the SQL aggregates"),
        (("limit", "offset", "order", "sort", "cluster", "distribute"), "the SQL orders or limits its rows"),
        (("with_", "laterals", "pivots", "qualify", "windows"), "the SQL is more than columns and a WHERE"),
    ):
        if any(query.args.get(argument) for argument in arguments):
            return reason
    if query.find(tree.AggFunc):
        return "the SQL aggregates"
    if query.find(tree.Window):
        return "the SQL has window functions"
    if query.find(tree.Subquery, tree.Exists) or len(list(query.find_all(tree.Query))) > 1:
        return "the SQL has a subquery"
    if query.find(tree.UDTF, tree.Explode) or any(table.args.get("pivots") for table in query.find_all(tree.Table)):
        return "the SQL can return several rows for one"
    clauses = {name for name, value in query.args.items() if value} - {"expressions", "from_", "where", "kind"}
    return "the SQL is more than columns and a WHERE" if clauses else ""


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


def _parts(
    text: str, tokens: "Sequence[Token]", marks: Sequence[tuple[int, int, RequestedProperty | TableRef]]
) -> Iterator[Part]:
    from sqlglot.tokenizer_core import TokenType

    statement = [token for token in tokens if token.token_type != TokenType.SEMICOLON]
    position, end = 0, statement[-1].end + 1
    for begin, part_end, part in sorted(marks, key=lambda mark: mark[0]):
        yield text[position:begin]
        bare = isinstance(part, RequestedProperty) and part.of_list and text[position:begin].rstrip()[-1:] != "("
        yield from ("(", part, ")") if bare else (part,)
        position = part_end
    yield text[position:end]


def _follows(tokens: "Sequence[Token]", number: int, text: str) -> bool:
    return number + 1 < len(tokens) and tokens[number + 1].text == text


def _unescape(match: "re.Match[str]") -> str:
    code = match["hex"] or match["long"]
    number = int(code, 16) if code else int(match["octal"] or "0", 8)
    return chr(number) if 0 < number <= sys.maxunicode else match["other"] or ""


def _is_text(token: "Token") -> bool:
    from sqlglot.tokenizer_core import TokenType

    return token.token_type in {TokenType.STRING, TokenType.RAW_STRING}


def _at(text: str, offset: int) -> str:
    line, column = text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
    return f"line {line}, column {column} of the view's SQL"
