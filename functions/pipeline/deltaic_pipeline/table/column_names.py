"""Messages about columns that rows or a table do not have."""

from collections.abc import Iterable

from deltaic_terminal.nearest import did_you_mean

THE_TABLE = "the table, which gets no other without evolve_schema"


def missing_in(name: str, columns: Iterable[str], owner: str) -> str | None:
    """Return what to say of a column that somebody does not have; None if it is there."""
    names = list(columns)
    return None if name.lower() in names_by_lower_case(names) else not_there(name, names, f"a column of {owner}")


def names_by_lower_case(names: Iterable[str]) -> dict[str, str]:
    """Return the names by their lower-case spelling."""
    return {name.lower(): name for name in names}


def not_there(name: str, names: Iterable[str], what: str) -> str:
    """Return the message for a name that is not among these names, and suggest the nearest."""
    return f"'{name}' is not {what}" + did_you_mean(name, names)
