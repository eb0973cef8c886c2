"""Quote identifiers and strings for Spark SQL, and convert SQL expressions to columns."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column


def quoted(name: str) -> str:
    """Return an identifier in backticks for Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def unquoted(name: str) -> str:
    """Return an identifier without its backticks, if it has any."""
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def literal(text: str) -> str:
    """Return a SQL string literal for a text."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def column(sql: str) -> "Column":
    """Return a SQL expression as a Spark column."""
    from pyspark.sql import functions

    return functions.expr(sql)
