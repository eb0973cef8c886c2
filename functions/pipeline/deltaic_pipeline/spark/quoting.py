"""Names and texts as Spark's SQL quotes them, and SQL as columns."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column


def quoted(name: str) -> str:
    """Return an identifier in backticks."""
    return "`" + name.replace("`", "``") + "`"


def unquoted(name: str) -> str:
    """Return an identifier that may stand in backticks without them."""
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def literal(text: str) -> str:
    """Return a string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def column(sql: str) -> "Column":
    """Return an expression of SQL as a column."""
    from pyspark.sql import functions

    return functions.expr(sql)
