"""The SQL of a dataset file, judged without Spark: what is no query or condition, and names that are no view."""

from collections.abc import Iterator
from typing import Any

from deltaic_pipeline.spark.ddl import columns_of
from deltaic_terminal.document import Document, Mistake, Path
from deltaic_terminal.nearest import did_you_mean

from deltaic_datasets.file.dataset_model import MOST, Dataset
from deltaic_datasets.file.named_columns import refused_name

CUT = frozenset({
    *("=", "==", "<=>", "<>", "!=", "<", "<=", ">", ">=", "+", "-", "/", "%", "|", "||", "&", "^", "~", "(", ",", "."),
    *("!", "::"),
})  # fmt: skip


def sql_mistakes(document: Document) -> Iterator[Mistake]:
    """Find what is no query, and names that are no view; sqlglot's doubts are told, for Spark knows more SQL."""
    content = document.value if isinstance(document.value, dict) else {}
    yield from _conditions(document, content)
    sources, steps = content.get("sources"), content.get("steps")
    known = {str(name).lower() for name in sources} if isinstance(sources, dict) else set()
    for number, step in enumerate(steps[:MOST] if isinstance(steps, list) else []):
        if isinstance(step, dict):
            if isinstance(step.get("sql"), str):
                yield from _query(document, ("steps", number, "sql"), step["sql"], known)
            known.add(str(step.get("view")).lower())


def _conditions(document: Document, content: dict[Any, Any]) -> Iterator[Mistake]:
    expectations, write = content.get("expectations"), content.get("write")
    for number, one in enumerate(expectations[:MOST] if isinstance(expectations, list) else []):
        if isinstance(one, dict) and isinstance(one.get("condition"), str):
            yield from _condition(document, ("expectations", number, "condition"), one["condition"])
    for field in ("where", "delete_when"):
        if isinstance(write, dict) and isinstance(write.get(field), str):
            yield from _condition(document, ("write", field), write[field])


def _condition(document: Document, path: Path, sql: str) -> Iterator[Mistake]:
    """Find what is no condition: one that ends within an expression is wrong, other doubts are for Spark."""
    import sqlglot
    from sqlglot import expressions
    from sqlglot.errors import ParseError, TokenError

    place = document.place(path)
    try:
        last = sqlglot.tokenize(sql, read="spark")[-1:]
        sqlglot.parse_one(sql, read="spark", into=expressions.Condition)
    except ParseError:
        cut = not last or last[0].text in CUT
        message = "ends within an expression" if cut else "does not read as a condition; --dry-run asks Spark"
        yield Mistake(place.line, place.field, message, doubtful=not cut)
    except (TokenError, RecursionError):
        yield Mistake(place.line, place.field, "does not read as a condition; --dry-run asks Spark", doubtful=True)


def columns_named(sql: str, view: str) -> set[str]:
    """Return the columns of a view that a condition names, as far as sqlglot reads it."""
    import sqlglot
    from sqlglot import expressions
    from sqlglot.errors import SqlglotError

    try:
        parsed = sqlglot.parse_one(sql, read="spark", into=expressions.Condition)
    except (SqlglotError, RecursionError):
        return set()
    named = ([part.name for part in column.parts] for column in parsed.find_all(expressions.Column))
    return {parts[1] if len(parts) > 1 and parts[0].lower() == view.lower() else parts[0] for parts in named}


def refused_outputs(dataset: Dataset) -> Iterator[tuple[Path, str]]:
    """Find columns that the steps give to a new Delta table and that it refuses by name, as far as sqlglot reads them.

    Follows `SELECT *` from one view to the step or source that it names.
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
        made = (one.output_name or (one.sql("spark") if isinstance(one, unnamed) else "") for one in columns)
        names |= dict.fromkeys(made, ("steps", number, "sql"))
        tables = list(query.find_all(expressions.Table))
        whole = len(tables) == 1 and any(
            type(one) is expressions.Star and not one.args.get("except_") for one in columns
        )
        view = tables[0].name.lower() if whole else ""
    for name, source in dataset.sources.items():
        if name.lower() == view and (ddl := getattr(source, "ddl", None)):
            names |= {column.name: ("sources", name, "schema") for column in columns_of(ddl)}
    for name, path in names.items():
        if message := refused_name(name, dataset.target.properties):
            yield path, message


def _query(document: Document, path: Path, sql: str, views: set[str]) -> Iterator[Mistake]:
    import sqlglot
    from sqlglot import expressions
    from sqlglot.errors import ParseError, TokenError

    place = document.place(path)
    try:
        parsed = [one for one in sqlglot.parse(sql, dialect="spark") if one is not None]
    except ParseError as doubt:
        said = doubt.errors[0] if doubt.errors else {}
        near = f" near '{said['highlight']}'" if said.get("highlight") else ""
        line = document.line_of_sql(path, int(said.get("line") or 1))
        yield Mistake(line, place.field, f"does not read as SQL{near}; --dry-run asks Spark", doubtful=True)
    except TokenError:
        yield Mistake(place.line, place.field, "a quote or comment has no end; --dry-run asks Spark", doubtful=True)
    except RecursionError:
        yield Mistake(
            place.line, place.field, "is nested too deep to be read here; --dry-run asks Spark", doubtful=True
        )
    else:
        if len(parsed) == 1 and isinstance(parsed[0], expressions.Condition | expressions.Alias):  # SELEC id, TABLE t
            yield Mistake(place.line, place.field, "does not read as SQL; --dry-run asks Spark", doubtful=True)
        elif len(parsed) == 1 and isinstance(parsed[0], expressions.Query):
            for line, message in _unknown_views(parsed[0], views):
                yield Mistake(document.line_of_sql(path, line), place.field, message)
        else:
            yield Mistake(place.line, place.field, "is one query (SELECT ...), and nothing that writes")


def _unknown_views(query: Any, views: set[str]) -> Iterator[tuple[int, str]]:
    """Find tables without a schema that nobody gave; yields the line within the SQL and what is wrong."""
    from sqlglot import expressions

    own = {found.alias.lower() for found in query.find_all(expressions.CTE)}
    for table in query.find_all(expressions.Table):
        plain = isinstance(table.this, expressions.Identifier) and not table.args.get("db")
        plain = plain and not table.find_ancestor(expressions.Hint)  # /*+ BROADCAST(alias) */
        if plain and table.name.lower() not in views | own:
            message = f"'{table.name}' is neither a source nor an earlier step"
            yield int(table.this.meta.get("line", 1)), message + did_you_mean(table.name, views | own)
