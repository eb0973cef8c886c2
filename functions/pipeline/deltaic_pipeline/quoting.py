"""Names and texts as Spark's SQL quotes them."""


def quoted(name: str) -> str:
    """Return an identifier in backticks."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """Return a string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
