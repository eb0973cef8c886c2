"""Check the SQL of a dataset file with sqlglot, without Spark: queries, conditions and names of views."""

from collections.abc import Iterator
from typing import Any

from deltaic_pipeline.spark.ddl import columns_of
from deltaic_terminal.document import Document, Mistake, Path
from deltaic_terminal.nearest import did_you_mean

from deltaic_datasets.file.dataset_model import MOST_ITEMS, Dataset
from deltaic_datasets.file.named_columns import name_refusal

CUT = frozenset({
    *("=", "==", "<=>", "<>", "!=", "<", "<=", ">", ">=", "+", "-", "/", "%", "|", "||", "&", "^", "~", "(", ",", "."),
    *("!", "::"),
})  # fmt: skip
UNCERTAIN = "is not {}: check it with --dry-run, which asks Spark"


def sql_mistakes(document: Document) -> Iterator[Mistake]:
    """Yield errors for SQL that is not a query, and for unknown views; warnings if sqlglot cannot parse it."""
    content = document.value if isinstance(document.value, dict) else {}
    yield from _check_conditions(document, content)
    sources, steps = content.get("sources"), content.get("steps")
    views = {str(name).lower() for name in sources} if isinstance(sources, dict) else set()
    for number, step in enumerate(steps[:MOST_ITEMS] if isinstance(steps, list) else []):
        if isinstance(step, dict):
            if isinstance(step.get("sql"), str):
                yield from _check_query(document, ("steps", number, "sql"), step["sql"], views)
            views.add(str(step.get("view")).lower())


def _check_conditions(document: Document, content: dict[Any, Any]) -> Iterator[Mistake]:
    expectations, write = content.get("expectations"), content.get("write")
    for number, rule in enumerate(expectations[:MOST_ITEMS] if isinstance(expectations, list) else []):
        if isinstance(rule, dict) and isinstance(rule.get("condition"), str):
            yield from _check_condition(document, ("expectations", number, "condition"), rule["condition"])
    for field in ("where", "delete_when"):
        if isinstance(write, dict) and isinstance(write.get(field), str):
            yield from _check_condition(document, ("write", field), write[field])


def _check_condition(document: Document, path: Path, sql: str) -> Iterator[Mistake]:
    import sqlglot
    from sqlglot import expressions
    from sqlglot.errors import ParseError, TokenError

    position = document.position(path)
    try:
        last = sqlglot.tokenize(sql, read="spark")[-1:]
        sqlglot.parse_one(sql, read="spark", into=expressions.Condition)
    except ParseError:
        cut = not last or last[0].text in CUT
        message = "ends within an expression: complete it" if cut else UNCERTAIN.format("a condition")
        yield Mistake(position.line, position.field, message, doubtful=not cut)
    except (TokenError, RecursionError):
        yield Mistake(position.line, position.field, UNCERTAIN.format("a condition"), doubtful=True)


def condition_columns(sql: str, view: str) -> set[str]:
    """Return the columns of a view that occur in a SQL condition; none if sqlglot cannot parse it."""
    import sqlglot
    from sqlglot import expressions
    from sqlglot.errors import SqlglotError

    try:
        parsed = sqlglot.parse_one(sql, read="spark", into=expressions.Condition)
    except (SqlglotError, RecursionError):
        return set()
    names = ([part.name for part in column.parts] for column in parsed.find_all(expressions.Column))
    return {parts[1] if len(parts) > 1 and parts[0].lower() == view.lower() else parts[0] for parts in names}


def output_name_mistakes(dataset: Dataset) -> Iterator[tuple[Path, str]]:
    """Yield an error for each column of the last step whose name is invalid in a new Delta table.

    Finds nothing if sqlglot cannot parse the step. Resolves `SELECT *` from one view to the view's step or source.
    """
    import sqlglot
    from sqlglot import expressions
    from sqlglot.errors import SqlglotError

    unnamed = expressions.AggFunc | expressions.Window | expressions.Case | expressions.Add | expressions.Sub
    view, names = dataset.last_view.lower(), dict[str, Path]()
    for number, step in reversed([*enumerate(dataset.steps)]):
        if step.view.lower() != view:
            continue
        try:
            query = sqlglot.parse_one(step.sql, dialect="spark")
        except (SqlglotError, RecursionError):
            return
        columns = query.selects if isinstance(query, expressions.Query) else []
        outputs = (item.output_name or (item.sql("spark") if isinstance(item, unnamed) else "") for item in columns)
        names |= dict.fromkeys(outputs, ("steps", number, "sql"))
        tables = list(query.find_all(expressions.Table))
        selects_all = len(tables) == 1 and any(
            type(item) is expressions.Star and not item.args.get("except_") for item in columns
        )
        view = tables[0].name.lower() if selects_all else ""
    for name, source in dataset.sources.items():
        if name.lower() == view and (ddl := getattr(source, "ddl", None)):
            names |= {column.name: ("sources", name, "schema") for column in columns_of(ddl)}
    for name, path in names.items():
        if message := name_refusal(name, dataset.target.properties):
            yield path, message


def _check_query(document: Document, path: Path, sql: str, views: set[str]) -> Iterator[Mistake]:
    import sqlglot
    from sqlglot import expressions
    from sqlglot.errors import ParseError, TokenError

    position = document.position(path)
    try:
        parsed = [query for query in sqlglot.parse(sql, dialect="spark") if query is not None]
    except ParseError as doubt:
        details = doubt.errors[0] if doubt.errors else {}
        near = f" near '{details['highlight']}'" if details.get("highlight") else ""
        line = document.line_of_sql(path, int(details.get("line") or 1))
        yield Mistake(line, position.field, UNCERTAIN.format(f"valid SQL{near}"), doubtful=True)
    except TokenError:
        message = "a quote or comment has no end: close it, or check the query with --dry-run, which asks Spark"
        yield Mistake(position.line, position.field, message, doubtful=True)
    except RecursionError:
        message = "is nested too deep for this check: use --dry-run, which asks Spark"
        yield Mistake(position.line, position.field, message, doubtful=True)
    else:
        if len(parsed) == 1 and isinstance(parsed[0], expressions.Condition | expressions.Alias):  # SELEC id, TABLE t
            yield Mistake(position.line, position.field, UNCERTAIN.format("valid SQL"), doubtful=True)
        elif len(parsed) == 1 and isinstance(parsed[0], expressions.Query):
            for line, message in _unknown_views(parsed[0], views):
                yield Mistake(document.line_of_sql(path, line), position.field, message)
        else:
            yield Mistake(position.line, position.field, "must be one query (SELECT ...), and nothing that writes")


def _unknown_views(query: Any, views: set[str]) -> Iterator[tuple[int, str]]:
    from sqlglot import expressions

    subqueries = {subquery.alias.lower() for subquery in query.find_all(expressions.CTE)}
    for table in query.find_all(expressions.Table):
        is_view_name = isinstance(table.this, expressions.Identifier) and not table.args.get("db")
        is_view_name = is_view_name and not table.find_ancestor(expressions.Hint)  # /*+ BROADCAST(alias) */
        if is_view_name and table.name.lower() not in views | subqueries:
            message = f"'{table.name}' is neither a source nor an earlier step"
            yield int(table.this.meta.get("line", 1)), message + did_you_mean(table.name, views | subqueries)
